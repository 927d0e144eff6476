"""What an engine's executor reaches drivers with: the referee is asked before each call, with its end.

The question comes before the engine can be stopped inside the call: whoever stands still there has
made the call, whatever becomes of its lease then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.sim.fleet.fleet import Life

    from yaffle.model.operations import Operation, Target


def nothing(_kind: str, _operation_id: str, _target: Target) -> None:
    """Ask nobody: what a gate below these hands does."""


class Hands:
    """A profile, or a fencer, whose calls that change something are judged first."""

    def __init__(self, inner: Any, life: Life) -> None:
        self._inner, self._life = inner, life

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def submit(self, op: Operation, *, operation_id: str, deadline_s: float) -> Any:
        self._judged(op.kind, operation_id, op.target, deadline_s)
        return await self._inner.submit(op, operation_id=operation_id, deadline_s=deadline_s)

    async def fence(self, target: Target, *, operation_id: str, deadline_s: float) -> Any:
        self._judged("FENCE", operation_id, target, deadline_s)
        return await self._inner.fence(target, operation_id=operation_id, deadline_s=deadline_s)

    def _judged(self, kind: str, operation_id: str, target: Target, deadline_s: float) -> None:
        referee = self._life.store.fleet.referee
        referee.call(self._life, kind, operation_id, target, deadline_s)
