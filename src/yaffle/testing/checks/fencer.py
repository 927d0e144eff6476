"""The promises of `ports.Fencer`: a proof when confirmed, never one otherwise, and never a lie."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from yaffle.model.operations import FenceResult, FenceVerdict
from yaffle.testing.checks.timing import SHORT_S, bounded, new_id

if TYPE_CHECKING:
    from yaffle.model.operations import Target
    from yaffle.ports import Clock, Fencer
    from yaffle.testing.checks.timing import Hang


async def check_fencer(
    fencer: Fencer,
    target: Target,
    runs: Callable[[], Awaitable[bool]],
    *,
    clock: Clock,
    hang: Hang | None = None,
) -> None:
    """Fence a running node; `runs` tells, without the fencer's help, whether it still does."""
    assert fencer.supports(target), f"{fencer.type} must support the node it is checked with"
    assert await runs(), "the check begins with a node that runs"
    if hang is not None:
        async with hang():
            late = await _fence(fencer, target, clock, SHORT_S)
        assert late.verdict is not FenceVerdict.CONFIRMED, "no answer is no proof"
    done = await _fence(fencer, target, clock)
    if done.verdict is FenceVerdict.CONFIRMED:
        assert not await runs(), "confirmed, but the node still runs"
        again = await _fence(fencer, target, clock)
        assert again.verdict is FenceVerdict.CONFIRMED, "what is dead is confirmed again"


async def _fence(
    fencer: Fencer, target: Target, clock: Clock, deadline_s: float = 10.0
) -> FenceResult:
    ident = new_id()
    done = await bounded(
        clock,
        "fence",
        lambda s: fencer.fence(target, operation_id=ident, deadline_s=s),
        deadline_s,
    )
    confirmed = done.verdict is FenceVerdict.CONFIRMED
    assert (done.proof is not None) is confirmed, "a proof is there exactly when it is confirmed"
    if done.proof is not None:
        parts = (done.proof.method, done.proof.evidence, done.proof.by)
        assert all(parts), f"a proof says method, evidence and by whom: {done.proof}"
    assert done.detail, "a fencer says what it found"
    return done
