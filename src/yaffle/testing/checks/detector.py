"""The promises of `ports.Detector`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from yaffle.core.health.check_codes import OUTCOMES, judge
from yaffle.model.health import Observation, Outcome
from yaffle.testing.checks.timing import SHORT_S, bounded

if TYPE_CHECKING:
    from yaffle.model.operations import Target
    from yaffle.model.policy import DetectionMode
    from yaffle.ports import Clock, Detector
    from yaffle.testing.checks.timing import Hang

DETAIL_MAX = 500


async def check_detector(
    detector: Detector,
    targets: Sequence[Target],
    mode: DetectionMode,
    *,
    clock: Clock,
    hang: Hang | None = None,
) -> Sequence[Observation]:
    """Ask about `targets` (at least two); return what was seen, for further checks of your own."""
    none = await bounded(clock, "check", lambda s: detector.check([], mode, deadline_s=s))
    assert list(none) == [], "no targets, no observations"
    seen = await bounded(clock, "check", lambda s: detector.check(targets, mode, deadline_s=s))
    _check_seen(seen, targets, mode)
    back = list(reversed(targets))
    again = await bounded(clock, "check", lambda s: detector.check(back, mode, deadline_s=s))
    _check_seen(again, back, mode)
    if hang is not None:
        async with hang():
            late = await bounded(
                clock, "check", lambda s: detector.check(targets, mode, deadline_s=s), SHORT_S
            )
        _check_seen(late, targets, mode)
        assert all(o.outcome is not Outcome.PASS for o in late), "silence is never a pass"
        assert not any(o.answered for o in late), "silence is not an answer"
    return seen


def _check_seen(seen: Sequence[Observation], asked: Sequence[Target], mode: DetectionMode) -> None:
    assert [o.node_id for o in seen] == [t.node_id for t in asked], (
        "one observation per target, in the order of the targets"
    )
    for one in seen:
        assert one.mode == mode.key, f"the observation is of {one.mode}, asked was {mode.key}"
        assert one.code in OUTCOMES, f"{one.code} is no row of core.outcomes"
        allowed = {judge(one.code), judge(one.code, conn_error_as_unhealthy=False)}
        assert one.outcome in allowed, f"{one.code} does not mean {one.outcome}"
        assert one.answered is OUTCOMES[one.code].answered, f"{one.code}: `answered` is its row's"
        assert len(one.detail) <= DETAIL_MAX, "the detail is one short line"
        assert "\n" not in one.detail, "the detail is one short line"
