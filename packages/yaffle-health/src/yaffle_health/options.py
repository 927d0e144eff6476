"""What may be given to a manager or a decorator: anything else is refused where it is written."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from yaffle_health.errors import BadOption
from yaffle_health.model import Status

NAME_CHARS_MAX: Final = 128


def named(name: str, component_id: str | None, names: Collection[str] | None) -> None:
    """Check what an item is called; BadOption if it is none of `names`, or cannot be shown."""
    if names is not None and name not in names:
        known = ", ".join(sorted(names))
        raise BadOption("name", name, f"the names of this service's checks are: {known}")
    printable("name", name)
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


def seconds(option: str, value: float) -> float:
    """Check a time to live, in seconds; BadOption if it is negative or no number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadOption(option, value, "give a number of seconds; 0 means for ever")
    if not 0 <= value < float("inf"):
        raise BadOption(option, value, "it may not be negative; 0 means for ever")
    return float(value)
