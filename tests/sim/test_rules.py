"""One promise each, in the smallest world that can break it. The random days cover the mixtures."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from sqlalchemy import select
from tests.sim.stage import Stage, policy, stage

from yaffle.errors import StoreUnavailable
from yaffle.model.incident import PauseKind, PauseScope
from yaffle.model.operations import Progress, ProgressState
from yaffle.store import incidents, journal
from yaffle.store.tables import actions as actions_table
from yaffle.store.tables import steps
from yaffle.testing import Fault, Rule, run_virtual

Story = Callable[[Stage], Awaitable[None]]
SLOW = {"attempts": 3, "backoff": 20, "max_backoff": 60, "stable_after": 60}
"""A policy that checks every 20 s may not try again sooner."""


def play(story: Story, size: int = 3, *, seed: int = 5, **changed: Any) -> None:
    """Build a cluster of `size` under a policy, then tell the story."""
    options = {
        k: changed.pop(k)
        for k in ("alone", "forgetful", "careful", "foreseeing", "budgets")
        if k in changed
    }

    async def main() -> None:
        async with stage(seed, **options) as s:
            s.start()
            await s.build(size, policy(**changed))
            # Grace is over, every memory is settled, past tries are forgotten.
            await s.clock.sleep(30)
            s.world.acts.clear()
            await story(s)

    run_virtual(main, seed=seed, cpu_s=60)


async def names(s: Stage) -> dict[Any, str]:
    return {n.id: n.name for n in await s.nodes()}


async def results(s: Stage) -> list[tuple[str, str]]:
    """Stage and result of every recovery's steps, in the order of time."""
    query = (
        select(steps.c.stage, steps.c.result)
        .join(actions_table, actions_table.c.id == steps.c.action_id)
        .where(actions_table.c.action == "NODE_RECOVER", steps.c.phase == journal.ENDED)
        .order_by(steps.c.intent_us, steps.c.seq)
    )
    return [tuple(r) for r in await s.store.read(lambda c: c.execute(query).all())]


def kinds(s: Stage) -> list[str]:
    s.world.settle()
    return [a.kind for a in s.world.acts]


def test_looks_again_before_it_acts() -> None:
    async def story(s: Stage) -> None:
        victim = s.node_ids()[0]
        lie = Rule(fault=Fault.LIE, call="check", node=(await names(s))[victim], times=2)
        s.plan.rules.append(lie)
        await s.clock.sleep(60)
        assert set(await results(s)) == {("look", "healthy")}
        assert not kinds(s)

    play(story)


def test_unknown_is_no_licence_to_act() -> None:
    async def story(s: Stage) -> None:
        victim = s.node_ids()[0]
        pause = await s.commands.pause(
            PauseKind.MAINTENANCE, PauseScope.NODE, victim, owner="op", reason="x", for_s=None
        )
        s.world.hang(victim)
        await s.clock.sleep(30)
        s.plan.rules.append(Rule(fault=Fault.ERROR, call="check"))
        s.plan.rules.append(Rule(fault=Fault.ERROR, call="read"))
        await s.commands.lift(pause, by="op")
        await s.clock.sleep(9)
        assert ("look", "unclear") in await results(s)
        assert not kinds(s)

    play(story)


def test_nothing_is_done_after_the_lease() -> None:
    async def story(s: Stage) -> None:
        s.plan.rules.append(Rule(fault=Fault.HANG, call="fence"))
        s.world.hang(s.node_ids()[0])

        async def fencing() -> bool:
            return any(call == "fence" for _, call, _ in s.plan.calls)

        await s.until(fencing, 60, "fencing began")
        s.weather.away = True
        away_s = s.clock.monotonic_s()
        await s.clock.sleep(60)
        late = [at for at, call, _ in s.plan.calls if call == "fence" and at > away_s + 20]
        assert not late, "fenced without a lease"
        s.weather.away = False
        s.plan.rules.clear()
        await s.until(s.all_well, 300, "healed afterwards")

    play(story, actions=[{"name": "RECREATE", "timeout": 60}])


def test_a_frozen_engine_resettles() -> None:
    async def story(s: Stage) -> None:
        life = s.living[0]
        (watch,) = life.engine.watches.values()
        assert all(m.settled for m in watch.memories.values())
        life.gate.freeze()
        await s.clock.sleep(6)
        life.gate.thaw()
        await s.clock.sleep(0.6)
        assert not any(m.settled for m in watch.memories.values())

    play(story, interval=20, node_update_timeout=60, retry=SLOW)


