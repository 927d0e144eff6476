"""One step of an action, and what it came to: the values that stages, executor and endings share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from yaffle.core.ladder import Next, Result
from yaffle.model.bounds import CALL_MIN_S
from yaffle.model.operations import EMPTY, Proof

if TYPE_CHECKING:
    from yaffle.engine.kit import Kit
    from yaffle.engine.session import Session
    from yaffle.engine.snapshot import Snapshot
    from yaffle.model.operations import Target
    from yaffle.model.policy import RecoveryAction
    from yaffle.store.actions import Ticket
    from yaffle.store.records import ActionRow, NodeRow, StepRow

CALL_S: Final = 4.0
"""Longest single call to a driver; well below a lease, so that no call outlives the right to act."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Everything a stage needs to know."""

    kit: Kit
    session: Session
    action: ActionRow
    ticket: Ticket
    node: NodeRow
    target: Target
    snapshot: Snapshot
    rung: RecoveryAction
    place: Next
    row: StepRow
    resumed: bool
    """Whether another life of an engine began this step."""
    superseded: Callable[[], Awaitable[bool]]

    def left_s(self) -> float:
        """Seconds until this step's deadline."""
        return (self.row.deadline_us - self.kit.clock.now_us()) / 1e6

    def call_s(self) -> float:
        """How long one call to a driver may take now; no call outlives the right to act."""
        longest = min(CALL_S, self.kit.settings.lease * 0.4)
        return max(CALL_MIN_S, min(longest, self.left_s()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a step came to, and what it changed."""

    result: Result
    detail: str
    data: Mapping[str, object] = field(default_factory=lambda: EMPTY)
    physical_id: str | None = None
    attributes: Mapping[str, object] | None = None
    restarted: bool = False
    """The node began a new life: grace starts again."""
    proof: Proof | None = None
    evidence: str | None = None
    debris: bool = False
    """Remains are left that somebody has to go on deleting."""
