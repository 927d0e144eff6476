"""A host that was proved off is told to every recovery controller, once under one id, whatever dies."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import select
from tests.sim.hosted import HYPERVISORS, STATUS, Machines, Returning, equip, moving
from tests.sim.stage import Stage, policy, stage
from tests.sim.test_fencers import OFF, Switch

from yaffle.engine.runtime.context import HostTerms
from yaffle.errors import Conflict, Forbidden, InvalidSpec, NotFound
from yaffle.model.authz import Principal, Right
from yaffle.model.host_failure import HostFailure
from yaffle.model.operations import Delivery, FenceResult
from yaffle.store.tables import alerts, events, host_failures
from yaffle.testing import Fault, FaultPlan, Rule, ScriptedAlerts, run_virtual

TERMS = HostTerms(
    responsible="recovery",
    on_shared_storage=False,
    exceptions={"cmp2.example.org": True},
    names={"cmp1": "cmp1.example.org", "cmp2": "cmp2.example.org"},
)
Story = Callable[[Stage, "Controllers"], Awaitable[None]]


class Controllers:
    """Two recovery controllers, each with faults of its own; they outlive every engine."""

    def __init__(self, s: Stage) -> None:
        self._s = s
        self.recovery = ScriptedAlerts(s.clock, FaultPlan(s.clock))
        self.audit = ScriptedAlerts(s.clock, FaultPlan(s.clock))
        self.all = {"recovery": self.recovery, "audit": self.audit}

    def start(self) -> Any:
        """Start an engine that tells them."""
        life = self._s.start()
        drivers: Any = life.ctx.drivers.alerts
        drivers.update({name: _Gated(one, life.gate) for name, one in self.all.items()})
        object.__setattr__(life.ctx, "hosts", TERMS)
        return life

    async def settled(self) -> bool:
        """Whether every failure is cleared and every alert accepted."""
        left = await self._s.store.read(
            lambda c: c.execute(select(alerts.c.seq).where(alerts.c.state == "pending")).all()
        )
        return not left and all(f.cleared_us for f in await self.failures())

    async def failures(self) -> Any:
        return await self._s.store.read(
            lambda c: c.execute(select(host_failures).order_by(host_failures.c.generated_us)).all()
        )


class _Gated:
    """A dead engine tells nobody."""

    def __init__(self, inner: ScriptedAlerts, gate: Any) -> None:
        self._inner, self._gate = inner, gate

    async def send(self, failure: HostFailure, *, deadline_s: float) -> Any:
        await self._gate.passing("before send")
        done = await self._inner.send(failure, deadline_s=deadline_s)
        await self._gate.passing("after send")
        return done


def play(story: Story, *, seed: int = 5, alone: bool = True, **more: Any) -> None:
    async def scene() -> None:
        async with stage(seed, alone=alone, **more) as s:
            controllers = Controllers(s)
            object.__setattr__(s.ctx, "hosts", TERMS)
            told: Any = s.ctx.drivers.alerts
            told.update(controllers.all)
            await story(s, controllers)

    run_virtual(scene, seed=seed, cpu_s=120)


async def mark(s: Stage, host: str = "cmp1", at_s: float | None = None) -> str:
    """Say that a host has failed, `at_s` after the beginning of the epoch; return the failure's id."""
    ident, _ = await s.commands.host_failed(host, by="mara", proof="power cut", failed_s=at_s)
    return ident


# --- what is recorded -----------------------------------------------------------------------------


def test_a_host_that_a_fencer_proved_off_is_told_with_its_proof() -> None:
    async def story(s: Stage, c: Controllers) -> None:
        drivers: Any = c.start().ctx.drivers
        drivers.fencers["COMPUTE"] = Switch(drivers.fencers["COMPUTE"], "proves")
        from tests.sim.stage import policy

        await s.build(3, policy(actions=[{"name": "RECREATE", "timeout": 60}]))
        before_s = s.clock.now_us() // 1_000_000
        s.world.kill(s.node_ids()[0])
        await s.clock.sleep(10)
        await s.until(s.all_well, 120, "healed")
        await s.until(c.settled, 60, "both were told")
        (told,) = c.recovery.received
        assert c.audit.received == [told]
        # The switch reports under the name of its device; the map says what that is in full.
        assert (OFF.host, told.hostname) == ("cmp1", "cmp1.example.org")
        assert told.on_shared_storage is False
        assert told.proof == "scripted-power-off: read back: off"
        assert before_s <= told.failure_s <= told.generated_s <= s.clock.now_us() // 1_000_000
        (row,) = await c.failures()
        assert (row.id, row.source, row.cleared_by) == (told.id, "fencer", "recovery")

    play(story)