def test_an_outage_of_the_database_resettles() -> None:
    """Also where nothing was to be written meanwhile: nobody knows what others wrote."""

    async def story(s: Stage) -> None:
        (watch,) = s.living[0].engine.watches.values()
        s.weather.away = True
        await s.clock.sleep(6)
        assert all(m.settled for m in watch.memories.values())
        s.weather.away = False

        async def unsettled() -> bool:
            return not any(m.settled for m in watch.memories.values())

        await s.until(unsettled, 5, "what was believed is asked again")
        await s.until(s.all_well, 60, "and found to be well")
        assert s.living[0].engine.watches == {watch.cluster_id: watch}

    play(story, interval=20, node_update_timeout=60, retry=SLOW)


def test_what_could_not_be_written_is_written_afterwards() -> None:
    """Where no policy asks for anything, nothing else would bring it up again."""

    async def story(s: Stage) -> None:
        await s.commands.detach("web", "policy-web", by="op")
        await s.commands.pause(
            PauseKind.STOP, PauseScope.ALL, "", owner="op", reason="x", for_s=None
        )
        await s.clock.sleep(60)
        store: Any = s.living[0].ctx.store
        right, tried = store.write, []

        async def full(work: Any, **_named: Any) -> Any:
            tried.append(work)
            raise StoreUnavailable("simulated: the disk is full")

        store.write = full
        await s.commands.mark("web-2", reason="smoke", by="op")
        await s.clock.sleep(6)
        store.write = right
        assert tried
        await s.clock.sleep(10)
        assert [n.health for n in await s.nodes() if n.name == "web-2"] == ["unhealthy"]

    play(story)


@pytest.mark.parametrize(
    ("fault", "result"), [(Fault.HANG, "unclear"), (Fault.FAIL, "unproved")], ids=["hang", "no"]
)
def test_a_doubtful_fence_is_no_proof(fault: Fault, result: str) -> None:
    async def story(s: Stage) -> None:
        s.plan.rules.append(Rule(fault=fault, call="fence"))
        s.plan.rules.append(Rule(fault=Fault.FAIL, call="submit:DELETE"))
        s.world.hang(s.node_ids()[0])
        await s.clock.sleep(120)
        assert ("fence", result) in await results(s)
        assert not kinds(s)

    play(story, actions=[{"name": "RECREATE", "timeout": 60}])


def test_all_news_is_told() -> None:
    async def story(s: Stage) -> None:
        s.plan.rules.append(Rule(fault=Fault.FAIL, call="send", times=3))
        s.world.kill(s.node_ids()[0])
        await s.clock.sleep(120)
        topics = {m.topic for m in s.notifier.received}
        assert topics == {"incident.opened", "incident.recovering", "incident.recovered"}

    play(story)


def test_an_operation_without_end_is_given_up() -> None:
    async def story(s: Stage) -> None:
        (profile,) = s.living[0].ctx.drivers.profiles.values()
        submit, poll = profile.submit, profile.poll

        def endless(call: Any) -> Any:
            async def asked(op: Any, **more: Any) -> Any:
                going_on = Progress(state=ProgressState.RUNNING, detail="rebooting")
                return going_on if op.kind == "REBOOT" else await call(op, **more)

            return asked

        profile.submit, profile.poll = endless(submit), endless(poll)  # type: ignore[method-assign]
        s.world.hang(s.node_ids()[0])
        await s.clock.sleep(30)
        await s.until(s.all_well, 120, "made anew")
        assert kinds(s) == ["KILL", "CREATE"]

    play(story)


def test_a_reboot_that_did_nothing_is_noticed() -> None:
    async def story(s: Stage) -> None:
        s.plan.rules.append(Rule(fault=Fault.LIE, call="submit:REBOOT"))
        s.world.hang(s.node_ids()[0])
        await s.clock.sleep(30)
        await s.until(s.all_well, 120, "made anew")
        assert ("verify", "failed") in await results(s)
        assert kinds(s) == ["KILL", "CREATE"]

    play(story)


def test_a_storm_is_held() -> None:
    async def story(s: Stage) -> None:
        for ident in s.node_ids()[:4]:
            s.world.kill(ident)
        await s.clock.sleep(120)
        assert not kinds(s)
        opened = await s.store.read(
            lambda c: incidents.listed(c, open_only=True, node_id=None, limit=9)
        )
        assert [i.hold_reason for i in opened] == ["storm"] * 4

    play(story, size=5)


def test_the_stop_is_obeyed() -> None:
    async def story(s: Stage) -> None:
        await s.commands.pause(
            PauseKind.STOP, PauseScope.ALL, "", owner="op", reason="night", for_s=90
        )
        s.world.kill(s.node_ids()[0])
        await s.clock.sleep(80)
        assert not kinds(s)
        await s.until(s.all_well, 60, "healed when the stop was over")

    play(story)


