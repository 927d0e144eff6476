"""Mapping of Heat's words for a stack to a node's status: one table, the first match wins.

A stack that failed to be updated may serve as well as before: there its members decide. A stack
that is being changed, or that somebody has put to sleep, is nobody's failure.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from yaffle.drivers.profiles.heat_stack.api.documents import Stack


class Means(StrEnum):
    """Meaning of a stack's own status for the node."""

    GONE = "gone"
    DOWN = "down"
    UNCLEAR = "unclear"
    MEMBERS = "as its members are"
    AT_BEST_UNCLEAR = "down if a member failed, else unclear"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row of the table; an empty set of words means any."""

    actions: frozenset[str]
    """The half of the status before the first underscore."""
    outcome: str
    """The other half; empty means any."""
    means: Means
    why: str


def _row(actions: str, outcome: str, means: Means, why: str) -> Row:
    return Row(actions=frozenset(actions.split()), outcome=outcome, means=means, why=why)


COMPLETE: Final = "COMPLETE"
FAILED: Final = "FAILED"
IN_PROGRESS: Final = "IN_PROGRESS"
DELETE_EVENT: Final = "DELETE"
"""Seed 1's word for what must have happened to a stack that is gone."""

ROWS: Final[tuple[Row, ...]] = (
    _row("DELETE", COMPLETE, Means.GONE, "it is deleted"),
    _row("DELETE", FAILED, Means.DOWN, "Heat could not delete all of it"),
    _row("", IN_PROGRESS, Means.UNCLEAR, "something is being done to it"),
    _row("CREATE ADOPT", FAILED, Means.DOWN, "it was never completed"),
    _row("SUSPEND", COMPLETE, Means.UNCLEAR, "somebody has put it to sleep"),
    _row("INIT", "", Means.UNCLEAR, "nothing of it was made yet"),
    _row("", COMPLETE, Means.MEMBERS, "Heat has finished with it"),
    _row("CHECK SNAPSHOT", FAILED, Means.MEMBERS, "that changed nothing of it"),
    _row("", FAILED, Means.AT_BEST_UNCLEAR, "Heat could not finish what it was asked for"),
)
UNKNOWN: Final = Row(
    actions=frozenset(), outcome="", means=Means.UNCLEAR, why="words that we do not know"
)


def row_of(stack: Stack) -> Row:
    """Return the row that a stack is in."""
    action, _, outcome = stack.status.partition("_")
    for row in ROWS:
        if row.actions and action not in row.actions:
            continue
        if row.outcome and outcome != row.outcome:
            continue
        return row
    return UNKNOWN
