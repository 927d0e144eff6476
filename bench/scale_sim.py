"""A million nodes, simulated: what the one turn of the database and each engine's core have to bear.

    python bench/scale_sim.py [--nodes 1000000] [--engines 20] [--interval 10] [--each 1000] ...

Simulated are: when engines renew leases and look at the fleet, when nodes fail, and how everything
that writes waits for its turn, first come, first served, in virtual time. Measured, and given as
options, are the costs: of a check, of a failure, of a write transaction (bench/scaling.py,
bench/scale_two.py, bench/burst.py). A model says where the limit lies, not that it is reached: run
it again with the figures of your own machines.
"""

from __future__ import annotations

import argparse
import heapq
import random
from collections import deque
from dataclasses import dataclass, field

LEASE_S, RENEWALS, WRITERS = 10.0, 4, 4
CORE_SHARE_MAX, SERVER_CORES_MAX = 0.7, 4.0
WRITES_A_FAILURE = 4
"""Suspect, unhealthy with its incident, planned, held or begun; a recovery makes more."""
WRITES_A_RECOVERY = 12


@dataclass(frozen=True)
class Costs:
    """What things cost, measured or assumed (seconds of one core unless said otherwise)."""

    check: float
    failure: float
    recovery: float
    write: float
    """How long the turn is held by one write transaction."""
    look_node: float
    """Of the server, for each node, each time an engine looks what has changed."""


@dataclass
class Turn:
    """One writer at a time: what arrives waits for what came before."""

    free_s: float = 0.0
    busy_s: float = 0.0
    waits: list[float] = field(default_factory=list)

    def take(self, at_s: float, held_s: float) -> float:
        """Wait, hold, give back; return when it was given back."""
        begin = max(at_s, self.free_s)
        self.waits.append(begin - at_s)
        self.free_s = begin + held_s
        self.busy_s += held_s
        return self.free_s


class Model:
    """Engines that deal with failures one step after the other, and one turn for all of them."""

    def __init__(self, chosen: argparse.Namespace, costs: Costs) -> None:
        self.chosen, self.costs = chosen, costs
        self.turn = Turn()
        self.rng = random.Random(chosen.seed)
        self.events: list[tuple[float, int, str, int, int]] = []
        self.waiting: list[deque[int]] = [deque() for _ in range(chosen.engines)]
        self.active = [0] * chosen.engines
        self.core_free_s = [0.0] * chosen.engines
        self.share = chosen.nodes / chosen.engines / chosen.interval * costs.check
        """Of each engine's core that checks take all the time."""
        self.steps = WRITES_A_FAILURE + (WRITES_A_RECOVERY if chosen.heal else 0)
        self.renewals: list[float] = []
        self.last_s = 0.0
        self.left = 0
        """Failures that have not been dealt with."""

    def run(self, failures: list[float]) -> dict[str, float]:
        """Return shares, waits and how long the last failure took to be dealt with."""
        chosen = self.chosen
        for engine in range(chosen.engines):
            self.put(self.rng.random() * LEASE_S / RENEWALS, engine, "renew")
        for number, at_s in enumerate(failures):
            # Two intervals until the verdict, at a phase of its own.
            verdict_s = at_s + chosen.interval * (1 + self.rng.random())
            self.put(verdict_s, self.rng.randrange(chosen.engines), "verdict", number)
        at_s, self.left = 0.0, len(failures)
        while self.events and (at_s < chosen.seconds or self.left):
            at_s, engine, what, number, step = heapq.heappop(self.events)
            getattr(self, what)(at_s, engine, number, step)
        waits = sorted(self.turn.waits)
        return {
            "checks": self.share,
            "turn": self.turn.busy_s / max(chosen.seconds, at_s),
            "wait_p99": waits[int(len(waits) * 0.99)],
            "renewal_worst": max(self.renewals, default=0.0),
            "last": self.last_s - failures[-1],
            # An engine looks what has changed once a second at most, and rests twice as long.
            "looks": min(chosen.nodes * self.costs.look_node, 1 / 3) * chosen.engines,
        }

    def put(self, at_s: float, engine: int, what: str, number: int = 0, step: int = 0) -> None:
        """Something happens later."""
        heapq.heappush(self.events, (at_s, engine, what, number, step))

    def renew(self, at_s: float, engine: int, _number: int, _step: int) -> None:
        """The lease is renewed; its writer stands in the same line."""
        self.renewals.append(self.turn.take(at_s, self.costs.write) - at_s)
        self.put(at_s + LEASE_S / RENEWALS, engine, "renew")

    def verdict(self, at_s: float, engine: int, number: int, _step: int) -> None:
        """A failure is known; a few watches of an engine write at once, the others wait."""
        self.waiting[engine].append(number)
        self.begin(at_s, engine)

    def begin(self, at_s: float, engine: int) -> None:
        """Begin with what waits, while there is room."""
        while self.waiting[engine] and self.active[engine] < WRITERS:
            self.active[engine] += 1
            self.put(at_s, engine, "work", self.waiting[engine].popleft(), 0)

    def work(self, at_s: float, engine: int, number: int, step: int) -> None:
        """Think on the engine's core, then write when it is our turn, then the next step."""
        whole = self.costs.failure + (self.costs.recovery if self.chosen.heal else 0)
        thinking_s = whole / self.steps / max(1 - self.share, 0.01)
        thought_s = max(at_s, self.core_free_s[engine]) + thinking_s
        self.core_free_s[engine] = thought_s
        self.put(thought_s, engine, "write", number, step)

    def write(self, at_s: float, engine: int, number: int, step: int) -> None:
        """Take the turn."""
        done_s = self.turn.take(at_s, self.costs.write / self.chosen.group)
        if step + 1 < self.steps:
            self.put(done_s, engine, "work", number, step + 1)
            return
        self.last_s = max(self.last_s, done_s)
        self.active[engine] -= 1
        self.left -= 1
        self.begin(done_s, engine)


