"""Keeps the pace: every target of a watch once per interval, spread evenly, on a grid of its own.

A target's place within the interval comes from its node id alone, so that a new schedule, or a new
prober, goes on in the old rhythm instead of asking everybody at once.
"""

from __future__ import annotations

import hashlib
import math
import random
from typing import TYPE_CHECKING, Final

from yaffle.prober.check import RESTING, Check, Report
from yaffle.prober.rules import ready

if TYPE_CHECKING:
    from yaffle.prober.loop import Loop
    from yaffle.prober.wire import Schedule

JITTER: Final = 0.05
"""Share of the interval by which each round may move, either way: no two fleets stay in step."""
STALE_S: Final = 0.5
"""A round that is later than this was missed by us; it is left out, not made up for in a burst."""

_chance: Final = random.Random().random


def share(node_id: str) -> float:
    """Return the node's place within every interval, from 0 to 1."""
    digest = hashlib.blake2b(node_id.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


class Round:
    """The timer of one target."""

    __slots__ = (
        "_interval_s",
        "_loop",
        "_number",
        "_planned_s",
        "_prompt_s",
        "_share",
        "check",
        "due",
    )

    def __init__(self, loop: Loop, node_id: str, check: Check, interval_s: float) -> None:
        self._loop = loop
        self._interval_s = interval_s
        self._planned_s = 0.0
        # Up to here the round that is due is surely the one that was planned, see `_catch_up`.
        self._prompt_s = min(STALE_S, (0.5 - 2 * JITTER) * interval_s)
        self._share = share(node_id)
        self.check = check
        self.due = 0
        self._number = math.ceil(loop.now / interval_s - self._share)
        self._plan()

    def _plan(self) -> None:
        jitter = (2 * _chance() - 1) * JITTER
        self._planned_s = planned_s = (self._number + self._share + jitter) * self._interval_s
        self._loop.wheel.put(self, planned_s)

    def fire(self) -> None:
        """Ask, unless the last round is still going on; then plan the next one."""
        late_s = self._loop.now - self._planned_s
        if late_s > self._prompt_s:
            self._catch_up()
        self._number += 1
        self._plan()
        if late_s <= STALE_S and self.check.state is RESTING:
            self.check.begin(self._interval_s)

    def _catch_up(self) -> None:
        """Count the rounds that nobody asked as past."""
        passed = math.floor(self._loop.now / self._interval_s - self._share + 0.5)
        self._number = max(self._number, passed)

    def stop(self) -> None:
        """Leave the wheel and close everything."""
        self._loop.wheel.cancel(self)
        self.check.abandon()


class Watches:
    """The schedules that are in force."""

    def __init__(self, loop: Loop, report: Report) -> None:
        self._loop = loop
        self._report = report
        self._watches: dict[str, dict[int, Round]] = {}

    def replace(self, schedule: Schedule) -> None:
        """Put `schedule` in force; an id that was there already keeps its rhythm."""
        loop, report = self._loop, self._report
        old = self._watches.pop(schedule.watch_id, {})
        rules = ready(schedule.options)
        rounds: dict[int, Round] = {}
        for ask in schedule.asks:
            kept = old.pop(ask.id, None)
            if kept is not None:
                rounds[ask.id] = kept
            elif ask.id not in rounds:
                check = Check(loop, ask, rules, report)
                rounds[ask.id] = Round(loop, ask.node_id, check, schedule.interval_s)
        _stop(old)
        self._watches[schedule.watch_id] = rounds

    def remove(self, watch_id: str) -> None:
        """Stop that watch."""
        _stop(self._watches.pop(watch_id, {}))


def _stop(rounds: dict[int, Round]) -> None:
    for one in rounds.values():
        one.stop()
