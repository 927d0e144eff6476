"""A snapshot of the failed copy: taken first, booted once, and never what a recovery waits for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import select
from tests.sim.stage import Stage, policy, stage
from tests.sim.test_node_actions import node
from tests.sim.test_rules import play

from yaffle.engine.explain import Explainer
from yaffle.model.authz import LOCAL
from yaffle.model.operations import Hindrance, Progress, ProgressState
from yaffle.store.tables import actions, events, steps
from yaffle.testing import run_virtual
from yaffle.testing.faults import Fault, Rule

REBUILD = {"name": "REBUILD", "timeout": 30}
RECREATE = {"name": "RECREATE", "timeout": 60}
TAKE = {"take": True, "restore": True, "timeout": 20}


async def walked(s: Stage) -> list[tuple[str, str, str]]:
    """What was kept and what was made, in order: stage, result, and what it was made of."""

    def read(conn: Any) -> list[tuple[str, str, str]]:
        rows = conn.execute(
            select(steps.c.stage, steps.c.result, steps.c.data)
            .where(steps.c.phase == "ended", steps.c.stage.in_(("snapshot", "act", "create")))
            .join(actions, actions.c.id == steps.c.action_id)
            .where(actions.c.action == "NODE_RECOVER")
            .order_by(actions.c.created_us, steps.c.seq)
        )
        return [(row[0], row[1], str(row[2].get("booted_from", ""))) for row in rows]

    return list(await s.store.read(read))


def heal(snapshot: dict[str, Any], ladder: list[dict[str, Any]], *faults: tuple[str, Fault]) -> Any:
    """Kill one of three nodes, let some calls go wrong; return what was done, and of what it is."""
    found: list[Any] = []

    async def story() -> None:
        async with stage(5) as s:
            s.start()
            await s.build(3, policy(snapshot=snapshot, actions=ladder))
            await s.clock.sleep(30)
            victim = s.node_ids()[0]
            for call, fault in faults:
                s.plan.rules.append(Rule(fault=fault, call=call, times=1))
            first = s.world.present(victim)
            assert first is not None
            s.world.kill(victim)
            await s.clock.sleep(20)
            await s.until(s.all_well, 200, "healed")
            last = s.world.present(victim)
            assert last is not None
            assert not s.world.overlaps
            found.extend([await walked(s), last.spec["image"], f"image of {first.physical_id}"])

    run_virtual(story, seed=5, cpu_s=30)
    return found


@pytest.mark.parametrize("last", [REBUILD, RECREATE], ids=["rebuild", "recreate"])
def test_the_new_disk_is_the_old_one(last: dict[str, Any]) -> None:
    done, image, old = heal(TAKE, [last])
    made = "act" if last is REBUILD else "create"
    assert done == [("snapshot", "done", ""), (made, "done", old)]
    assert image == old


def test_taken_is_not_booted_unless_that_is_wanted() -> None:
    done, image, _ = heal({**TAKE, "restore": False}, [RECREATE])
    assert done == [("snapshot", "done", ""), ("create", "done", "")]
    assert image == ""


@pytest.mark.parametrize(
    "fault", [Fault.FAIL, Fault.HANG, Fault.LOSE, Fault.LIE], ids=lambda f: f.value
)
def test_without_a_snapshot_the_profiles_own_image_is_booted(fault: Fault) -> None:
    done, image, old = heal(TAKE, [RECREATE], ("submit:SNAPSHOT", fault))
    # What hung or was lost is asked for again within its time, and may be had after all.
    kept = done[0][1] == "done"
    assert done[0][0] == "snapshot"
    assert kept is (fault in {Fault.HANG, Fault.LOSE})
    assert done[1:] == [("create", "done", old if kept else "")]
    assert image == (old if kept else "")


def test_what_did_not_help_is_not_booted_again() -> None:
    done, image, old = heal(TAKE, [REBUILD, RECREATE], ("submit:REBUILD", Fault.HALF))
    assert done == [("snapshot", "done", ""), ("act", "failed", old), ("create", "done", "")]
    assert image == ""


def test_a_second_try_takes_none_and_boots_none() -> None:
    done, image, old = heal(TAKE, [REBUILD], ("submit:REBUILD", Fault.LIE))
    assert done == [
        ("snapshot", "done", ""),
        ("act", "done", old),
        ("snapshot", "failed", ""),
        ("act", "done", ""),
    ]
    assert image == ""


def told(s: Stage) -> Any:
    """Return the events of incidents: when, and what was said."""
    query = select(events.c.at_us, events.c.reason).where(events.c.action == "INCIDENT")
    return s.store.read(lambda c: [tuple(row) for row in c.execute(query.order_by(events.c.at_us))])


def test_that_the_disk_cannot_be_kept_is_said_before_it_is_given_up_and_afterwards() -> None:
    async def story(s: Stage) -> None:
        victim = s.node_ids()[0]
        s.plan.rules.append(Rule(fault=Fault.FAIL, call="submit:SNAPSHOT", times=1))
        s.world.kill(victim)
        await s.clock.sleep(20)
        await s.until(s.all_well, 60, "healed")
        why = "SNAPSHOT failed: the backend says no"
        lost = [(at_us, reason) for at_us, reason in await told(s) if "NOT kept" in reason]
        assert [why in reason for _, reason in lost] == [True, True], "before, and at the end"
        (made_s,) = [a.at_s for a in s.world.acts if a.kind == "REBUILD"]
        booted_s = s.clock.now_us() / 1e6 - s.clock.monotonic_s()
        assert lost[0][0] / 1e6 - booted_s < made_s
        assert lost[1][1].startswith("recovered: its disk was NOT kept")
        lines = (await Explainer(s.ctx).why(LOCAL, victim)).lines()
        assert f"The disk of the copy that failed could not be kept: {why}" in lines

    play(story, actions=[REBUILD], snapshot=TAKE)


def test_a_disk_is_not_given_up_while_nobody_can_be_asked_to_keep_it() -> None:
    async def story(s: Stage) -> None:
        victim, away = s.node_ids()[0], [True]
        for life in s.lives:
            unasked(life.ctx.drivers.profiles[s.profile.type], away)
        first = s.world.present(victim)
        assert first is not None
        s.world.kill(victim)
        await s.clock.sleep(150)
        assert s.world.present(victim) is first
        assert ("snapshot", "unclear", "") in [row for row in await walked(s) if row[1] != "halted"]
        assert not [row for row in await told(s) if "NOT kept" in row[1]]
        seen = await node(s, victim)
        assert seen.attempts <= 1, "it was no attempt"
        assert seen.exhausted_us is None
        away.clear()
        await s.until(s.all_well, 120, "healed")
        last = s.world.present(victim)
        assert last is not None
        assert last.spec["image"] == f"image of {first.physical_id}"

    play(story, actions=[RECREATE], snapshot=TAKE)


def test_what_an_earlier_try_did_not_come_to_a_later_one_keeps() -> None:
    async def story(s: Stage) -> None:
        victim, away = s.node_ids()[0], [True]
        for life in s.lives:
            unasked(life.ctx.drivers.profiles[s.profile.type], away)
        # A reboot makes it an attempt, whatever comes after it.
        s.plan.rules.append(Rule(fault=Fault.FAIL, call="submit:REBOOT"))
        first = s.world.present(victim)
        assert first is not None
        s.world.kill(victim)
        while (await node(s, victim)).attempts < 2:
            await s.clock.sleep(1)
        away.clear()
        await s.until(s.all_well, 120, "healed")
        last = s.world.present(victim)
        assert last is not None
        assert last.spec["image"] == f"image of {first.physical_id}"

    reboot = {"name": "REBOOT", "timeout": 10}
    play(story, actions=[reboot, RECREATE], snapshot=TAKE)


def slow(s: Stage, seconds: float = 300.0) -> None:
    """Let every snapshot take so long."""
    for life in s.living:
        profile: Any = life.ctx.drivers.profiles[s.profile.type]
        submit = profile.submit

        async def asked(op: Any, *, submit: Any = submit, **more: Any) -> Progress:
            spec = {**op.target.spec, "snapshot_s": seconds}
            return await submit(replace(op, target=replace(op.target, spec=spec)), **more)

        profile.submit = asked


def unasked(profile: Any, away: list[bool]) -> None:
    """Let a driver say that its backend gives no answer to whoever asks for a snapshot."""
    silent = Progress(
        state=ProgressState.RUNNING, detail="no answer", hindrance=Hindrance.UNASKED, untold=True
    )

    def guarded(call: Any) -> Any:
        async def asked(op: Any, **more: Any) -> Progress:
            return silent if away and op.kind == "SNAPSHOT" else await call(op, **more)

        return asked

    profile.submit, profile.poll = guarded(profile.submit), guarded(profile.poll)


def test_when_none_will_be_taken_is_said_where_the_policy_is_attached() -> None:
    async def story(s: Stage) -> None:
        here = (events.c.action == "CLUSTER_ATTACH_POLICY") & (events.c.status == "warning")
        query = select(events.c.reason, events.c.level).where(here)
        (said,) = await s.store.read(lambda c: c.execute(query).all())
        assert "recovery.snapshot: of a copy that is deleted none is taken" in said.reason
        assert said.level == 30
        await s.commands.detach("web", "policy-web", by="op")
        await s.commands.attach("web", "policy-web", by="op")
        outputs = select(actions.c.outputs).where(actions.c.action == "CLUSTER_ATTACH_POLICY")
        (told,) = await s.store.read(lambda c: c.execute(outputs).scalars().all())
        assert told["warnings"][0] in said.reason

    play(story, actions=[REBUILD], snapshot=TAKE)


@pytest.mark.parametrize("killed", [False, True], ids=["", "killed"])
def test_one_that_is_late_is_given_up_and_holds_no_rebuild(killed: bool) -> None:
    async def story(s: Stage) -> None:
        victim = s.node_ids()[0]
        slow(s)
        s.world.kill(victim)
        while not s.world.taking(victim):
            await s.clock.sleep(0.5)
        if killed:
            await s.living[0].kill()
            s.start()
            slow(s)
        await s.clock.sleep(10)
        assert s.world.taking(victim), "it takes long"
        await s.until(s.all_well, 60, "rebuilt")
        assert not s.world.taking(victim)
        (snapshot, act) = await walked(s)
        assert snapshot[:2] == ("snapshot", "failed")
        assert act == ("act", "done", "")

    play(story, actions=[REBUILD], snapshot=TAKE)