def shown(what: str, found: dict[str, float]) -> None:
    """One line, and what is beyond its bound."""
    bounds = {
        "checks": found["checks"] > CORE_SHARE_MAX,
        "the turn": found["turn"] > CORE_SHARE_MAX,
        "renewals": found["renewal_worst"] > LEASE_S / RENEWALS,
        "looks": found["looks"] > SERVER_CORES_MAX,
    }
    broken = ", ".join(word for word, beyond in bounds.items() if beyond)
    print(
        f"  {what:38s} checks {found['checks'] * 100:5.1f} % of each core;"
        f" turn held {found['turn'] * 100:5.1f} %, p99 wait {found['wait_p99'] * 1e3:6.1f} ms;"
        f" slowest renewal {found['renewal_worst']:5.2f} s;"
        f" last dealt with after {found['last']:6.1f} s;"
        f" looks {found['looks']:4.1f} server cores   {f'BEYOND: {broken}' if broken else 'holds'}"
    )


def main() -> None:
    """Simulate and print."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--nodes", type=int, default=1_000_000)
    options.add_argument("--engines", type=int, default=20)
    options.add_argument("--interval", type=float, default=10.0)
    options.add_argument("--seconds", type=float, default=120.0)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--heal", action="store_true", help="failures are healed, not held")
    options.add_argument("--group", type=float, default=4.0, help="writes that share a transaction")
    options.add_argument("--check-us", type=float, default=65.0)
    options.add_argument("--failure-ms", type=float, default=25.0)
    options.add_argument("--recovery-ms", type=float, default=30.0)
    options.add_argument("--write-ms", type=float, default=3.0)
    options.add_argument("--look-ns", type=float, default=500.0, help="of the server, per node")
    chosen = options.parse_args()
    costs = Costs(
        check=chosen.check_us / 1e6, failure=chosen.failure_ms / 1e3,
        recovery=chosen.recovery_ms / 1e3, write=chosen.write_ms / 1e3,
        look_node=chosen.look_ns / 1e9,
    )  # fmt: skip
    print(
        f"simulated: {chosen.nodes} nodes, {chosen.engines} engines, every {chosen.interval:g} s;"
        f" given: {costs}"
    )
    rng = random.Random(chosen.seed)
    rates = {"a failure per node and month": 1 / 2.6e6, "one per node and day": 1 / 86400}
    for what, rate in rates.items():
        count = max(1, round(chosen.nodes * rate * chosen.seconds))
        times = sorted(rng.random() * chosen.seconds for _ in range(count))
        shown(f"{what} ({count})", Model(chosen, costs).run(times))
    for count in (1000, 10_000, 30_000):
        times = sorted(10 + rng.random() for _ in range(count))
        shown(f"{count} in the same second", Model(chosen, costs).run(times))


if __name__ == "__main__":
    main()