def test_budgets_hold_back_waves() -> None:
    """The audit counts every admission; six waves are more than the cluster's bucket holds."""

    async def story(s: Stage) -> None:
        for _ in range(6):
            for ident in s.node_ids():
                s.world.kill(ident)
            await s.clock.sleep(16)
        assert len(s.audit.admissions["all"]) > 6

    play(
        story,
        size=6,
        fall=1,
        actions=[{"name": "REBOOT", "timeout": 30}],
        limits={"max_unhealthy": "100%", "max_in_flight": 2},
        retry={"attempts": 20, "backoff": 5, "max_backoff": 5, "stable_after": 60},
    )


def loses_answers_of(s: Stage, work: str) -> None:
    """From now on each write of that name is committed, and its writer hears the contrary."""

    def point(name: str) -> None:
        s.weather.loses_answers = float(name.startswith(f"after {work}"))

    s.living[0].gate.on_point = point


def stops_losing(s: Stage) -> None:
    s.living[0].gate.on_point = lambda _name: None
    s.weather.loses_answers = 0.0


def test_a_claim_whose_answer_was_lost_is_taken_up() -> None:
    async def story(s: Stage) -> None:
        loses_answers_of(s, "Executor._claim")
        s.world.kill(s.node_ids()[0])
        await s.clock.sleep(40)
        assert not kinds(s)
        stops_losing(s)
        await s.until(s.all_well, 60, "healed")

    play(story)


def test_a_database_away_at_a_submit_is_waited_out() -> None:
    async def story(s: Stage) -> None:
        loses_answers_of(s, "_again")
        s.world.kill(s.node_ids()[0])
        await s.clock.sleep(25)
        assert not kinds(s)
        stops_losing(s)
        await s.until(s.all_well, 120, "healed")
        assert max(len(v) for v in s.audit.submits.values()) == 1

    play(story)


def test_a_copy_half_made_does_not_bar_the_next() -> None:
    async def story(s: Stage) -> None:
        s.plan.rules.append(Rule(fault=Fault.HALF, call="submit:CREATE", times=1))
        s.world.hang(s.node_ids()[0])
        await s.clock.sleep(30)
        await s.until(s.all_well, 200, "the second attempt succeeded")

    play(story, actions=[{"name": "RECREATE", "timeout": 30}])


def test_a_copy_made_late_is_adopted() -> None:
    async def story(s: Stage) -> None:
        s.plan.rules.append(Rule(fault=Fault.LATE, call="submit:CREATE", delay_s=50, times=1))
        s.plan.rules.append(Rule(fault=Fault.HANG, call="submit:CREATE", times=60))
        victim = s.node_ids()[0]
        s.world.kill(victim)
        while not s.world.alive(victim):
            await s.clock.sleep(0.05)
        # Ill from its first moment: one that is well is taken for the node's own by the watch.
        s.world.hang(victim)
        await s.clock.sleep(50)
        s.plan.rules.clear()
        await s.until(s.all_well, 300, "healed")
        await s.commands.delete_node(victim, by="op")
        await s.clock.sleep(30)
        assert not s.world.alive(victim), "the late copy runs on"

    play(story, actions=[{"name": "RECREATE", "timeout": 30}])


def test_a_long_health_forgets_past_tries() -> None:
    async def story(s: Stage) -> None:
        for _ in range(5):
            s.world.kill(s.node_ids()[0])
            await s.clock.sleep(20)
            await s.until(s.all_well, 60, "healed")
            await s.clock.sleep(100)

    play(story)


def test_a_successor_asks_the_target_first() -> None:
    """A driver that forgets operation ids is never handed the same one twice."""

    async def story(s: Stage) -> None:
        first, victim = s.living[0], s.node_ids()[0]
        s.world.hang(victim)

        async def created() -> bool:
            return any(call == "submit:CREATE" for _, call, _ in s.plan.calls[before:])

        before = len(s.plan.calls)
        await s.until(created, 120, "CREATE was submitted")
        await first.kill()
        s.start()
        await s.until(s.all_well, 120, "healed")
        assert max(len(v) for v in s.audit.submits.values()) == 1
        assert kinds(s) == ["KILL", "CREATE"]

    play(story, forgetful=True, actions=[{"name": "RECREATE", "timeout": 60}])


def test_a_thawed_engine_finds_its_work_taken() -> None:
    """Frozen in the middle of a step for longer than the lease, with a second engine alive."""

    async def story(s: Stage) -> None:
        first, victim = s.living[0], s.node_ids()[0]
        second: list[Any] = []

        def freeze(name: str) -> None:
            if name == "before submit DELETE" and not second:
                first.gate.freeze()
                second.append(s.start())

        first.gate.on_point = freeze
        s.world.hang(victim)
        await s.clock.sleep(100)
        await s.until(s.all_well, 100, "the second engine healed it")
        first.gate.thaw()
        await s.clock.sleep(60)
        assert await s.all_well()
        assert kinds(s) == ["KILL", "CREATE"]

    play(story, alone=False, actions=[{"name": "RECREATE", "timeout": 60}])
