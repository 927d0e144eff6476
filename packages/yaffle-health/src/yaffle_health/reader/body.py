"""The body of an answer as a `Health`: the seed's shape, the IETF draft's, Spring's, or one word.

Readers are generous (draft-inadarei-api-health-check-06 §3; ADR 0020): every alias, any case,
missing checks and unknown keys are fine. What is not understood is remarked on, never guessed.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
from collections.abc import Iterator, Mapping
from typing import Final

from yaffle_health.model import Check, Health, Service, Status

OUTPUT_CHARS_MAX: Final = 1024
NAME_CHARS_MAX: Final = 256
CHECKS_MAX: Final = 10_000
WORD_CHARS_MAX: Final = 16
SENTENCE_CHARS_MAX: Final = 1024
# Spring's other two words (org.springframework.boot.actuate.health.Status).
SPRING: Final = {"out_of_service": Status.FAIL, "unknown": Status.WARN}

Object = Mapping[str, object]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """What a body says: `status` None if it does not say; `health` None if it is no object at all.

    `sentence` is a body that is one short line for people, such as which groups there are.
    """

    status: Status | None = None
    health: Health | None = None
    remarks: tuple[str, ...] = ()
    sentence: str | None = None


def understand(body: bytes, *, now: dt.datetime) -> Document:
    """Read a body; never raises. `now` (aware) gives the checks their ages."""
    text = body.decode("utf-8", "replace").strip()
    if not text:
        return Document(remarks=("the body is empty",))
    if not text.startswith("{"):
        return _word(text)
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        return Document(remarks=(f"the body is not JSON: {str(error)[:80]}",))
    if not isinstance(found, dict):  # pragma: no cover - a text that begins with { is an object
        return Document(remarks=("the body is not a JSON object",))
    return _object(found, now)


def _word(text: str) -> Document:
    if len(text) <= WORD_CHARS_MAX:
        status = _status(text)
        if status is not None:
            return Document(status=status)
    plain = len(text) <= SENTENCE_CHARS_MAX and "\n" not in text and not text.startswith("<")
    return Document(
        remarks=("the body is not a health document",), sentence=text if plain else None
    )


def _object(found: Object, now: dt.datetime) -> Document:
    remarks: list[str] = []
    word = _get(found, "status")
    status = _status(word) if isinstance(word, str) else None
    if status is None:
        said = "no status" if word is None else f"status {str(word)[:40]!r}, which is not one"
        remarks.append(f"the body has {said}")
    checks = tuple(_checks(found, now, remarks))
    health = None
    if status is not None:
        health = Health(
            status=status,
            service=_service(found),
            checks=tuple(sorted(checks, key=lambda c: (c.name, c.component_id or ""))),
        )
    return Document(status=status, health=health, remarks=tuple(remarks))


def _get(found: Object, key: str) -> object:
    if key in found:
        return found[key]
    return next((value for name, value in found.items() if name.lower() == key.lower()), None)


def _status(word: str) -> Status | None:
    try:
        return Status.parse(word)
    except ValueError:
        return SPRING.get(word.strip().lower())


def _text(value: object, chars: int = NAME_CHARS_MAX) -> str | None:
    if value is None or isinstance(value, dict | list):
        return None
    return str(value)[:chars]


def _service(found: Object) -> Service:
    notes = _get(found, "notes")
    said = dict(_notes(notes))
    # `version` is the service's own in the draft and the format's in the seed, where notes is an object.
    release = None if isinstance(notes, dict) else _text(_get(found, "version"))
    return Service(
        service_id=_text(_get(found, "serviceId")) or "",
        description=_text(_get(found, "description")) or "",
        host=said.get("host", ""),
        hostname=said.get("hostname"),
        release=_text(_get(found, "releaseId")) or release,
    )


def _notes(notes: object) -> Iterator[tuple[str, str]]:
    if isinstance(notes, dict):
        for key, value in notes.items():
            yield str(key).lower(), str(value)[:NAME_CHARS_MAX]
    elif isinstance(notes, list):
        for note in notes:
            key, equals, value = str(note)[: 2 * NAME_CHARS_MAX].partition("=")
            if equals:
                yield key.strip().lower(), value.strip()


def _checks(found: Object, now: dt.datetime, remarks: list[str]) -> Iterator[Check]:
    checks = _get(found, "checks")
    if checks is None:
        checks = _get(found, "components")  # Spring's word
    if checks is None:
        return
    if not isinstance(checks, dict):
        remarks.append("checks is not an object")
        return
    count = 0
    for name, value in checks.items():
        for element in value if isinstance(value, list) else [value]:
            if count == CHECKS_MAX:
                remarks.append(f"more than {CHECKS_MAX} checks; the others are left out")
                return
            count += 1
            if isinstance(element, dict):
                details = element.get("details")
                told = details if isinstance(details, dict) and "status" in details else element
                key = name if isinstance(value, list) else _name_of(name, told)
                yield _check(key[:NAME_CHARS_MAX], told, now)
            else:
                remarks.append(f"check {name[:40]!r} is not an object")


def _name_of(key: str, element: Object) -> str:
    """The name, where it has one entry only: its component is in the key too, perhaps numbered."""
    component_id = _text(_get(element, "componentId"))
    if component_id is None:
        return key
    before, colon, number = key.rpartition(f":{component_id}")
    told_apart = not number or (number[0] == "#" and number[1:].isdecimal())
    return before if colon and before and told_apart else key


def _check(name: str, element: Object, now: dt.datetime) -> Check:
    word = _get(element, "status")
    output = _text(_get(element, "output"), OUTPUT_CHARS_MAX)
    # The draft makes status optional: an element that has none only measures something.
    status = Status.PASS if word is None else _status(str(word))
    if status is None:
        status = Status.WARN
        output = output or f"its status is {str(word)[:40]!r}, which is not one"
    time = _time(_get(element, "time"), now)
    last = _get(element, "lastStatus")
    component_id = _text(_get(element, "componentId"))
    return Check(
        name=name,
        status=status,
        time=time,
        age_s=max(0.0, (now - time).total_seconds()),
        component_id=component_id,
        component_type=_text(_get(element, "componentType")) or "component",
        output=None if status is Status.PASS else output,
        expired=last is not None,
        last_status=(_status(last) if isinstance(last, str) else None) or status,
    )


def _time(value: object, now: dt.datetime) -> dt.datetime:
    if not isinstance(value, str):
        return now
    try:
        read = dt.datetime.fromisoformat(value)
        aware = read if read.tzinfo is not None else read.replace(tzinfo=dt.UTC)
        return aware.astimezone(dt.UTC)
    except (ValueError, OverflowError):
        return now
