"""One step's inputs and outcome: the values that stages, executor and completion share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import structlog

from yaffle.core.recovery.ladder import Next, Result
from yaffle.engine.action_inputs.recover_requests import waited_for
from yaffle.errors import StoreUnavailable
from yaffle.model.operations import EMPTY, Proof
from yaffle.model.timing import CALL_MIN_S, follow_pause_s
from yaffle.store import observer_partitions

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from yaffle.engine.action_inputs.policy_snapshot import PolicySnapshot
    from yaffle.engine.runtime.context import EngineContext
    from yaffle.engine.runtime.session import Session
    from yaffle.model.operations import Target
    from yaffle.model.policy import RecoveryAction
    from yaffle.store.actions import Ticket
    from yaffle.store.rows import ActionRow, NodeRow, StepRow

log = structlog.get_logger()

CALL_S: Final = 4.0
"""Longest single call to a driver; well below a lease, so that no call outlives the right to act."""


class Refused(Exception):
    """Raised when an act must not begin: a user's action took over, or an operator said stop."""

    def __init__(self, result: Result, why: str) -> None:
        super().__init__(why)
        self.result = result
        self.why = why


@dataclass(frozen=True, slots=True, kw_only=True)
class StepExecution:
    """The inputs of one stage."""

    ctx: EngineContext
    session: Session
    action: ActionRow
    ticket: Ticket
    node: NodeRow
    target: Target
    snapshot: PolicySnapshot
    rung: RecoveryAction
    place: Next
    row: StepRow
    resumed: bool
    """Whether another life of an engine began this step."""
    deadline_s: float
    """Monotonic, so that a wall clock that jumps neither fails nor prolongs what is under way."""
    refusal: Callable[[Connection], tuple[Result, str] | None]
    """Why no further act may begin, asked in a transaction; None while all is well."""
    image: str = ""
    """The snapshot that the new disk is made from; empty for the profile's own image."""
    renewed: Mapping[str, object] | None = None
    """The properties of the copy that is to be made, where they are not the target's."""

    @property
    def insisted(self) -> bool:
        """Whether a mark or a person's request outweighs a healthy look.

        Not a request that had to wait: it spoke of the node as it was.
        """
        asked = self.snapshot.force and not waited_for(self.action)
        return self.node.mark_reason is not None or asked

    def left_s(self) -> float:
        """Seconds until this step's deadline."""
        return self.deadline_s - self.ctx.clock.monotonic_s()

    async def pause(self, usual_s: float, answer_s: float) -> None:
        """Wait before the backend, which took `answer_s` to answer, is asked again how it goes."""
        followers = self.ctx.followers[self.target.profile_type]
        pause_s = follow_pause_s(usual_s, answer_s, followers, self.left_s())
        await self.ctx.clock.sleep(pause_s)

    def call_s(self) -> float:
        """Return how long one call to a driver may take now; no call outlives the right to act."""
        return max(CALL_MIN_S, min(self.session.call_s(CALL_S), self.left_s()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of a step, and what it changed."""

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
    left_host: str = ""
    """The machine that the copy was, or may have been, moved off."""


async def ask_leave(step: StepExecution) -> None:
    """Raise Refused if no further act may begin now."""
    refusal = await step.session.write(step.refusal)
    if refusal is not None:
        raise Refused(*refusal)


async def superseded(step: StepExecution) -> bool:
    """Whether a user's action wants this node; an outage counts as no, the next write finds out."""
    try:
        refusal = await step.ctx.store.read(step.refusal)
    except StoreUnavailable:
        return False
    return refusal is not None and refusal[0] is Result.SUPERSEDED


async def cannot_see(step: StepExecution) -> bool:
    """Whether this engine is blind for the node's cluster; true also where that cannot be read."""
    ident, me = step.node.cluster_id, step.session.me
    if ident is None:
        return False
    if ident in step.ctx.tally.blind:
        return True
    try:
        return await step.ctx.store.read(lambda conn: observer_partitions.covers(conn, me, ident))
    except StoreUnavailable:
        return True
