"""One stretch of trouble: looked on from outside from before it begins until all is well, then judged."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.chaos.fleet.evidence import Deed, History
from tests.chaos.fleet.judge import faults, history_of
from tests.chaos.fleet.lab import HEALED_S, Fleet
from tests.chaos.fleet.observer import Observer, observing
from tests.chaos.fleet.server import ERRORS, Reader, go_back
from tests.chaos.lab import TOLD_S, now_us

EXCUSED_MAX = 3.0


@dataclass
class Trouble:
    """What is done to one fleet while an observer looks on; made by `trouble`."""

    fleet: Fleet
    observer: Observer
    deeds: list[Deed] = field(default_factory=list)

    @contextmanager
    def deed(self, what: str, whom: str = "") -> Iterator[None]:
        """Keep that something was done, and how long it lasted."""
        at_us = now_us()
        try:
            yield
        finally:
            self.deeds.append(Deed(at_us, what, whom, now_us()))

    def settle(self, bound_s: float) -> None:
        """Wait until all is well, then until it is told; a machine that was held up gets more time.

        A message that a broken receiver refused ten times rests for minutes.
        """
        self._wait(self.fleet.healthy, bound_s, "well")
        self._wait(lambda: self.fleet.healthy() and self.fleet.told(), TOLD_S, "told")

    def _wait(self, holds: Callable[[], bool], bound_s: float, what: str) -> None:
        began_s, began_us = time.monotonic(), now_us()
        while not holds():
            waited_s = sum(by for at, by in self.observer.late if at > began_us) / 1e6
            if time.monotonic() - began_s > bound_s + min(waited_s, EXCUSED_MAX * bound_s):
                raise AssertionError(f"not {what} within {bound_s:g} s\n{self.fleet.story()}")
            time.sleep(0.1)

    # --- to the database ---------------------------------------------------------------------------

    def outage(self, seconds: float) -> None:
        """Let the database end as in a power cut and stay away for a while."""
        with self.deed("database away"):
            self.fleet.server.kill()
            time.sleep(seconds)
            self.fleet.server.start()

    def hang(self, seconds: float) -> None:
        """Let the database hang."""
        with self.deed("database frozen"):
            self.fleet.server.freeze()
            time.sleep(seconds)
            self.fleet.server.thaw()

    def back_in_time(self) -> None:
        """Put an older state of the database back, as a fail-over that lost commits does."""
        at_us = now_us()
        self.observer.went_back()
        go_back(self.fleet.server)
        self.observer.went_back()
        self.deeds.append(Deed(at_us, "went back", "", now_us()))

    def lift(self) -> None:
        """A person has looked, and lets healing go on."""
        self.deeds.append(Deed(now_us(), "lifted"))
        self.fleet.ask("DELETE", "/yaffle/v1/stop")

    def step_seen(self, stage: str, phase: str, bound_s: float = 30.0) -> bool:
        """Wait until some recovery under way has come to that phase; False where it was missed."""
        reader = Reader(self.fleet.server, self.fleet.database, patience_s=30)
        sql = (
            "select s.phase from steps s join actions a on a.id = s.action_id where a.end_us is null"
            " and a.action = 'NODE_RECOVER' and s.stage = %s"
        )
        until_s = time.monotonic() + bound_s
        try:
            while time.monotonic() < until_s:
                found = [r["phase"] for r in reader.rows(sql, stage)]
                if phase in found:
                    return True
                if found:
                    return False
                time.sleep(0.002)
        except ERRORS:
            return False
        finally:
            reader.close()
        return False


@contextmanager
def trouble(fleet: Fleet, document: str, *, healed_s: float = HEALED_S) -> Iterator[Trouble]:
    """Look on while the block makes trouble; afterwards everything has to be well, and clean."""

    def connect() -> Reader:
        return Reader(fleet.server, fleet.database)

    fleet.receiver.forged.clear()
    fleet.receiver.news.clear()
    fleet.forget_falls()
    with observing(connect, fleet.diaries, fleet.workers) as observer:
        fleet.wait(lambda: observer.looks and observer.looks[-1].db_us, 60, "the observer looks on")
        made = Trouble(fleet, observer)
        try:
            yield made
            made.settle(healed_s)
        except AssertionError:
            fleet.mend()
            raise
    found = faults(history := history_of(fleet, observer, made.deeds, document=document))
    if found:
        raise AssertionError("\n".join([*found, "--- what was done", *told(history)]))


def told(history: History) -> Iterator[str]:
    """Yield what was done to the fleet and its engines, in order."""
    lines = [(d.at_us, f"{d.what} {d.whom}, until {d.end_us / 1e6:.3f}") for d in history.deeds]
    for name, states in history.engines.items():
        lines += [(s.at_us, f"{name}: {s.word}") for s in states]
    for at_us, line in sorted(lines):
        yield f"{at_us / 1e6:.3f} {line}"
