"""Every look that a poller took, as a judge would have noted it: who asked, when, what came of it."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from yaffle.model.health import Outcome
from yaffle.model.timing import JITTER

if TYPE_CHECKING:
    from tests.sim.fleet.fleet import Life

    from yaffle.model.health import Observation
    from yaffle.model.operations import Target
    from yaffle.model.policy import Detection, DetectionMode


@dataclass(frozen=True, slots=True)
class Look:
    """One answer about one node."""

    asked_s: float
    ended_s: float
    outcome: Outcome
    answered: bool


class Noted:
    """A detector whose pollers are overheard. What an executor asks before an act is not counted."""

    def __init__(self, inner: Any, life: Life) -> None:
        self._inner, self._life = inner, life
        self.type = inner.type

    async def check(
        self, targets: Sequence[Target], mode: DetectionMode, *, deadline_s: float
    ) -> Sequence[Observation]:
        clock = self._life.clock
        asked_s = clock.monotonic_s()
        seen: Sequence[Observation] = await self._inner.check(targets, mode, deadline_s=deadline_s)
        task = asyncio.current_task()
        if task is not None and task.get_name().startswith("poll "):
            ended_s = clock.monotonic_s()
            for one in seen:
                look = Look(asked_s, ended_s, one.outcome, one.answered)
                self._life.looks[one.node_id, one.mode].append(look)
        return seen


def notebook() -> dict[tuple[str, str], list[Look]]:
    """Return an empty one: by node and mode, in order of time."""
    return defaultdict(list)


def is_down(looks: Sequence[Look], detection: Detection, since_s: float) -> bool:
    """Whether `fall` looks in a row have failed, each asked for since then and an interval from the
    next, and fewer than `rise` have passed since. An unknown is no news.
    """
    least_s = (detection.fall - 1) * detection.interval_s * (1 - JITTER) - 1e-3
    down, passes, fails = False, 0, list[Look]()
    for look in looks:
        if look.asked_s < since_s or look.outcome is Outcome.UNKNOWN:
            continue
        if look.outcome is Outcome.FAIL:
            fails, passes = [*fails, look], 0
            last = fails[-detection.fall :]
            down |= len(last) == detection.fall and last[-1].asked_s - last[0].asked_s >= least_s
        else:
            fails, passes = [], passes + 1
            down &= passes < detection.rise
    return down
