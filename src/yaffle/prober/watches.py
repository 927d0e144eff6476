"""Keeps the pace: every target of a watch once per interval, spread evenly, on a grid of its own.

A target's place within the interval comes from its node id alone, so that a new schedule, or a new
prober, goes on in the old rhythm instead of asking everybody at once.
"""

from __future__ import annotations

import hashlib
import math
import random
from typing import TYPE_CHECKING, Final

from yaffle.prober.check import Check, Report, Rules, State, ready

if TYPE_CHECKING:
    from collections.abc import Callable

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
    """One target's timer."""

    __slots__ = ("_interval_s", "_loop", "_number", "_planned_s", "_share", "check", "due", "key")

    def __init__(self, loop: Loop, key: tuple[str, str], check: Check, interval_s: float) -> None:
        self._loop = loop
        self._interval_s = interval_s
        self._planned_s = 0.0
        self._share = share(key[0])
        self.key = key
        self.check = check
        self.due = 0
        self._number = math.ceil(loop.now / interval_s - self._share)
        self._plan()

    def _plan(self) -> None:
        jitter = (2 * _chance() - 1) * JITTER
        self._planned_s = (self._number + self._share + jitter) * self._interval_s
        self._loop.wheel.put(self, self._planned_s)

    def fire(self) -> None:
        """Ask, unless the last round is still going on; then plan the next one."""
        now = self._loop.now
        late = now - self._planned_s > STALE_S
        passed = math.floor(now / self._interval_s - self._share + 0.5)
        self._number = max(self._number, passed) + 1
        self._plan()
        if not late and self.check.state is State.RESTING:
            self.check.begin(self._interval_s)

    def stop(self) -> None:
        """Leave the wheel and close everything."""
        self._loop.wheel.cancel(self)
        self.check.abandon()


class Watches:
    """Every schedule that is in force."""

    def __init__(self, loop: Loop, deliver: Callable[[int, int, str, str, int], None]) -> None:
        """`deliver` gets the number of the schedule, then what a `Report` gets."""
        self._loop = loop
        self._deliver = deliver
        self._watches: dict[str, tuple[Schedule, dict[tuple[str, str], Round]]] = {}

    def replace(self, schedule: Schedule) -> None:
        """Put `schedule` in force; targets that stay as they were keep their rhythm."""
        old, rounds = self._watches.pop(schedule.watch_id, (None, {}))
        if old is not None and (old.options, old.interval_s) != (
            schedule.options,
            schedule.interval_s,
        ):
            _stop(rounds)
            rounds = {}
        rules = ready(schedule.options)
        number, deliver = schedule.number, self._deliver

        def report(index: int, code: str, detail: str, took_us: int) -> None:
            deliver(number, index, code, detail, took_us)

        fresh: dict[tuple[str, str], Round] = {}
        for index, ask in enumerate(schedule.asks):
            key = (ask.node_id, ask.url)
            kept = rounds.pop(key, None)
            if kept is not None:
                kept.check.hand_over(index, report)
                fresh[key] = kept
            elif key not in fresh:
                fresh[key] = self._round(key, rules, index, report, schedule.interval_s)
        _stop(rounds)
        self._watches[schedule.watch_id] = (schedule, fresh)

    def _round(
        self, key: tuple[str, str], rules: Rules, index: int, report: Report, interval_s: float
    ) -> Round:
        check = Check(self._loop, key[1], rules, index, report)
        return Round(self._loop, key, check, interval_s)

    def remove(self, watch_id: str) -> None:
        """Stop that watch."""
        _, rounds = self._watches.pop(watch_id, (None, {}))
        _stop(rounds)


def _stop(rounds: dict[tuple[str, str], Round]) -> None:
    for one in rounds.values():
        one.stop()
