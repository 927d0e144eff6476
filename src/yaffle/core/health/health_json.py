"""Parses `application/health+json` in both of its shapes.

The shapes (contracts: IETF draft-inadarei-api-health-check-06, and the Nova spec of seed 4) differ in
`checks`: the draft has an array of objects under each name, the spec one object. Aliases count in
any case: ok and up for pass, error and down for fail.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from yaffle.model.health import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MEDIA_TYPE: Final = "application/health+json"
BODY_BYTES_MAX: Final = 512 * 1024
_CHECKS_MAX: Final = 1_000
_TEXT_MAX: Final = 120

_WORDS: Final[Mapping[str, Outcome]] = {
    "pass": Outcome.PASS,
    "ok": Outcome.PASS,
    "up": Outcome.PASS,
    "warn": Outcome.WARN,
    "fail": Outcome.FAIL,
    "error": Outcome.FAIL,
    "down": Outcome.FAIL,
}
_BADNESS: Final[Mapping[Outcome, int]] = {Outcome.WARN: 1, Outcome.FAIL: 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthDocument:
    """A decoded health document; `status` is UNKNOWN where it could not be understood."""

    status: Outcome
    worst: str = ""
    """Name of the worst check that did not pass; empty where all passed or none is named."""
    detail: str = ""
    """One bounded line for a person: the worst check's output, or why the document is unreadable."""


def is_health_json(content_type: str) -> bool:
    """Whether this Content-Type announces a health document; parameters do not matter."""
    return content_type.partition(";")[0].strip().lower() == MEDIA_TYPE


def read(body: bytes) -> HealthDocument:
    """Understand `body`, at most 512 KiB of it; never raises."""
    if len(body) > BODY_BYTES_MAX:
        return _unreadable("larger than 512 KiB")
    try:
        document = msgspec.json.decode(body)
    # Deep nesting is answered with RecursionError, which is no ValueError.
    except (msgspec.DecodeError, ValueError, RecursionError):
        return _unreadable("not JSON")
    if not isinstance(document, dict):
        return _unreadable("not a JSON object")
    status = _outcome(document.get("status"))
    worst, output = _worst(document.get("checks"))
    output = output or _line(document.get("output"))
    if status is Outcome.UNKNOWN:
        said = _line(document.get("status"))
        return HealthDocument(
            status=status,
            worst=worst,
            detail=f"unknown status {said!r}" if said else "the document has no status",
        )
    return HealthDocument(status=status, worst=worst, detail=output)


def _unreadable(why: str) -> HealthDocument:
    return HealthDocument(status=Outcome.UNKNOWN, detail=f"the health document is {why}")


def _outcome(word: object) -> Outcome:
    if not isinstance(word, str):
        return Outcome.UNKNOWN
    return _WORDS.get(word.strip().lower(), Outcome.UNKNOWN)


def _worst(checks: object) -> tuple[str, str]:
    """Return name and output of the first check with the worst status, if any is not pass."""
    worst, name, output = 0, "", ""
    for key, check in _each(checks):
        badness = _BADNESS.get(_outcome(check.get("status")), 0)
        if badness > worst:
            worst, name, output = badness, _named(key, check), _line(check.get("output"))
    return name, output


def _each(checks: object) -> Iterator[tuple[str, dict[object, object]]]:
    """Yield every check of either shape; what has another shape is passed over."""
    if not isinstance(checks, dict):
        return
    seen = 0
    for key, value in checks.items():
        for check in value if isinstance(value, list) else [value]:
            seen += 1
            if seen > _CHECKS_MAX:
                return
            if isinstance(check, dict):
                yield str(key), check


def _named(key: str, check: dict[object, object]) -> str:
    component = _line(check.get("componentId"))
    return _line(f"{key} ({component})" if component else key)


def _line(text: object) -> str:
    """Return the first line of `text`, bounded, without control characters."""
    if not isinstance(text, str):
        return ""
    lines = text[: 4 * _TEXT_MAX].strip().splitlines()
    first = lines[0] if lines else ""
    return "".join(c for c in first if c.isprintable())[:_TEXT_MAX]
