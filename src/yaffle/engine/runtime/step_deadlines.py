"""Deadlines of steps by a clock that never jumps; they outlive the session that began the step.

A wall clock set forward makes leases look expired: the session ends, and the next one of this very
process inherits its steps. By the wall clock they would be over, and a proof would be waived that
was never looked for. What another process began is judged by the wall clock, for want of a better.
A step that is inherited, were it from this process' own last session, gets a least time beside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from yaffle.core.recovery.ladder import Stage
from yaffle.model.ids import ActionId

if TYPE_CHECKING:
    from yaffle.store.rows import StepRow

KNOWN_MAX: Final = 10_000
INHERITED_MIN_S: Final = 10.0
"""A successor has at least this long to ask the target: only the wall clock says that it is late."""
SHARED: Final = frozenset({Stage.ACT, Stage.CREATE, Stage.VERIFY})
"""Acting and verifying that it helped have one deadline."""

Key = tuple[ActionId, int, int]
"""Of a step its place in the journal; of those that share a deadline a place that there is not."""
_TOGETHER: Final = -1


class Deadlines:
    """The monotonic deadlines of this process' steps."""

    def __init__(self) -> None:
        self._until_s: dict[Key, float] = {}

    def get(self, step: StepRow) -> float | None:
        """Return the deadline of a step, or of the act that it verifies; None if it is unknown."""
        return self._until_s.get(_key(step))

    def keep(self, step: StepRow, until_s: float) -> float:
        """Remember a deadline and return it."""
        if len(self._until_s) >= KNOWN_MAX:
            del self._until_s[next(iter(self._until_s))]
        self._until_s[_key(step)] = until_s
        return until_s

    def forget(self, action_id: ActionId) -> None:
        """The action has ended."""
        for key in [k for k in self._until_s if k[0] == action_id]:
            del self._until_s[key]


def _key(step: StepRow) -> Key:
    return step.action_id, step.rung, _TOGETHER if step.stage in SHARED else step.seq


def inherited_s(stage: Stage, left_s: float, whole_s: float) -> float:
    """Return how long a step may go on that another session began, of this process or another.

    A fence begins anew: that nobody was there to try it is no reason to go on without a proof.
    """
    least_s = whole_s if stage is Stage.FENCE else INHERITED_MIN_S
    return min(max(left_s, least_s), whole_s)