class ByWord(Switch):
    """A fencer that goes by somebody's word."""

    async def fence(self, target: Any, **asked: Any) -> FenceResult:
        done = await super().fence(target, **asked)
        return replace(done, off=replace(OFF, word=True, since_s=5)) if done.proof else done


def test_a_host_that_is_off_by_a_word_is_told_by_whoever_gave_it() -> None:
    async def story(s: Stage, c: Controllers) -> None:
        drivers: Any = c.start().ctx.drivers
        drivers.fencers["COMPUTE"] = ByWord(drivers.fencers["COMPUTE"], "proves")
        await s.build(3, policy(actions=[{"name": "RECREATE", "timeout": 60}]))
        s.world.kill(s.node_ids()[0])
        await s.clock.sleep(10)
        await s.until(s.all_well, 120, "healed")
        await s.clock.sleep(60)
        assert (await c.failures(), c.recovery.received) == ([], [])

    play(story)


def test_a_host_that_the_map_does_not_name_is_told_under_its_backends_name() -> None:
    async def story(s: Stage, c: Controllers) -> None:
        ctx = c.start().ctx
        drivers: Any = ctx.drivers
        object.__setattr__(ctx, "hosts", replace(TERMS, names={}))
        drivers.fencers["COMPUTE"] = Switch(drivers.fencers["COMPUTE"], "proves")
        await s.build(1, policy(actions=[{"name": "RECREATE", "timeout": 60}]))
        s.world.kill(s.node_ids()[0])
        await s.clock.sleep(10)
        await s.until(s.all_well, 120, "healed")
        await s.until(c.settled, 60, "told")
        assert [f.hostname for f in c.recovery.received] == [OFF.host]

    play(story)


def test_a_host_that_failed_with_many_nodes_is_one_failure() -> None:
    async def story(s: Stage, c: Controllers) -> None:
        machines = Machines(s, ("cmp1", "cmp2", "cmp3", "spare"))
        ctx = c.start().ctx
        drivers: Any = ctx.drivers
        equip(machines, ctx, s.ctx, placed=Returning)
        drivers.fencers["COMPUTE"] = switch = Switch(drivers.fencers["COMPUTE"], "proves")
        await s.build(9, moving(STATUS, HYPERVISORS))
        machines.die("cmp1")
        await s.clock.sleep(10)
        await s.until(s.all_well, 400, "all of them were moved")
        await s.until(c.settled, 400, "told")
        assert switch.asked > 1, "each of its nodes had the host proved off"
        assert len(await c.failures()) == 1
        assert len(c.recovery.received) == 1

    play(story, seed=11)


def test_nodes_that_failed_alone_on_a_host_are_one_failure_while_nobody_has_taken_it_over() -> None:
    async def story(s: Stage, c: Controllers) -> None:
        drivers: Any = c.start().ctx.drivers
        drivers.fencers["COMPUTE"] = switch = Switch(drivers.fencers["COMPUTE"], "proves")
        c.recovery.plan.rules.append(Rule(fault=Fault.LIE, call="send"))
        await s.build(3, policy(actions=[{"name": "RECREATE", "timeout": 60}]))
        for number in (0, 1):
            s.world.kill(s.node_ids()[number])
            await s.clock.sleep(10)
            await s.until(s.all_well, 120, "healed")
        assert switch.asked > 1
        assert len(await c.failures()) == 1
        c.recovery.plan.rules.clear()
        await s.until(c.settled, 400, "taken over")
        s.world.kill(s.node_ids()[2])
        await s.clock.sleep(10)
        await s.until(s.all_well, 120, "healed")
        assert len(await c.failures()) == 2, "what comes after that is another one"

    play(story)


@pytest.mark.parametrize("answer", ["refuses", "cannot tell"])
def test_a_fence_that_is_not_proved_tells_nobody(answer: str) -> None:
    async def story(s: Stage, c: Controllers) -> None:
        drivers: Any = c.start().ctx.drivers
        drivers.fencers["COMPUTE"] = switch = Switch(drivers.fencers["COMPUTE"], answer)
        await s.build(2, policy(actions=[{"name": "RECREATE", "timeout": 60}]))
        s.world.kill(s.node_ids()[0])
        await s.clock.sleep(120)
        assert switch.asked > 0
        assert await c.failures() == []
        assert c.recovery.received == []

    play(story)


