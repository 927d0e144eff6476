"""What may be given to a manager or a decorator: anything else is refused where it is written."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, TypeGuard

from yaffle_health.errors import BadOption
from yaffle_health.model import Status

NAME_CHARS_MAX: Final = 128
SECONDS_MAX: Final = 31_557_600_000.0


def named(name: str, component_id: str | None, names: Collection[str] | None) -> None:
    """Check what an item is called; BadOption if it is none of `names`, or cannot be shown."""
    printable("name", name)
    if names is not None and name not in names:
        known = ", ".join(sorted(names))
        raise BadOption("name", name, f"the names of this service's checks are: {known}")
    if component_id is not None:
        printable("component_id", component_id)


def status_of(word: Status | str) -> Status:
    """Check a status; BadOption if it is none of the words that `Status.parse` knows."""
    if isinstance(word, Status):
        return word
    try:
        return Status.parse(word)
    except (AttributeError, ValueError) as error:
        raise BadOption("status", word, "use pass, warn or fail") from error


def printable(option: str, text: str) -> str:
    """Check a name that will be shown; BadOption if it is no printable text or is too long."""
    if not isinstance(text, str) or not text or not text.isprintable():
        raise BadOption(option, text, "use printable characters, at least one")
    if len(text) > NAME_CHARS_MAX:
        raise BadOption(option, text, f"it has more than {NAME_CHARS_MAX} characters")
    return text


def text(option: str, value: str | None) -> str | None:
    """Check what a service says about itself; BadOption if it is neither a text nor None."""
    if value is not None and not isinstance(value, str):
        raise BadOption(option, value, "give a text")
    return value


def texts(option: str, values: Iterable[str]) -> frozenset[str]:
    """Check a list of names; BadOption for a lone text, whose letters would be taken for names."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise BadOption(option, values, "give a list of names, not one name")
    return frozenset([printable(option, each) for each in values])


def listed(option: str, values: Mapping[str, Iterable[str]] | None) -> dict[str, frozenset[str]]:
    """Check names under names; BadOption as `texts`."""
    if values is None:
        return {}
    if not isinstance(values, Mapping):
        raise BadOption(option, values, "give a mapping from each group to its list of names")
    return {printable(option, key): texts(option, each) for key, each in values.items()}


def seconds(option: str, value: float) -> float:
    """Check a time to live, in seconds; BadOption if it is negative or no number."""
    if not is_number(value):
        raise BadOption(option, value, "give a number of seconds; 0 means for ever")
    if not 0 <= value <= SECONDS_MAX:
        why = "it must be from 0, which means for ever, to a thousand years"
        raise BadOption(option, value, why)
    return float(value)


def whole(option: str, value: int, *, least: int) -> int:
    """Check a count; BadOption if it is no whole number or too small."""
    if not is_whole(value) or value < least:
        raise BadOption(option, value, f"must be a whole number, at least {least}")
    return value


def is_number(value: object) -> TypeGuard[float]:
    """Whether it is a number; True and False are none, nor is a text of digits."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_whole(value: object) -> TypeGuard[int]:
    """Whether it is a whole number."""
    return isinstance(value, int) and not isinstance(value, bool)
