"""A seeded hand that harms nodes, engines, networks and the database at random, and mends it again.

What lasts is mended by a list of what is due, so that harms overlap as they do on bad nights. Each
deed is kept for the judge; nothing here looks at how Yaffle works inside.
"""

from __future__ import annotations

import heapq
import itertools
import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import httpx
from tests.chaos.fleet.engines import Engine
from tests.chaos.fleet.evidence import Deed
from tests.chaos.fleet.proxy import Mode
from tests.chaos.fleet.scenario import Trouble
from tests.chaos.fleet.server import ended, keep
from tests.chaos.lab import now_us
from tests.servers.clock import FAKETIME

CUTS = (Mode.STALL, Mode.MUTE, Mode.HOLE, Mode.REFUSE, Mode.SLOW)
QUIET_S = 5.0


@dataclass
class Mischief:
    """Acts for a while, then mends everything."""

    here: Trouble
    rng: random.Random
    pace_s: tuple[float, float]
    _due: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _numbers: itertools.count[int] = field(default_factory=itertools.count)
    _kept: bool = False
    _back: bool = False

    def act(self, seconds: float) -> None:
        """Do random harm for so long."""
        until_s = time.monotonic() + seconds
        names = [name for name, weight in WEIGHTS.items() for _ in range(weight)]
        while time.monotonic() < until_s:
            name = self.rng.choice(names)
            at_us = now_us()
            whom = DEEDS[name](self)
            if whom is not None:
                self.here.deeds.append(
                    Deed(at_us, name, whom, at_us if name in LIGHT else now_us())
                )
            self._mend_until(time.monotonic() + self.rng.uniform(*self.pace_s))

    def calm(self) -> None:
        """Mend what is harmed, now."""
        while self._due:
            heapq.heappop(self._due)[2]()
        fleet = self.here.fleet
        fleet.receiver.broken = False
        for name in fleet.nodes():
            fleet.diaries.manner(name)
            fleet.diaries.signal(name, signal.SIGCONT)
        for engine in fleet.engines.values():
            if not engine.alive:
                engine.start()
            engine.ready()
        self._lift_all()
        self.here.deeds.append(Deed(now_us(), "calm"))

    def _lift_all(self) -> None:
        """Lift every stop; who comes back late with newer turns in mind sets another one."""
        looks = self.here.observer.looks
        quiet_s = time.monotonic()
        while self._back and time.monotonic() < quiet_s + QUIET_S:
            if looks[-1].stopped:
                self.here.lift()
                quiet_s = time.monotonic()
            time.sleep(0.3)
        self._back = False

    def _later(self, seconds: float, what: Callable[[], None]) -> None:
        heapq.heappush(self._due, (time.monotonic() + seconds, next(self._numbers), what))

    def _mend_until(self, until_s: float) -> None:
        while (now_s := time.monotonic()) < until_s:
            if self._due and self._due[0][0] <= now_s:
                heapq.heappop(self._due)[2]()
                self.here.deeds.append(Deed(now_us(), "mended"))
            time.sleep(0.02)

    # --- to nodes ----------------------------------------------------------------------------------

    def _node(self) -> str:
        names = [
            f"{c}-{n}" for c, size in self.here.fleet.sizes.items() for n in range(1, size + 1)
        ]
        return self.rng.choice(names)

    def kill_node(self) -> str:
        name = self._node()
        return f"{name} {self.here.fleet.diaries.signal(name, signal.SIGKILL)}"

    def stop_node(self) -> str:
        name = self._node()
        return f"{name} {self.here.fleet.diaries.signal(name, signal.SIGSTOP)}"

    def stubborn_node(self) -> str:
        return self._manner("ignore-term")

    def crashing_node(self) -> str:
        return self._manner(f"crash {self.rng.randint(1, 3)}")

    def flapping_node(self) -> str:
        return self._manner(f"die-after {self.rng.uniform(0.3, 4):.2f}")

    def slow_node(self) -> str:
        return self._manner(f"slow {self.rng.uniform(0.5, 3):.2f}")

    def _manner(self, words: str) -> str:
        name = self._node()
        self.here.fleet.diaries.manner(name, words)
        self.here.fleet.diaries.signal(name, signal.SIGKILL)
        return f"{name} {words}"

    def well_behaved_node(self) -> str:
        name = self._node()
        self.here.fleet.diaries.manner(name)
        return name

    def storm(self) -> str:
        number = self.rng.choice([signal.SIGKILL, signal.SIGSTOP])
        for cluster, size in self.here.fleet.sizes.items():
            for member in range(1, size + 1):
                self.here.fleet.diaries.signal(f"{cluster}-{member}", number)
        return number.name

    # --- to engines --------------------------------------------------------------------------------

    def _engine(self) -> Engine | None:
        """Return an engine that is unharmed and runs."""
        well = [e for e in self.here.fleet.engines.values() if e.alive and not e.harmed]
        return self.rng.choice(well) if well else None

    def kill_engine(self) -> str | None:
        if (one := self._engine()) is None:
            return None
        one.kill()
        self._later(self.rng.uniform(0, 2.5 * self.here.fleet.lease), one.start)
        return one.name

    def restart_engine(self) -> str | None:
        if (one := self._engine()) is None:
            return None
        code, said = one.quit(), one.said()
        # Before it has come so far, a signal ends it as it ends any program.
        early = code == -signal.SIGTERM and "session began" not in said
        assert code == 0 or early, f"{one.name} ended with {code}:\n{said[-3000:]}"
        self._later(self.rng.uniform(0, 2), one.start)
        return one.name

    def freeze_engine(self) -> str | None:
        if (one := self._engine()) is None:
            return None
        lease_s = self.here.fleet.lease
        for_s = self.rng.choice([0.3, 0.9, 1.1, 2.5, 10]) * lease_s
        one.freeze()
        self._later(for_s, one.thaw)
        return f"{one.name} for {for_s:.1f} s"

    def cut_database(self) -> str | None:
        if (one := self._engine()) is None:
            return None
        mode = self.rng.choice(CUTS)
        for_s = self.rng.choice([0.2, 0.8, 1.5, 3]) * self.here.fleet.lease
        one.cut_database(mode)
        self._later(for_s, one.mend_database)
        return f"{one.name} {mode} for {for_s:.1f} s"

    def reset_database(self) -> str | None:
        if (one := self._engine()) is None:
            return None
        one.network.reset(one.database)
        return one.name

    def cut_nodes(self) -> str | None:
        one = self._engine()
        if one is None or one.space is None:
            return None
        one.cut_nodes()
        self._later(self.rng.uniform(1, 4 * self.here.fleet.lease), one.mend_nodes)
        return one.name

    def step_clock(self) -> str | None:
        one = self._engine()
        if one is None or not FAKETIME.exists():
            return None
        by_s = self.rng.choice([-3600.0, -60.0, -3.0, 3.0, 60.0, 3600.0])
        one.step_clock(by_s)
        self._later(self.rng.uniform(2, 20), lambda: one.step_clock(0.0) if one.alive else None)
        return f"{one.name} {by_s:+g} s"

    def fill_disk(self) -> str | None:
        # Its log is a file, too: the line that says it is ready must not be lost.
        if (one := self._engine()) is None or not one.is_ready:
            return None
        one.fill_disk()
        pid = one.pid

        def free() -> None:
            if one.alive and one.pid == pid:
                one.free_disk()

        self._later(self.rng.uniform(1, 10), free)
        return one.name

    # --- to what all share -------------------------------------------------------------------------

    def outage(self) -> str:
        self.here.outage(self.rng.choice([0.0, 0.5, 1.5]) * self.here.fleet.lease)
        return ""

    def hang(self) -> str:
        self.here.hang(self.rng.uniform(0.1, 2 * self.here.fleet.lease))
        return ""

    def restart_database(self) -> str:
        server = self.here.fleet.server
        with self.here.deed("database restarted"):
            ended(server)
            server.start()
        return ""

    def keep_database(self) -> str | None:
        if self._kept:
            return None
        with self.here.deed("database kept"):
            keep(self.here.fleet.server)
        self._kept = True
        return ""

    def back_in_time(self) -> str | None:
        if not self._kept or self._back:
            return None
        self.here.back_in_time()
        self._back = True
        self._later(self.rng.uniform(3, 10), self._lift)
        return ""

    def _lift(self) -> None:
        try:
            self.here.lift()
        except httpx.HTTPError:
            self._later(2.0, self._lift)

    def break_receiver(self) -> str:
        self.here.fleet.receiver.broken = not self.here.fleet.receiver.broken
        return str(self.here.fleet.receiver.broken)


WEIGHTS = {
    "kill_node": 8,
    "stop_node": 5,
    "stubborn_node": 2,
    "crashing_node": 1,
    "flapping_node": 1,
    "slow_node": 2,
    "well_behaved_node": 8,
    "storm": 1,
    "kill_engine": 5,
    "restart_engine": 1,
    "freeze_engine": 5,
    "cut_database": 5,
    "reset_database": 1,
    "cut_nodes": 2,
    "step_clock": 2,
    "fill_disk": 1,
    "outage": 1,
    "hang": 1,
    "restart_database": 1,
    "keep_database": 1,
    "back_in_time": 1,
    "break_receiver": 2,
}
LIGHT = frozenset(
    {
        "kill_node", "stop_node", "stubborn_node", "crashing_node", "flapping_node", "slow_node",
        "well_behaved_node", "storm", "break_receiver",
    }
)  # fmt: skip
DEEDS: dict[str, Callable[[Mischief], str | None]] = {
    name: getattr(Mischief, name) for name in WEIGHTS
}