def test_where_nobody_is_to_be_told_nothing_is_recorded() -> None:
    async def story(s: Stage, c: Controllers) -> None:
        drivers: Any = s.start().ctx.drivers
        drivers.fencers["COMPUTE"] = Switch(drivers.fencers["COMPUTE"], "proves")
        from tests.sim.stage import policy

        await s.build(2, policy(actions=[{"name": "RECREATE", "timeout": 60}]))
        s.world.kill(s.node_ids()[0])
        await s.clock.sleep(10)
        await s.until(s.all_well, 120, "healed")
        assert await c.failures() == []

    play(story)


def test_said_twice_it_is_one_failure_and_another_second_is_another() -> None:
    async def story(s: Stage, c: Controllers) -> None:
        now_s = s.clock.now_us() / 1e6
        first = await mark(s, at_s=now_s - 100)
        assert await mark(s, "cmp1.example.org", at_s=now_s - 100 + 0.2) == first
        assert await mark(s, at_s=now_s - 98) != first
        assert [f.hostname for f in await c.failures()] == ["cmp1.example.org"] * 2
        assert await mark(s, "cmp2", at_s=now_s - 100) != first
        shared = {f.hostname: f.on_shared_storage for f in await c.failures()}
        assert shared == {"cmp1.example.org": False, "cmp2.example.org": True}

    play(story)


# --- delivery -------------------------------------------------------------------------------------


def test_a_controller_that_is_away_for_long_gets_the_very_same_in_order() -> None:
    async def story(s: Stage, c: Controllers) -> None:
        metrics = c.start().ctx.metrics
        c.recovery.plan.rules.append(Rule(fault=Fault.ERROR, call="send"))
        now_s = s.clock.now_us() / 1e6
        idents = [await mark(s, at_s=now_s - 10), await mark(s, at_s=now_s - 5)]
        await s.clock.sleep(700)
        assert 690 < metrics.alert_age._value.get() <= 710
        assert [f.id for f in c.audit.received] == idents, "nobody waits for another"
        assert c.recovery.received == []
        assert not any(f.cleared_us for f in await c.failures()), (
            "the responsible one has not accepted"
        )
        c.recovery.plan.rules.clear()
        await s.until(c.settled, 400, "it is back")
        await s.clock.sleep(30)
        assert metrics.alert_age._value.get() == 0
        assert c.recovery.received == c.audit.received

    play(story)


def test_one_that_refuses_is_offered_it_again_and_the_others_go_on() -> None:
    async def story(s: Stage, c: Controllers) -> None:
        c.start()
        c.recovery.plan.rules.append(Rule(fault=Fault.LIE, call="send", times=2))
        ident = await mark(s)
        await s.clock.sleep(30)
        (shown,) = await s.store.read(lambda conn: _alerts(conn, ident, "recovery"))
        assert (shown.state, shown.attempts, shown.last_answer) == ("pending", 1, "no such address")
        assert shown.refused_us is not None
        await s.until(c.settled, 3 * 301, "accepted at the third")
        (shown,) = await s.store.read(lambda conn: _alerts(conn, ident, "recovery"))
        assert (shown.state, shown.attempts, shown.refused_us) == ("accepted", 3, None)

    play(story)


@pytest.mark.parametrize("fault", [Fault.STUCK, Fault.RAISE, Fault.HANG, Fault.LOSE])
def test_a_controller_that_misbehaves_costs_no_failure_and_delays_no_other(fault: Fault) -> None:
    async def story(s: Stage, c: Controllers) -> None:
        c.start()
        c.recovery.plan.rules.append(Rule(fault=fault, call="send", times=20))
        for number in range(12):
            await mark(s, f"h{number}")
        await s.until(lambda: _told(c.audit, 12), 30, "the other controller was told of all")
        await s.until(c.settled, 3600, "and so was this one")
        ids = {f.id for f in c.audit.received}
        assert {f.id for f in c.recovery.received} == ids
        assert len({replace(f) for f in c.recovery.received}) == 12, "a repeat is the very same"

    play(story)


@pytest.mark.parametrize("point", range(1, 29, 2))
def test_whoever_dies_at_any_step_leaves_the_rest_to_the_next(point: int) -> None:
    async def story(s: Stage, c: Controllers) -> None:
        life = c.start()
        await s.clock.sleep(5)
        seen = 0

        def dies(name: str) -> None:
            nonlocal seen
            seen += 1
            if seen == point:
                life.gate.dead = True

        life.gate.on_point = dies
        for number in range(3):
            await mark(s, f"h{number}")
        await s.clock.sleep(8)
        if not life.gate.dead:
            await life.kill()
        c.start()
        await s.until(c.settled, 120, "the next one told them")
        for one in c.all.values():
            assert len({f.id for f in one.received}) == 3
            assert len(set(one.received)) == 3, "nothing is told twice with another content"

    play(story)


