"""Random verbs on three clusters, cancelled at random, among failures and deaths of the engine.

YAFFLE_SIM_RUNS=200 pytest tests/sim/test_jobs_storm.py
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from tests.sim.jobs import (
    WHO,
    a_cluster,
    add_policy,
    all_actions,
    consistent,
    document,
    settled,
)
from tests.sim.stage import policy, stage

from yaffle.errors import YaffleError
from yaffle.store import actions, catalog
from yaffle.store.tables import clusters
from yaffle.testing import Fault, Rule, run_virtual

if TYPE_CHECKING:
    from tests.sim.stage import Stage

SEEDS = range(int(os.environ.get("YAFFLE_SIM_RUNS") or 2))
STORM_S = 120.0
NAMES = ("red", "green", "blue")


class Storm:
    """What somebody may do at any moment; what is refused is refused."""

    def __init__(self, s: Stage) -> None:
        self.s = s
        self.rng = s.rng
        self.history: list[str] = []
        self.steady = True
        """The clock is not set: only then rows tell what was before what."""

    async def blow(self, seconds: float) -> None:
        end_s = self.s.clock.monotonic_s() + seconds
        doings = [
            (14, self.acts), (4, self.changes), (2, self.deletes), (2, self.creates),
            (4, self.cancels), (4, self.fails), (3, self.breaks), (3, self.dies),
            (3, self.touches_a_node), (1, self.outage), (1, self.jumps),
        ]  # fmt: skip
        while self.s.clock.monotonic_s() < end_s:
            await self.s.clock.sleep(self.rng.expovariate(1 / 4))
            (_, doing) = self.rng.choices(doings, [w for w, _ in doings])[0]
            self.history.append(f"{self.s.clock.monotonic_s():.1f} {doing.__name__}")
            try:
                await doing()
            except YaffleError as error:
                self.history[-1] += f": {str(error)[:70]}"
            self.s.audit.copies()
            await _locks(self.s)
        self.s.plan.rules.clear()
        if not self.s.living:
            self.s.start()

    def cluster(self) -> str:
        return self.rng.choice(NAMES)

    async def node(self) -> Any:
        rows = await self.s.nodes()
        return self.rng.choice(rows) if rows else None

    async def acts(self) -> None:
        rows = [n.id for n in await self.s.nodes()]
        self.rng.shuffle(rows)
        data: dict[str, dict[str, Any]] = {
            "scale_out": {"count": self.rng.randint(1, 3)},
            "scale_in": {"count": self.rng.randint(1, 3)},
            "resize": {"adjustment_type": "EXACT_CAPACITY", "number": self.rng.randint(0, 5)},
            "check": {},
            "recover": {"check": self.rng.random() < 0.5, "check_capacity": True},
            "add_nodes": {"nodes": rows[:1]},
            "del_nodes": {"nodes": rows[:2], "destroy_after_deletion": self.rng.random() < 0.5},
            "replace_nodes": {"nodes": {}},
        }
        name, verb = self.cluster(), self.rng.choice(sorted(data))
        if verb in {"add_nodes", "del_nodes", "replace_nodes"}:
            await self._fitting(name, verb, data[verb])
        self.history[-1] += f" {verb} {name}"
        await self.s.commands.cluster_act(WHO, name, verb, data[verb])

    async def _fitting(self, name: str, verb: str, data: dict[str, Any]) -> None:
        """Name members and orphans where there are some: most of what is random is refused."""
        home = await self.s.store.read(lambda c: catalog.find_cluster(c, name))
        rows = await self.s.nodes()
        mine = [n.id for n in rows if n.cluster_id == home.id]
        free = [n.id for n in rows if n.cluster_id is None]
        match verb:
            case "add_nodes":
                data["nodes"] = free[:1] or data["nodes"]
            case "del_nodes":
                data["nodes"] = self.rng.sample(mine, min(len(mine), 1)) or data["nodes"]
            case _:
                data["nodes"] = dict(zip(mine[:1], free[:1], strict=False))

    async def changes(self) -> None:
        profile = self.rng.choice([f"{n}-profile" for n in NAMES])
        only = self.rng.random() < 0.1
        await self.s.commands.cluster_update(
            WHO, self.cluster(), profile=profile, profile_only=only
        )

    async def deletes(self) -> None:
        await self.s.commands.cluster_delete(WHO, self.cluster(), force=self.rng.random() < 0.5)

    async def creates(self) -> None:
        name = self.cluster()
        known = await self.s.store.read(lambda c: c.execute(clusters.select()).all())
        if name not in {row.name for row in known}:
            await self.s.commands.cluster_create(
                WHO, name=name, profile=f"{name}-profile", timeout=240,
                desired_capacity=self.rng.randint(0, 4), policy=f"{name}-policy-0",
            )  # fmt: skip

    async def cancels(self) -> None:
        going = await self.s.store.read(actions.unfinished)
        if going:
            one = self.rng.choice(going)
            self.history[-1] += f" {one.action} {one.status}"
            await self.s.commands.action_cancel(WHO, one.id)

    async def fails(self) -> None:
        node = await self.node()
        if node is not None:
            self.rng.choice([self.s.world.kill, self.s.world.hang])(node.id)

    async def breaks(self) -> None:
        fault = self.rng.choice([Fault.FAIL, Fault.HALF, Fault.LOSE, Fault.HANG])
        kind = self.rng.choice(["CREATE", "DELETE", "REBOOT", "UPDATE"])
        self.s.plan.rules.append(Rule(fault=fault, call=f"submit:{kind}", times=1))

    async def dies(self) -> None:
        for life in self.s.living:
            await life.kill()
        await self.s.clock.sleep(self.rng.uniform(0, 10))
        self.s.start()

    async def touches_a_node(self) -> None:
        node = await self.node()
        if node is None:
            return
        match self.rng.choice(["delete", "check", "op", "recover", "update", "create"]):
            case "delete":
                await self.s.commands.node_delete(WHO, node.id, force=self.rng.random() < 0.5)
            case "check":
                await self.s.commands.node_check(WHO, node.id)
            case "op":
                await self.s.commands.node_op(WHO, node.id, "rebuild")
            case "recover":
                await self.s.commands.node_recover(WHO, node.id)
            case "update":
                await self.s.commands.node_update(WHO, node.id, profile="red-profile")
            case _:
                home = self.rng.choice([None, self.cluster()])
                await self.s.commands.node_create(
                    WHO, name="alone", profile="red-profile", cluster=home
                )

    async def outage(self) -> None:
        self.s.weather.away = True
        await self.s.clock.sleep(self.rng.uniform(0.1, 10))
        self.s.weather.away = False

    async def jumps(self) -> None:
        if self.steady:
            return
        self.s.clock.step(self.rng.choice([-1, 1]) * self.rng.uniform(1, 100))


async def _locks(s: Stage) -> None:
    """At most one unfinished action holds each lock, and none that has ended."""
    every = await s.store.read(actions.unfinished)
    held = [a.lock_key for a in every if a.lock_key is not None]
    assert len(held) == len(set(held))
    for a in every:
        if a.status in actions.ACTIVE:
            assert a.lock_key == a.target, a


async def storm(seed: int, history: list[str]) -> None:
    async with stage(seed) as s:
        s.start()
        s.max_in_flight = 2
        rules: list[Any] = [
            [document("batch", min_in_service=1, max_batch_size=2, pause_time=3)],
            [document("deletion", grace_period=5, criteria="YOUNGEST_FIRST")],
            [],
        ]
        for name, more in zip(NAMES, rules, strict=True):
            # Of an image of its own: with equal properties an update would have nothing to do.
            spec = {"create_s": 4.0, "reboot_s": 3.0, "image": name}
            await a_cluster(s, 3, policy(), *more, name=name, spec=spec, timeout=240)
        blowing = Storm(s)
        blowing.history = history
        blowing.steady = seed % 2 == 0
        await s.clock.sleep(20)
        await blowing.blow(STORM_S)
        await add_policy(s, "calm", policy(mode="observe"))
        await settled(s, 2000)
        await consistent(s)
        for a in await all_actions(s):
            assert (a.status in actions.ENDED) == (a.end_us is not None)
        await _copies(s)


async def _copies(s: Stage) -> None:
    """Let what the backend was asked for long ago come true; then one copy a node, at most."""
    await s.clock.sleep(60)
    s.audit.copies()
    for ident in s.node_ids():
        assert len(s.world.alive(ident)) <= 1


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", SEEDS)
def test_storm(seed: int) -> None:
    history: list[str] = []
    try:
        run_virtual(lambda: storm(1000 + seed, history), seed=seed, cpu_s=240)
    except BaseException as error:
        error.add_note("\n".join(history[-40:]))
        raise
