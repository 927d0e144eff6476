"""What a manager remembers of its last answers, to know at a glance that they are still true."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from yaffle_health.judge import Row, Rules
from yaffle_health.model import Health
from yaffle_health.source import Source


class Heard(NamedTuple):
    """What a reading is made of: when, and of what there was then."""

    now: float
    state: object
    rules: Rules
    sources: tuple[Source, ...]


class Seen(NamedTuple):
    """A health that was told, and what has to be as it was for it to be told again."""

    state: object
    rules: Rules
    sources: tuple[Source, ...]
    until: float
    health: Health


class EveryGroup(NamedTuple):
    """All rows of the whole (None) and of each group at the moment `now`, and what they stand on."""

    state: object
    rules: Rules
    sources: tuple[Source, ...]
    until: float
    now: float
    rows: Mapping[str | None, list[Row]]


def serves(last: Seen | EveryGroup, state: object, rules: Rules, now: float) -> bool:
    """Whether neither anybody nor the time has changed it."""
    return last.state is state and last.rules is rules and now < last.until
