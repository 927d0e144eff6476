"""What goes wrong in a world, and when: drawn from the seed before it begins, undone before it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from tests.sim.fleet.shapes import SETTINGS

from yaffle.errors import YaffleError
from yaffle.model.incident import PauseKind, PauseScope
from yaffle.testing import Fault, Rule

if TYPE_CHECKING:
    import random

    from tests.sim.fleet.fleet import Fleet, Life
    from tests.sim.fleet.roads import Line

    from yaffle.model.ids import NodeId

Trouble = Callable[["Weather"], Awaitable[None]]
GAP_S = 4.0
EPSILON_S = 1e-3
LENGTHS_S = (15.0, 40.0)
LONG_S = 10 * SETTINGS.lease + 10
FOCUSED = 0.5
LONG_SHARE = 0.03
"""Of all storms: so long that an engine may be frozen in them for ten leases."""


class Weather:
    """Strikes every now and then; every bad spell has ended when `blow` returns."""

    def __init__(self, fleet: Fleet, mix: str = "") -> None:
        self.fleet = fleet
        self.rng: random.Random = fleet.rng
        self.long = self.rng.random() < LONG_SHARE
        seconds = LONG_S if self.long else self.rng.uniform(*LENGTHS_S)
        self.end_s = fleet.now_s + seconds
        # A few kinds a world, so that each meets each undisturbed by all others in some of them; in
        # half of the worlds those that bring out the worst in each other.
        kinds = self.rng.sample(ALL, k=self.rng.randint(2, 5))
        if self.long:
            kinds = [(1.0, an_engine_freezes)]
        elif not mix and self.rng.random() < FOCUSED:
            mix = self.rng.choice([*MIXES])
        if mix:
            kinds = MIXES[mix]
        if mix in {"freezes", "hands"}:
            self.end_s = max(self.end_s, fleet.now_s + 4 * SETTINGS.lease)
        self._kinds = [t for _, t in (*NODES, *kinds)]
        self._weights = [w for w, _ in (*NODES, *kinds)]
        self._gap_s = GAP_S * (4 if self.long else 1)

    async def blow(self) -> None:
        fleet = self.fleet
        async with asyncio.TaskGroup() as group:
            while True:
                await self.rest(self.rng.expovariate(1 / self._gap_s))
                if fleet.now_s >= self.end_s - EPSILON_S:
                    break
                trouble = self.rng.choices(self._kinds, self._weights)[0]
                fleet.note(f"-- {trouble.__name__}")
                group.create_task(trouble(self))  # type: ignore[arg-type]
        fleet.plan.rules.clear()
        for life in fleet.living:
            life.plan.rules.clear()
            life.gate.thaw()
        if not fleet.living:
            fleet.start()
        fleet.note("== calm")

    async def rest(self, seconds: float) -> None:
        """Wait, but not beyond the end of the storm."""
        left_s = max(0.0, self.end_s - self.fleet.now_s)
        await self.fleet.base.clock.sleep(min(seconds, left_s))

    def node(self) -> NodeId:
        return self.rng.choice(self.fleet.node_ids())

    def engine(self) -> Life | None:
        return self.rng.choice(self.fleet.living) if self.fleet.living else None

    async def spell(self, rule: Rule, most_s: float, life: Life | None = None) -> None:
        """One rule in force for a while, for all engines or for one."""
        rules = (life.plan if life else self.fleet.plan).rules
        rules.append(rule)
        self.fleet.note(f"   {rule.fault} {rule.call} {rule.node} for {life or 'everybody'}")
        await self.rest(self.rng.uniform(1, most_s))
        if rule in rules:
            rules.remove(rule)

    def name(self, ident: NodeId) -> str:
        return {str(n.id): str(n.name) for n in self.fleet.nodes()}.get(ident, "gone")


# --- nodes ---------------------------------------------------------------------------------------


async def a_node_dies(w: Weather) -> None:
    victim = w.node()
    w.fleet.note(f"   {w.name(victim)} dies")
    w.fleet.world.kill(victim)


async def a_node_hangs(w: Weather) -> None:
    victim = w.node()
    w.fleet.note(f"   {w.name(victim)} hangs")
    _hang(w, victim)


def _hang(w: Weather, victim: NodeId) -> None:
    w.fleet.world.hang(victim)
    w.fleet.hung_s[victim] = w.fleet.now_s


async def a_node_flaps(w: Weather) -> None:
    victim = w.node()
    for _ in range(w.rng.randint(1, 4)):
        _hang(w, victim)
        await w.rest(w.rng.uniform(1, 12))
        w.fleet.world.revive(victim)
        await w.rest(w.rng.uniform(1, 6))


async def a_node_stays_sick(w: Weather) -> None:
    """Whatever is done for it, it hangs, or is dead, again at once."""
    victim = w.node()
    fails = w.rng.choice([_hang, lambda w, ident: w.fleet.world.kill(ident)])
    w.fleet.note(f"   {w.name(victim)} stays sick")
    pace_s, end_s = w.rng.choice([0.3, 3.0, 8.0]), w.fleet.now_s + w.rng.uniform(10, 40)
    while w.fleet.now_s < min(end_s, w.end_s):
        fails(w, victim)
        await w.rest(pace_s)


async def what_was_healed_dies(w: Weather) -> None:
    """A node dies or hangs in the moment in which somebody wrote that it is well again."""
    end_s = min(w.end_s, w.fleet.now_s + 30)
    known = dict(w.fleet.ledger.born_s)
    while w.fleet.now_s < end_s and w.fleet.ledger.born_s == known:
        await w.rest(0.1)
    for victim in w.fleet.node_ids():
        if w.fleet.ledger.born_s.get(victim) != known.get(victim):
            await w.rest(w.rng.uniform(0, 3))
            w.fleet.note(f"   {w.name(victim)}, just healed, fails")
            w.fleet.world.kill(victim)


async def many_nodes_die(w: Weather) -> None:
    share = w.rng.choice([0.5, 0.5, 1.0])
    for ident in w.fleet.node_ids():
        if w.rng.random() < share:
            w.fleet.note(f"   {w.name(ident)} dies")
            w.fleet.world.kill(ident)


# --- the way to them -------------------------------------------------------------------------------


async def an_engine_is_cut_off(w: Weather) -> None:
    """It sees no backend, no node, or nothing at all; the others do."""
    life = w.engine()
    if life is not None:
        await _cut(w, [life])


async def all_are_cut_off(w: Weather) -> None:
    await _cut(w, w.fleet.living)


async def _cut(w: Weather, lives: list[Life]) -> None:
    """Cut one road or both for a while; one that is cut already is left to whoever did it."""
    roads = w.rng.choice([("eyes",), ("eyes",), ("view",), ("view", "eyes")])
    views = [getattr(n, road) for n in lives for road in roads]
    cut = [v for v in views if not v.partitioned]
    w.fleet.note(f"   {', '.join(map(str, lives))}: {roads} cut")
    for view in cut:
        view.partitioned = True
    await w.rest(w.rng.uniform(3, 40))
    for view in cut:
        view.partitioned = False
    w.fleet.note(f"   {', '.join(map(str, lives))}: {roads} mended")


async def a_check_lies(w: Weather) -> None:
    """One mode says the opposite of the truth about one node, to everybody or to one engine."""
    fault = w.rng.choice([Fault.LIE, Fault.LIE, Fault.FAIL, Fault.ERROR, Fault.HANG, Fault.RAISE])
    call = w.rng.choice(["check", "read"])
    w.fleet.lied |= fault is Fault.LIE
    rule = Rule(fault=fault, call=call, node=w.name(w.node()))
    await w.spell(rule, 20, w.engine() if w.rng.random() < 0.4 else None)


async def the_backend_is_away(w: Weather) -> None:
    fault = w.rng.choice([Fault.HANG, Fault.ERROR, Fault.RAISE, Fault.STUCK])
    call = w.rng.choice(["read", "submit:*", "poll:*"])
    await w.spell(Rule(fault=fault, call=call), 25, w.engine() if w.rng.random() < 0.3 else None)


async def an_operation_goes_wrong(w: Weather) -> None:
    fault = w.rng.choice([Fault.FAIL, Fault.HALF, Fault.LOSE, Fault.HANG, Fault.LATE, Fault.STUCK])
    call = w.rng.choice(["submit:CREATE", "submit:DELETE", "submit:REBOOT", "submit:*"])
    if call in {"submit:CREATE", "submit:REBOOT"} and w.rng.random() < 0.3:
        fault = Fault.LIE  # it says that it has, and has not
    times = w.rng.randint(1, 3)
    await w.spell(Rule(fault=fault, call=call, times=times, delay_s=w.rng.uniform(1, 40)), 60)


async def the_fencer_is_odd(w: Weather) -> None:
    fault = w.rng.choice(
        [Fault.HANG, Fault.FAIL, Fault.LOSE, Fault.LATE, Fault.STUCK, Fault.RAISE, Fault.LIE]
    )
    await w.spell(Rule(fault=fault, call="fence", delay_s=w.rng.uniform(1, 30)), 40)


async def nobody_listens(w: Weather) -> None:
    fault = w.rng.choice([Fault.FAIL, Fault.HANG, Fault.LOSE, Fault.RAISE])
    await w.spell(Rule(fault=fault, call="send"), 40)


# --- the database ----------------------------------------------------------------------------------


def _line(w: Weather) -> tuple[Line, str]:
    """Return everybody's line to the database, or one engine's."""
    life = w.engine()
    if life is None or w.rng.random() < 0.4:
        return w.fleet.line, "everybody"
    return life.store.line, str(life)


async def the_database_is_away(w: Weather) -> None:
    line, whose = _line(w)
    w.fleet.note(f"   for {whose}")
    line.away = True
    await w.rest(w.rng.choice([w.rng.uniform(0.1, 3), w.rng.uniform(1, 30)]))
    line.away = False
    w.fleet.note(f"   the database is back for {whose}")


async def the_database_stalls(w: Weather) -> None:
    line, whose = _line(w)
    w.fleet.note(f"   for {whose}")
    w.fleet.stalled = True
    if w.rng.random() < 0.4:
        line.answers_late_s = w.rng.choice([1.0, 4.0, 8.0])
    else:
        line.stall_s = w.rng.choice([0.5, 3.0, 15.0])
    await w.rest(w.rng.uniform(1, 20))
    line.stall_s = line.answers_late_s = 0.0


async def the_database_loses_answers(w: Weather) -> None:
    line, whose = _line(w)
    w.fleet.note(f"   for {whose}")
    line.loses_answers = 0.2
    await w.rest(w.rng.uniform(1, 20))
    line.loses_answers = 0.0


async def the_database_forgets(w: Weather) -> None:
    """It is set back to what it was a moment ago; a person looks, compares, and lets go on."""
    fleet = w.fleet
    if fleet.referee.forgot_s is not None:
        return
    await fleet.referee.keep_a_copy(w.rng.uniform(0.5, 15))
    if fleet.now_s >= w.end_s:
        return
    fleet.referee.set_back()
    await w.rest(w.rng.uniform(5, 25))


# --- engines ---------------------------------------------------------------------------------------


async def an_engine_is_killed(w: Weather) -> None:
    life = w.engine()
    if life is None:
        return
    if w.rng.random() < 0.6 and not life.held:
        life.held = True
        await _at_a_point(w, life, w.rng.randint(1, 25))
    if life.gate.dead:
        return
    await w.fleet.kill(life)
    await w.rest(w.rng.choice([0.0, w.rng.uniform(0, 20)]))
    w.fleet.start()


WORST = [
    ("", 25),
    ("after StepRunner.", 8),
    ("after StepRunner._refusal", 2),
    ("after _again.work", 2),
    ("before submit", 1),
    ("after submit", 2),
    ("before fence", 1),
    ("after fence", 1),
    ("before poll", 4),
    ("before StepRunner._advance", 3),
    ("before ClusterWatcher._plan", 1),
    ("before ClusterWatcher.", 3),
]
"""Where an engine is stopped, and at which time from now: between its leave to act and the act, within
the call, and between the call and what it writes of it."""


async def an_engine_freezes(w: Weather) -> None:
    """As SIGSTOP, for up to ten times the lease; then it goes on as if nothing had been."""
    life = _take_hold(w)
    if life is None:
        return
    if w.rng.random() < 0.8:
        kind, most = w.rng.choice(WORST)
        await _at_a_point(w, life, w.rng.randint(1, most), kind)
    else:
        await life.gate.rests()
    if not life.gate.dead:
        await _frozen(w, life)
    life.held = False


def _take_hold(w: Weather) -> Life | None:
    free = [n for n in w.fleet.living if not n.held]
    if not free:
        return None
    life = w.rng.choice(free)
    life.held = True
    return life


async def a_hand_is_held(w: Weather) -> None:
    """An engine stands still for longer than its lease in the very middle of an act that takes long."""
    life = _take_hold(w)
    if life is None:
        return
    rule = Rule(fault=w.rng.choice([Fault.LOSE, Fault.HANG]), call="submit:*", times=2)
    slow = w.rng.random() < 0.5
    if slow:
        life.plan.rules.append(rule)
    w.fleet.world.kill(w.node())
    kind, most = w.rng.choice(WORST[1:])
    reached = await _at_a_point(w, life, w.rng.randint(1, most), kind, within_s=25.0)
    if reached and slow:
        await w.rest(w.rng.choice([0.0, 0.5, 2.0]))  # into the call
    if reached and not life.gate.dead:
        w.end_s = max(w.end_s, w.fleet.now_s + 2.5 * SETTINGS.lease)
        await _frozen(w, life, until_taken=True)
    if rule in life.plan.rules:
        life.plan.rules.remove(rule)
    life.held = False


async def _frozen(w: Weather, life: Life, *, until_taken: bool = False) -> None:
    life.gate.freeze()
    began_s = w.fleet.now_s
    w.fleet.note(f"   {life} freezes")
    longest_s = LONG_S if w.long else 40.0
    shortest_s = SETTINGS.lease
    spells = [w.rng.uniform(0.5, 12), *[w.rng.uniform(shortest_s, longest_s)] * 2]
    if until_taken:
        await _taken_from(w, life)
    else:
        await w.rest(w.rng.choice(spells))
    if not life.gate.frozen:
        return  # the storm is over, or it was killed
    life.gate.thaw()
    life.upset_s = w.fleet.now_s
    if w.fleet.now_s - began_s > 2 * SETTINGS.late:
        life.missed_s = w.fleet.now_s
    w.fleet.note(f"   {life} goes on")


async def _taken_from(w: Weather, life: Life) -> None:
    """Wait until somebody else has begun what this engine was at."""
    taken, before = w.fleet.ledger.taken, w.fleet.ledger.taken[life.number]
    end_s = w.fleet.now_s + 2.5 * SETTINGS.lease
    while taken[life.number] == before and w.fleet.now_s < min(end_s, w.end_s):
        await w.rest(0.2)
    await w.rest(w.rng.choice([0.0, w.rng.uniform(0, 1), w.rng.uniform(0, 5)]))


async def _at_a_point(
    w: Weather, life: Life, count: int, kind: str = "", *, within_s: float = 8.0
) -> bool:
    """Wait until the engine stands before or after a call for the count-th time from now."""
    reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    left = count

    def on_point(name: str) -> None:
        nonlocal left
        left -= name.startswith(kind)
        if left == 0 and not reached.done():
            reached.set_result(None)
            life.gate.stop_here()

    life.gate.on_point = on_point
    left_s = max(0.0, min(within_s, w.end_s - w.fleet.now_s))
    await asyncio.wait([reached], timeout=left_s)
    life.gate.on_point = lambda _name: None
    life.gate.go_on()
    return reached.done()


async def a_clock_is_wrong(w: Weather) -> None:
    """One engine's clock is set; the database's is not."""
    life = w.engine()
    if life is None:
        return
    step_s = w.rng.choice([-1, 1]) * w.rng.choice([0.5, 3, 30, 300])
    w.fleet.fooled = True
    _set(w, life, life.clock.wrong_s + step_s)
    w.fleet.note(f"   {life}'s is wrong by {life.clock.wrong_s:g} s")
    await w.rest(w.rng.uniform(1, 40))
    _set(w, life, 0.0)


def _set(w: Weather, life: Life, wrong_s: float) -> None:
    w.fleet.fooled_s += abs(wrong_s - life.clock.wrong_s)
    jumps = abs(wrong_s - life.clock.wrong_s) > SETTINGS.clock_jump + 0.1
    life.clock.wrong_s, life.upset_s = wrong_s, w.fleet.now_s
    if jumps and not life.gate.frozen:
        life.missed_s = w.fleet.now_s


# --- operators -------------------------------------------------------------------------------------


async def an_operator_acts(w: Weather) -> None:
    """Whatever is refused is refused: an operator lives with that."""
    doing = w.rng.choice(
        (_stops, _maintains, _releases, _marks, _asks, _acknowledges, _edits, _works)
    )
    w.fleet.note(f"   {doing.__name__}")
    try:
        await doing(w, w.node())
    except YaffleError as error:
        w.fleet.note(f"   refused: {error}"[:120])


async def an_operator_halts(w: Weather) -> None:
    """Healing is stopped, of everything or of a node, while somebody is at it."""
    await w.rng.choice((_stops, _maintains))(w, w.node())


async def _stops(w: Weather, _node: NodeId) -> None:
    await w.fleet.commands.pause(
        PauseKind.STOP, PauseScope.ALL, "", owner="op", reason="night", for_s=w.rng.uniform(3, 30)
    )


async def _maintains(w: Weather, node: NodeId) -> None:
    scope, target = PauseScope.NODE, str(node)
    if w.rng.random() < 0.3:
        scope, target = PauseScope.CLUSTER, w.rng.choice([*w.fleet.shape.idents.values()])
    await w.fleet.commands.pause(
        PauseKind.MAINTENANCE, scope, target, owner="op", reason="disk", for_s=w.rng.uniform(3, 40)
    )


async def _releases(w: Weather, _node: NodeId) -> None:
    name = w.rng.choice([*w.fleet.shape.idents])
    await w.fleet.commands.release(name, by="op", reason="go", for_s=w.rng.uniform(5, 40))


async def _marks(w: Weather, node: NodeId) -> None:
    await w.fleet.commands.mark(node, reason="smells", by="op")
    await w.rest(w.rng.uniform(1, 30))
    await w.fleet.commands.unmark(node, reason="mistake", by="op")


async def _asks(w: Weather, node: NodeId) -> None:
    await w.fleet.commands.recover(node, by="op", operation=None)


async def _acknowledges(w: Weather, node: NodeId) -> None:
    rows = w.fleet.base.rows(
        "select id from incidents where node_id = ? order by opened_us desc limit 1", node
    )
    for row in rows:
        await w.fleet.commands.acknowledge(row.id, by="op")


async def _edits(w: Weather, _node: NodeId) -> None:
    """The document changes, in what is done or in what is asked, and soon changes back."""
    cluster = w.rng.choice(w.fleet.shape.clusters)
    changed: dict[str, Any] = {k: dict(v) for k, v in cluster.document["properties"].items()}
    if cluster.document["version"] != "1.3":
        return
    if w.rng.random() < 0.5:
        changed["detection"]["rise"] = 3 - changed["detection"]["rise"]
    else:
        changed["recovery"]["node_delete_timeout"] = 12
    from yaffle.policy import parse_document

    parsed = parse_document({**cluster.document, "properties": changed})
    name = f"p-{cluster.name}"
    for life in w.fleet.lives:
        life.upset_s = w.fleet.now_s + 10.0
    await w.fleet.commands.update_policy(name, parsed, source="", by="op")
    await w.rest(w.rng.uniform(0.2, 5))
    await w.fleet.commands.update_policy(name, cluster.parsed, source="", by="op")


async def _works(w: Weather, node: NodeId) -> None:
    """A user's own action on the node, which locks it."""
    from yaffle.model.authz import LOCAL

    await w.fleet.commands.node_op(LOCAL, node, "reboot")