def test_of_two_engines_one_tells_and_the_other_takes_over() -> None:
    async def story(s: Stage, c: Controllers) -> None:
        first, _ = c.start(), c.start()
        await s.clock.sleep(30)
        await mark(s, "h1")
        await s.until(c.settled, 60, "told")
        assert (len(c.recovery.received), len(c.audit.received)) == (1, 1), "by one of them"
        await first.kill()
        await mark(s, "h2")
        await s.until(c.settled, 120, "the other has taken over")
        assert len({f.id for f in c.recovery.received}) == 2

    play(story, alone=False)


def test_an_endpoint_that_is_gone_from_the_settings_is_said_and_nothing_is_lost() -> None:
    async def story(s: Stage, c: Controllers) -> None:
        ident = await mark(s)
        del c.all["audit"]
        c.start()
        await s.clock.sleep(60)
        (left,) = await s.store.read(lambda conn: _alerts(conn, ident, "audit"))
        assert left.state == "pending"
        assert left.last_answer == "no receiver 'audit' is configured any more"
        assert [f.id for f in c.recovery.received] == [ident]

    play(story)


def test_an_endpoint_that_is_new_is_told_of_what_nobody_has_taken_over() -> None:
    async def story(s: Stage, c: Controllers) -> None:
        told: Any = s.ctx.drivers.alerts
        del told["recovery"]
        ident = await mark(s)
        c.start()
        await s.until(c.settled, 60, "also the one that was not there then")
        assert [f.id for f in c.recovery.received] == [ident]

    play(story)


# --- persons --------------------------------------------------------------------------------------


def test_a_person_gives_an_alert_up_by_name_and_with_a_reason() -> None:
    async def story(s: Stage, c: Controllers) -> None:
        c.start()
        c.recovery.plan.rules.append(Rule(fault=Fault.LIE, call="send"))
        ident = await mark(s)
        await s.clock.sleep(20)
        (alert,) = await s.store.read(lambda conn: _alerts(conn, ident, "recovery"))
        with pytest.raises(InvalidSpec, match="reason"):
            await s.commands.alert_discard(alert.seq, by="mara", reason=" ")
        with pytest.raises(NotFound):
            await s.commands.alert_discard(999, by="mara", reason="x")
        await s.commands.alert_discard(alert.seq, by="mara", reason="it was a drill")
        with pytest.raises(Conflict, match="discarded"):
            await s.commands.alert_discard(alert.seq, by="mara", reason="again")
        (failure,) = await c.failures()
        assert failure.cleared_by == "mara"
        said = await s.store.read(
            lambda conn: conn.execute(
                select(events.c.user, events.c.reason).where(
                    events.c.action == "HOST_FAILURE_DISCARD"
                )
            ).all()
        )
        assert [tuple(row) for row in said] == [("mara", "it was a drill")]

    play(story)


def test_what_a_person_has_given_up_is_told_to_no_endpoint_that_comes_later() -> None:
    async def story(s: Stage, c: Controllers) -> None:
        told: Any = s.ctx.drivers.alerts
        told.clear()
        told["old"] = c.audit
        ident = await mark(s)
        # The old endpoint leaves the settings, and somebody deals with what it was to be told.
        object.__setattr__(s.ctx, "hosts", replace(TERMS, responsible=""))
        (alert,) = await s.store.read(lambda conn: _alerts(conn, ident, "old"))
        await s.commands.alert_discard(alert.seq, by="mara", reason="recovered by hand")
        c.start()
        await s.clock.sleep(60)
        assert c.recovery.received == c.audit.received == []

    play(story)


def test_by_hand_it_is_offered_at_once() -> None:
    async def story(s: Stage, c: Controllers) -> None:
        c.start()
        c.recovery.plan.rules.append(Rule(fault=Fault.LIE, call="send", times=1))
        await mark(s)
        await s.clock.sleep(20)
        assert await s.commands.alert_retry(by="mara") == 1
        await s.until(c.settled, 10, "well before its time")
        assert await s.commands.alert_retry(by="mara") == 0

    play(story)


