"""The kinds of value a document holds: numbers with bounds, flags, words, texts; each says what it wants.

Numbers and flags may be quoted, as in Senlin; other YAML spellings of a number (`010`) may not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Final

import re2
from pydantic import BeforeValidator, ValidationInfo
from pydantic_core import PydanticCustomError

from yaffle.model.policy import Threshold
from yaffle.policy import urls
from yaffle.policy.faults import listed, near_miss, shown
from yaffle.policy.reader import INTEGER
from yaffle.policy.settings import DocumentSettings

DAY: Final = 86_400
PATTERN_MAX: Final = 4096
_PATTERN_MEMORY_MAX: Final = 1 << 20
_DECIMAL: Final = re.compile(r"[-+]?[0-9]{1,15}\.[0-9]{1,15}", re.ASCII)
_POOL: Final = re.compile(r"[A-Za-z0-9_.:-]{1,128}", re.ASCII)
_PERCENT: Final = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,6})?)\s*%", re.ASCII)


def refuse(text: str) -> PydanticCustomError:
    """Return the error that pydantic collects; the text goes to people as it is."""
    # Through the context, because pydantic expands braces in the template.
    return PydanticCustomError("yaffle", "{text}", {"text": text})


def _number(value: object, wanted: str) -> int | float:
    if isinstance(value, str):
        text = value.strip()
        if INTEGER.fullmatch(text):
            return int(text)
        if _DECIMAL.fullmatch(text):
            return float(text)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        return value
    raise refuse(f"{shown(value)} is not {wanted}")


def _within(number: int | float, low: float, high: float, unit: str) -> None:
    if not low <= number <= high:
        raise refuse(f"{shown(number)} is out of range; give {low:g} to {high:g}{unit}")


def seconds(low: float, high: float = DAY) -> BeforeValidator:
    """A duration in seconds, whole or not."""

    def check(value: object) -> float:
        number = _number(value, "a number of seconds")
        _within(number, low, high, " seconds")
        return number

    return BeforeValidator(check)


def _check_interval(value: object, info: ValidationInfo) -> float:
    settings = info.context["settings"] if info.context else None
    low = settings.interval_min_s if isinstance(settings, DocumentSettings) else 1.0
    number = _number(value, "a number of seconds")
    _within(number, low, DAY, " seconds")
    return number


INTERVAL: Final = BeforeValidator(_check_interval)


def count(low: int, high: int) -> BeforeValidator:
    """A whole number."""

    def check(value: object) -> int:
        number = _number(value, "a whole number")
        if number != int(number):
            raise refuse(f"{shown(value)} is not a whole number")
        _within(number, low, high, "")
        return int(number)

    return BeforeValidator(check)


def positive(high: float) -> BeforeValidator:
    """A number above 0, whole or not."""

    def check(value: object) -> float:
        number = _number(value, "a number")
        if not 0 < number <= high:
            raise refuse(f"{shown(number)} is out of range; give more than 0, up to {high:g}")
        return number

    return BeforeValidator(check)


def count_or_unlimited(high: int) -> BeforeValidator:
    """A whole number from 1, or -1 for "as many as there are"."""

    def check(value: object) -> int:
        number = _number(value, "a whole number")
        if number != int(number):
            raise refuse(f"{shown(value)} is not a whole number")
        if number != -1 and not 1 <= number <= high:
            raise refuse(f"{shown(number)} is out of range; give 1 to {high}, or -1 for no limit")
        return int(number)

    return BeforeValidator(check)


def _check_flag(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    raise refuse(f"{shown(value)} is neither true nor false")


FLAG: Final = BeforeValidator(_check_flag)


def word(kind: type[StrEnum]) -> BeforeValidator:
    """Return the type of a word of a closed list."""

    def check(value: object) -> StrEnum:
        known = [member.value for member in kind]
        if isinstance(value, str) and value in known:
            return kind(value)
        hint = near_miss(value, known) if isinstance(value, str) else ""
        raise refuse(f"{shown(value)} is not known{hint}; known: {listed(known)}")

    return BeforeValidator(check)


def text(longest: int, shortest: int = 0) -> BeforeValidator:
    """Text; a plain number in its place is taken as written, as Senlin does."""

    def check(value: object) -> str:
        return _text(value, longest, shortest)

    return BeforeValidator(check)


def _text(value: object, longest: int, shortest: int = 0) -> str:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        value = shown(value)
    if not isinstance(value, str):
        hint = "; quote it" if isinstance(value, dict) else ""
        raise refuse(f"{shown(value)} is not text{hint}")
    if not shortest <= len(value) <= longest:
        raise refuse(f"{len(value)} characters long; give {shortest} to {longest}")
    return value


def _faultless(find: Callable[[str], Iterator[str]], longest: int) -> BeforeValidator:
    def check(value: object) -> str:
        given = _text(value, longest)
        if faults := list(find(given)):
            raise refuse("; ".join(faults))
        return given

    return BeforeValidator(check)


def _pool_faults(value: str) -> Iterator[str]:
    # HAProxy's rule for names of proxies; anything else could say more to its socket than a name.
    if not _POOL.fullmatch(value):
        yield f"{shown(value)} is not such a name; it has letters, digits and _ . : - only"


def pattern_fault(pattern: str) -> str | None:
    """Return why a regular expression cannot be used, or None; Senlin searches it in the body.

    The engine runs in linear time: no pattern of a user's can hang the prober.
    """
    if len(pattern) > PATTERN_MAX:
        return f"{len(pattern)} characters long; at most {PATTERN_MAX}"
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _PATTERN_MEMORY_MAX
    try:
        re2.compile(pattern, options)
    except re2.error as error:
        return (
            f"not a regular expression we can run: {_reason_of(error)}"
            " (RE2 syntax: no look-around, no back-references; escape text such as '(' with '\\')"
        )
    return None


def _reason_of(error: Exception) -> str:
    reason = error.args[0] if error.args else ""
    return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)


def _pattern_faults(value: str) -> Iterator[str]:
    if fault := pattern_fault(value):
        yield fault


def _poll_url_faults(value: str) -> Iterator[str]:
    # An empty one counts as missing; the rule that says so sees the whole mode.
    if value:
        yield from urls.poll_url_faults(value)


def _hook_url_faults(value: str) -> Iterator[str]:
    # An empty one counts as missing, as in a poll_url.
    if value:
        yield from urls.url_faults(value)


HOOK_URL: Final = _faultless(_hook_url_faults, urls.URL_MAX * 2)
POOL: Final = _faultless(_pool_faults, 128)
POLL_URL: Final = _faultless(_poll_url_faults, urls.URL_MAX * 2)
PATTERN: Final = _faultless(_pattern_faults, PATTERN_MAX * 2)
REFERENCE: Final = _faultless(urls.reference_faults, urls.URL_MAX * 2)


def threshold(value: object) -> Threshold:
    """Return the number of nodes that `40%` or `3` means; raise pydantic's error."""
    wanted = "a number of nodes (3) or a share of them (40%)"
    if isinstance(value, str) and (match := _PERCENT.fullmatch(value.strip())):
        share = float(match.group(1))
        _within(share, 0, 100, " percent")
        return Threshold(percent=share)
    number = _number(value, wanted)
    if number != int(number):
        raise refuse(f"{shown(value)} is not {wanted}")
    _within(number, 0, 100_000, " nodes")
    return Threshold(count=int(number))


THRESHOLD: Final = BeforeValidator(threshold)


def _check_domain(value: object) -> str:
    name = _text(value, 64, 1)
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.-]*", name, re.ASCII):
        raise refuse(f"{shown(name)} is no attribute name; give one such as availability_zone")
    return name


DOMAIN: Final = BeforeValidator(_check_domain)
