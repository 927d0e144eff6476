"""Random trouble from one seed: nodes, network, backend, fencer, store, engines, clock, operators."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from yaffle.errors import YaffleError
from yaffle.model.authz import LOCAL
from yaffle.model.incident import PauseKind, PauseScope
from yaffle.store import catalog, incidents
from yaffle.testing import Fault, Rule

if TYPE_CHECKING:
    from tests.sim.stage import Stage

    from yaffle.model.ids import NodeId

Trouble = Callable[["Weather"], Awaitable[None]]
GAP_S = 12.0


class Weather:
    """Strikes every now and then, and undoes what it did when it ends."""

    def __init__(self, stage: Stage, troubles: list[tuple[float, Trouble]]) -> None:
        self.stage = stage
        self.rng = stage.rng
        self.history: list[str] = []
        self._troubles = troubles

    async def blow(self, seconds: float) -> None:
        """Let trouble happen for a while; every bad spell has ended when this returns."""
        clock = self.stage.clock
        end_s = clock.monotonic_s() + seconds
        weights = [w for w, _ in self._troubles]
        async with asyncio.TaskGroup() as group:
            while clock.monotonic_s() < end_s:
                await clock.sleep(self.rng.expovariate(1 / GAP_S))
                _, trouble = self.rng.choices(self._troubles, weights)[0]
                self.history.append(f"{clock.monotonic_s():.1f} {trouble.__name__}")
                group.create_task(trouble(self))  # type: ignore[arg-type]
                self.stage.audit.copies()
        self.stage.plan.rules.clear()
        if not self.stage.living:
            self.stage.start()

    def node(self) -> NodeId:
        return self.rng.choice(self.stage.node_ids())

    async def spell(self, rule: Rule, most_s: float = 60.0) -> None:
        """One rule in force for a while."""
        self.stage.plan.rules.append(rule)
        await self.stage.clock.sleep(self.rng.uniform(1, most_s))
        if rule in self.stage.plan.rules:
            self.stage.plan.rules.remove(rule)

    async def name(self, ident: NodeId) -> str:
        rows = {n.id: n.name for n in await self.stage.nodes()}
        return rows.get(ident, "gone")


# --- nodes ---------------------------------------------------------------------------------------


async def a_node_dies(w: Weather) -> None:
    w.stage.world.kill(w.node())


async def a_node_hangs(w: Weather) -> None:
    w.stage.world.hang(w.node())


async def a_node_flaps(w: Weather) -> None:
    victim = w.node()
    for _ in range(w.rng.randint(1, 4)):
        w.stage.world.hang(victim)
        await w.stage.clock.sleep(w.rng.uniform(1, 20))
        w.stage.world.revive(victim)
        await w.stage.clock.sleep(w.rng.uniform(1, 10))


async def many_nodes_die(w: Weather) -> None:
    for ident in w.stage.node_ids():
        if w.rng.random() < 0.5:
            w.stage.world.kill(ident)


# --- the way to them -------------------------------------------------------------------------------


async def the_watcher_is_cut_off(w: Weather) -> None:
    stage = w.stage
    if stage.world.partitioned:
        return
    stage.world.partitioned = True
    stage.blind_since_s = stage.clock.monotonic_s()
    await stage.clock.sleep(w.rng.uniform(5, 90))
    stage.world.partitioned = False
    stage.blind_since_s = None


async def a_check_lies(w: Weather) -> None:
    fault = w.rng.choice([Fault.LIE, Fault.FAIL, Fault.ERROR, Fault.HANG, Fault.RAISE])
    await w.spell(Rule(fault=fault, call="check", node=await w.name(w.node())), 30)


async def the_backend_is_away(w: Weather) -> None:
    fault = w.rng.choice([Fault.HANG, Fault.ERROR, Fault.RAISE, Fault.STUCK])
    call = w.rng.choice(["read", "submit:*", "poll:*"])
    await w.spell(Rule(fault=fault, call=call))


async def an_operation_goes_wrong(w: Weather) -> None:
    fault = w.rng.choice([Fault.FAIL, Fault.HALF, Fault.LOSE, Fault.HANG, Fault.LATE, Fault.STUCK])
    call = w.rng.choice(["submit:CREATE", "submit:DELETE", "submit:REBOOT", "submit:*"])
    delay_s = w.rng.uniform(1, 60)
    rule = Rule(fault=fault, call=call, times=w.rng.randint(1, 3), delay_s=delay_s)
    await w.spell(rule, 120)


async def the_fencer_is_odd(w: Weather) -> None:
    fault = w.rng.choice(
        [Fault.HANG, Fault.FAIL, Fault.LOSE, Fault.LATE, Fault.STUCK, Fault.RAISE, Fault.LIE]
    )
    await w.spell(Rule(fault=fault, call="fence"), 60)


async def nobody_listens(w: Weather) -> None:
    fault = w.rng.choice([Fault.FAIL, Fault.HANG, Fault.LOSE, Fault.RAISE])
    await w.spell(Rule(fault=fault, call="send"), 60)


# --- ourselves -------------------------------------------------------------------------------------


async def the_database_is_away(w: Weather) -> None:
    w.stage.weather.away = True
    await w.stage.clock.sleep(w.rng.choice([w.rng.uniform(0.1, 3), w.rng.uniform(1, 45)]))
    w.stage.weather.away = False


async def the_database_loses_answers(w: Weather) -> None:
    w.stage.weather.loses_answers = 0.2
    await w.stage.clock.sleep(w.rng.uniform(1, 30))
    w.stage.weather.loses_answers = 0.0


async def an_engine_is_killed(w: Weather) -> None:
    if w.stage.living:
        await w.rng.choice(w.stage.living).kill()
    await w.stage.clock.sleep(w.rng.choice([0.0, w.rng.uniform(0, 30)]))
    if not w.stage.alone or not w.stage.living:
        w.stage.start()


async def an_engine_freezes(w: Weather) -> None:
    if not w.stage.living:
        return
    life = w.rng.choice(w.stage.living)
    life.gate.freeze()
    await w.stage.clock.sleep(w.rng.uniform(0.5, 70))
    life.gate.thaw()


async def the_clock_jumps(w: Weather) -> None:
    if w.stage.alone:
        w.stage.clock.step(w.rng.choice([-1, 1]) * w.rng.uniform(1, 400))


# --- operators -------------------------------------------------------------------------------------


async def an_operator_acts(w: Weather) -> None:
    """Whatever is refused is refused: an operator lives with that."""
    doings = (_stops, _maintains, _releases, _marks, _unmarks, _asks, _acknowledges, _deletes)
    doing = w.rng.choice(doings)
    w.history[-1] += doing.__name__
    try:
        await doing(w, w.node())
    except YaffleError:
        return


async def _stops(w: Weather, _node: NodeId) -> None:
    await w.stage.commands.pause(
        PauseKind.STOP, PauseScope.ALL, "", owner="op", reason="night", for_s=w.rng.uniform(5, 60)
    )
    await w.stage.clock.sleep(w.rng.uniform(0, 40))
    if w.rng.random() < 0.5:
        await w.stage.commands.lift_stop(by="op")


async def _maintains(w: Weather, node: NodeId) -> None:
    await w.stage.commands.pause(
        PauseKind.MAINTENANCE,
        PauseScope.NODE,
        node,
        owner="op",
        reason="disk",
        for_s=w.rng.uniform(5, 60),
    )


async def _releases(w: Weather, _node: NodeId) -> None:
    await w.stage.commands.release("web", by="op", reason="go", for_s=w.rng.uniform(5, 60))


async def _marks(w: Weather, node: NodeId) -> None:
    await w.stage.commands.mark(node, reason="smells", by="op")


async def _unmarks(w: Weather, node: NodeId) -> None:
    await w.stage.commands.unmark(node, reason="mistake", by="op")


async def _asks(w: Weather, node: NodeId) -> None:
    operation = w.rng.choice([None, "REBOOT", "RECREATE"])
    await w.stage.commands.recover(node, by="op", operation=operation)


async def _acknowledges(w: Weather, node: NodeId) -> None:
    row: Any = await w.stage.store.read(lambda c: incidents.last_of(c, node))
    if row is not None:
        await w.stage.commands.acknowledge(row.id, by="op")


async def _deletes(w: Weather, node: NodeId) -> None:
    if len(await w.stage.nodes()) > 3 and w.rng.random() < 0.3:
        await w.stage.commands.delete_node(node, by="op")


# --- people with errands -----------------------------------------------------------------------------

WARDROBE: dict[str, dict[str, object]] = {
    "plain": {},
    "labelled": {"label": "x"},
    "imaged": {"image": "v2"},
    "slow": {"image": "v3", "create_s": 20.0},
}


async def somebody_has_an_errand(w: Weather) -> None:
    """Have something done to one node that is no recovery; refusals are lived with."""
    node = w.node()
    doing = w.rng.choice([_updates, _updates, _operates, _checks])
    w.history[-1] += doing.__name__
    try:
        await doing(w, node)
    except YaffleError:
        return


async def _updates(w: Weather, node: NodeId) -> None:
    commands, name = w.stage.commands, w.rng.choice(list(WARDROBE))
    kind = w.stage.profile.type
    rows = await w.stage.store.read(catalog.all_profiles)
    if name not in {row.name for row in rows}:
        await commands.create_profile(name, kind, {"create_s": 3.0, **WARDROBE[name]}, by="op")
    await commands.node_update(LOCAL, node, profile=name)


async def _operates(w: Weather, node: NodeId) -> None:
    await w.stage.commands.node_op(LOCAL, node, w.rng.choice(["reboot", "stop", "start"]))


async def _checks(w: Weather, node: NodeId) -> None:
    await w.stage.commands.node_check(LOCAL, node)


ALL: list[tuple[float, Trouble]] = [
    (5, a_node_dies),
    (3, a_node_hangs),
    (2, a_node_flaps),
    (1, many_nodes_die),
    (1, the_watcher_is_cut_off),
    (1, a_check_lies),
    (1, the_backend_is_away),
    (3, an_operation_goes_wrong),
    (1, the_fencer_is_odd),
    (1, nobody_listens),
    (1, the_database_is_away),
    (1, the_database_loses_answers),
    (2, an_engine_is_killed),
    (1, an_engine_freezes),
    (1, the_clock_jumps),
    (2, an_operator_acts),
    (2, somebody_has_an_errand),
]
"""Weight and trouble."""
