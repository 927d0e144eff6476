"""A seeded operator who does, from outside, what bad days do: to nodes, engine, prober, database.

Nothing here looks at how Yaffle works inside. What was done, and when, is kept for the checker.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.chaos.lab import EngineGone, Lab, Refused, now_us, policy
from tests.chaos.receiver import Receiver


@dataclass(frozen=True, slots=True)
class Deed:
    """One thing done; `end_us` where it lasted."""

    at_us: int
    what: str
    whom: str = ""
    end_us: int = 0


@dataclass
class Operator:
    """Acts for a while, then calms down and tidies up."""

    here: Lab
    receiver: Receiver
    rng: random.Random
    documents: dict[str, object]
    long_freezes: bool = False
    deeds: list[Deed] = field(default_factory=list)
    clusters: set[str] = field(default_factory=set)
    made: int = 0

    def act(self, seconds: float) -> None:
        """Do random harm for so long."""
        until_s = time.monotonic() + seconds
        names = [name for name, weight in WEIGHTS.items() for _ in range(weight)]
        while time.monotonic() < until_s:
            name = self.rng.choice(names)
            began_us = now_us()
            with contextlib.suppress(EngineGone, Refused):
                whom = DEEDS[name](self) or ""
                self.deeds.append(Deed(began_us, name, whom, now_us()))
            time.sleep(self.rng.uniform(0.1, 1.0))
            if not self.here.alive:
                self._revive()

    def calm(self) -> None:
        """Undo everything that a person would have to undo."""
        here = self.here
        here.thaw()
        if not here.alive:
            self._revive()
        self.receiver.broken = False
        names = list(here.nodes())
        for name in names:
            here.manner(name)
            here.signal(name, signal.SIGCONT)
        self._patiently("lift_stop", by="calm")
        for row in here.rows("select id from pauses where lifted_us is null"):
            self._patiently("lift", row["id"], by="calm")
        for cluster in sorted(self.clusters):
            self._patiently("attach", cluster, "hp", by="calm")
            self._patiently("release", cluster, by="calm", reason="calm", for_s=600.0)
        self._patiently("update_policy", "hp", policy(**self.documents), by="calm")
        for row in here.rows("select id from incidents where state = 'exhausted'"):
            self._patiently("acknowledge", row["id"], by="calm")

    def _patiently(self, verb: str, *args: object, **named: object) -> None:
        with contextlib.suppress(Refused):
            self.here.call(verb, *args, **named)

    def _revive(self) -> None:
        down_us = now_us()
        if self.here.process is not None:
            code = self.here.process.exitcode
            assert code == -signal.SIGKILL, (
                f"the engine ended by itself with {code}:\n{self.here.log()[-5000:]}"
            )
            self.here.reap()
        time.sleep(self.rng.uniform(0, 1.5))
        self.here.start()
        self.deeds.append(Deed(down_us, "engine down", "", now_us()))

    def _node(self) -> str:
        names = [n for n, r in self.here.nodes().items() if r["status"] != "DELETING"]
        return self.rng.choice(names or ["none"])

    # --- to nodes --------------------------------------------------------------------------------

    def kill_node(self) -> str:
        name = self._node()
        return f"{name} {self.here.signal(name, signal.SIGKILL)}"

    def stop_node(self) -> str:
        name = self._node()
        return f"{name} {self.here.signal(name, signal.SIGSTOP)}"

    def pause_node(self) -> str:
        name = self._node()
        pid = self.here.signal(name, signal.SIGSTOP)
        time.sleep(self.rng.uniform(0.3, 2.5))
        self.here.signal(name, signal.SIGCONT)
        return f"{name} {pid}"

    def stubborn_node(self) -> str:
        name = self._node()
        self.here.manner(name, "ignore-term")
        self.here.signal(name, signal.SIGKILL)
        return name

    def crashing_node(self) -> str:
        name = self._node()
        self.here.manner(name, f"crash {self.rng.randint(1, 3)}")
        self.here.signal(name, signal.SIGKILL)
        return name

    def flapping_node(self) -> str:
        name = self._node()
        self.here.manner(name, f"die-after {self.rng.uniform(0.3, 4):.2f}")
        self.here.signal(name, signal.SIGKILL)
        return name

    def well_behaved_node(self) -> str:
        name = self._node()
        self.here.manner(name)
        return name

    def storm(self) -> str:
        number = self.rng.choice([signal.SIGKILL, signal.SIGSTOP])
        for name in self.here.nodes():
            self.here.signal(name, number)
        return number.name

    # --- to the engine ---------------------------------------------------------------------------

    def kill_engine(self) -> None:
        self.here.kill()

    def restart_engine(self) -> None:
        self.here.quit()
        self._revive()

    def freeze_engine(self) -> None:
        if not self.here.alive:
            return
        longest = self.here.lease * (11 if self.long_freezes else 2)
        self.here.freeze()
        began_us = now_us()
        time.sleep(self.rng.uniform(0.1, longest))
        ended_us = now_us()
        self.here.thaw()
        self.deeds.append(Deed(began_us, "frozen", "", ended_us))

    def harm_prober(self) -> str:
        pid = self.here.call("prober")
        number = self.rng.choice([signal.SIGKILL, signal.SIGSTOP])
        if pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        return f"{pid} {number.name}"

    def lock_database(self) -> None:
        conn = sqlite3.connect(self.here.state / "yaffle.db", timeout=60, isolation_level=None)
        try:
            conn.execute("begin immediate")
            time.sleep(self.rng.uniform(0.1, self.here.lease * 1.6))
            conn.execute("rollback")
        finally:
            conn.close()

    # --- what people ask for ---------------------------------------------------------------------

    def stop_all(self) -> None:
        self.here.call(
            "pause", "stop", "all", "", owner="op", reason="chaos", for_s=self.rng.uniform(1, 4)
        )

    def lift_stop(self) -> None:
        self.here.call("lift_stop", by="op")

    def maintain(self) -> str:
        name = self._node()
        self.here.call(
            "pause", "maintenance", "node", name, owner="op", reason="chaos",
            for_s=self.rng.uniform(1, 5),
        )  # fmt: skip
        return name

    def edit_policy(self) -> str:
        changed = {**self.documents, "max_unhealthy": self.rng.choice(["40%", "100%", "2"])}
        self.here.call("update_policy", "hp", policy(**changed), by="op")
        return str(changed["max_unhealthy"])

    def detach_policy(self) -> str:
        cluster = self.rng.choice(sorted(self.clusters))
        self.here.call("detach", cluster, "hp", by="op")
        return cluster

    def attach_policy(self) -> str:
        cluster = self.rng.choice(sorted(self.clusters))
        self.here.call("attach", cluster, "hp", by="op")
        return cluster

    def mark(self) -> str:
        name = self._node()
        self.here.call("mark", name, reason="chaos", by="op")
        return name

    def recover(self) -> str:
        name = self._node()
        self.here.call("recover", name, by="op")
        return name

    def new_cluster(self) -> str:
        if len(self.clusters) >= 3:
            return ""
        self.made += 1
        name = f"x{self.made}"
        self.here.cluster(name, 2, policy_name="hp")
        self.clusters.add(name)
        return name

    def delete_cluster(self) -> str:
        extra = sorted(self.clusters - {"c"})
        if not extra:
            return ""
        name = self.rng.choice(extra)
        self.here.call("delete_cluster", name, by="op")
        self.clusters.discard(name)
        return name

    def acknowledge(self) -> str:
        rows = self.here.rows("select id from incidents where state = 'exhausted'")
        for row in rows:
            self.here.call("acknowledge", row["id"], by="op")
        return str(len(rows))

    def break_receiver(self) -> None:
        self.receiver.broken = not self.receiver.broken


WEIGHTS = {
    "kill_node": 8,
    "stop_node": 4,
    "pause_node": 2,
    "stubborn_node": 2,
    "crashing_node": 2,
    "flapping_node": 2,
    "well_behaved_node": 6,
    "storm": 1,
    "kill_engine": 4,
    "restart_engine": 1,
    "freeze_engine": 2,
    "harm_prober": 2,
    "lock_database": 1,
    "stop_all": 1,
    "lift_stop": 2,
    "maintain": 1,
    "edit_policy": 2,
    "detach_policy": 1,
    "attach_policy": 3,
    "mark": 1,
    "recover": 1,
    "new_cluster": 2,
    "delete_cluster": 2,
    "acknowledge": 2,
    "break_receiver": 2,
}
DEEDS: dict[str, Callable[[Operator], str | None]] = {
    name: getattr(Operator, name) for name in WEIGHTS
}