@pytest.mark.parametrize("lacks", [Right.ADMIN, Right.OVERRIDE])
def test_a_host_is_marked_by_who_may_and_with_a_proof(lacks: Right) -> None:
    async def story(s: Stage, c: Controllers) -> None:
        some = Principal(user="tom", project="p", rights=frozenset(Right) - {lacks})
        with pytest.raises(Forbidden):
            await s.commands.host_failed("cmp1", by=some, proof="power cut")
        with pytest.raises(InvalidSpec, match="proof"):
            await s.commands.host_failed("cmp1", by="mara", proof="  ")
        soon_s = s.clock.now_us() / 1e6 + 61
        with pytest.raises(InvalidSpec, match="future"):
            await s.commands.host_failed("cmp1", by="mara", proof="x", failed_s=soon_s)
        for wrong in ("", " cmp1", "a\nb", "h" * 256):
            with pytest.raises(InvalidSpec, match="host"):
                await s.commands.host_failed(wrong, by="mara", proof="x")
        told: Any = s.ctx.drivers.alerts
        told.clear()
        with pytest.raises(Conflict, match="nobody would hear of it"):
            await s.commands.host_failed("cmp1", by="mara", proof="power cut")
        assert await c.failures() == []

    play(story)


async def _told(one: ScriptedAlerts, count: int) -> bool:
    return len({f.id for f in one.received}) == count


def _alerts(conn: Any, ident: str, endpoint: str) -> Any:
    return conn.execute(
        select(alerts).where(alerts.c.failure_id == ident, alerts.c.endpoint == endpoint)
    ).all()


# --- endpoints that show a failure until somebody has it ---------------------------------------------


class Pager(ScriptedAlerts):
    """Shows failures until they are resolved; refuses to hear of that for as long as it is told to."""

    def __init__(self, s: Stage) -> None:
        super().__init__(s.clock, FaultPlan(s.clock))
        self.shown: set[str] = set()
        self.deaf = 0

    async def send(self, failure: HostFailure, *, deadline_s: float) -> Any:
        done = await super().send(failure, deadline_s=deadline_s)
        if done[0] is Delivery.ACCEPTED:
            self.shown.add(failure.id)
        return done

    async def resolve(self, failure: HostFailure, *, deadline_s: float) -> Any:
        if self.deaf:
            self.deaf -= 1
            return Delivery.RETRY, "it is busy"
        self.shown.discard(failure.id)
        return Delivery.ACCEPTED, ""


def paged(
    story: Callable[[Stage, Controllers, Pager], Awaitable[None]], name: str = "pager"
) -> None:
    async def told(s: Stage, c: Controllers) -> None:
        pager = Pager(s)
        c.all[name] = pager
        everybody: Any = s.ctx.drivers.alerts
        everybody[name] = pager
        life = c.start()
        life.ctx.drivers.alerts[name] = pager
        await story(s, c, pager)

    play(told)


def test_a_failure_is_shown_until_the_responsible_controller_has_it() -> None:
    async def story(s: Stage, c: Controllers, pager: Pager) -> None:
        c.recovery.plan.rules.append(Rule(fault=Fault.FAIL, call="send"))
        ident = await mark(s)
        await s.clock.sleep(120)
        assert pager.shown == {ident}
        c.recovery.plan.rules.clear()
        pager.deaf = 3
        await s.commands.alert_retry(by="mara")
        await s.until(c.settled, 60, "it is accepted")
        assert pager.shown == {ident}, "it has not heard that yet"

        async def over() -> bool:
            return not pager.shown

        await s.until(over, 120, "it is shown no more")
        assert pager.deaf == 0

    paged(story)


def test_a_failure_that_a_person_gives_up_is_shown_no_more() -> None:
    async def story(s: Stage, c: Controllers, pager: Pager) -> None:
        c.recovery.plan.rules.append(Rule(fault=Fault.FAIL, call="send"))
        ident = await mark(s)
        await s.clock.sleep(30)
        assert pager.shown == {ident}
        rows = await s.store.read(
            lambda conn: (
                conn.execute(select(alerts.c.seq).where(alerts.c.endpoint == "recovery"))
                .scalars()
                .all()
            )
        )
        await s.commands.alert_discard(rows[0], by="mara", reason="it is a test")
        await s.clock.sleep(30)
        assert pager.shown == set()

    paged(story)


def test_the_responsible_endpoint_settles_nothing_for_itself() -> None:
    async def story(s: Stage, c: Controllers, pager: Pager) -> None:
        ident = await mark(s)
        await s.clock.sleep(60)
        assert pager.shown == {ident}, "nobody has taken it over but the pager itself"

    paged(story, "recovery")