NODES: list[tuple[float, Trouble]] = [(4, a_node_dies), (2, a_node_hangs), (1, a_node_flaps)]
"""Something has to be healed in every world."""
ALL: list[tuple[float, Trouble]] = [
    (1, many_nodes_die),
    (1, a_node_stays_sick),
    (1, what_was_healed_dies),
    (2, an_engine_is_cut_off),
    (1, all_are_cut_off),
    (2, a_check_lies),
    (2, the_backend_is_away),
    (3, an_operation_goes_wrong),
    (2, the_fencer_is_odd),
    (1, nobody_listens),
    (2, the_database_is_away),
    (2, the_database_stalls),
    (2, the_database_loses_answers),
    (1, the_database_forgets),
    (3, an_engine_is_killed),
    (3, an_engine_freezes),
    (2, a_hand_is_held),
    (1, a_clock_is_wrong),
    (2, an_operator_acts),
]
"""Weight and trouble."""

MIXES: dict[str, list[tuple[float, Trouble]]] = {
    "freezes": [(6, an_engine_freezes)],
    "hands": [(6, a_hand_is_held), (2, an_operation_goes_wrong)],
    "relapses": [(4, a_node_stays_sick), (4, what_was_healed_dies), (2, an_operation_goes_wrong)],
    "kills": [(5, an_engine_is_killed), (2, an_operation_goes_wrong)],
    "cuts": [(4, an_engine_is_cut_off), (2, all_are_cut_off)],
    "databases": [
        (3, the_database_is_away),
        (2, the_database_stalls),
        (3, the_database_loses_answers),
        (2, an_engine_is_killed),
    ],
    "forgets": [(5, the_database_forgets)],
    "fences": [(6, the_fencer_is_odd), (4, an_operation_goes_wrong), (6, a_node_hangs)],
    "halts": [(6, an_operator_halts), (6, the_fencer_is_odd), (2, an_operation_goes_wrong)],
    "operators": [(6, an_operator_acts)],
    "news": [(5, nobody_listens)],
    "purses": [(5, many_nodes_die), (3, an_engine_is_killed)],
    "storms": [(3, many_nodes_die), (2, a_check_lies)],
}
"""A few kinds at a time, for whoever looks for one kind of bug."""
