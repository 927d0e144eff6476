"""Hosts are watched through monitors: each proved failure is told once, whatever the engines miss."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Connection, select
from tests.sim.stage import Stage, policy
from tests.sim.test_fencers import OFF, Switch
from tests.sim.test_host_alerts import TERMS, Controllers, mark
from tests.sim.test_host_alerts import play as play_alerts

from yaffle.engine.queries import Queries
from yaffle.errors import NotFound
from yaffle.model.authz import LOCAL
from yaffle.model.ids import PauseId
from yaffle.model.incident import Pause, PauseKind, PauseScope
from yaffle.ports import HostFencing, HostMark, Seen
from yaffle.store import pauses
from yaffle.store.tables import alerts, events, host_failures, host_monitors, monitored_hosts
from yaffle.testing import Fault, Rule, ScriptedHostMonitor

Story = Callable[[Stage, "Cluster"], Awaitable[None]]


class Cluster:
    """A cluster of three hosts, with two controllers that are told; it outlives every engine."""

    def __init__(self, s: Stage, controllers: Controllers) -> None:
        self.s, self.told = s, controllers
        self.monitor = ScriptedHostMonitor(s.clock)
        self.monitor.seen = dict.fromkeys(("cmp1", "cmp2", "cmp3"), Seen.UP)

    def start(self) -> Any:
        """Start an engine that asks the cluster."""
        life = self.told.start()
        self.equip(life.ctx)
        return life

    def equip(self, ctx: Any) -> None:
        ctx.drivers.host_monitors["pcmk"] = self.monitor

    async def state(self, host: str = "cmp1") -> Any:
        return await Queries(self.s.ctx).host(host)

    async def looked(self) -> None:
        """Wait until what is so now has been seen."""
        await self.s.clock.sleep(12)

    def hostnames(self) -> list[str]:
        return [failure.hostname for failure in self.told.recovery.received]

    async def said(self, status: str) -> list[str]:
        return list(
            await self.s.store.read(
                lambda c: (
                    c.execute(
                        select(events.c.reason).where(
                            events.c.action == "HOST_STATE", events.c.status == status
                        )
                    )
                    .scalars()
                    .all()
                )
            )
        )


def play(story: Story, **more: Any) -> None:
    async def with_cluster(s: Stage, controllers: Controllers) -> None:
        cluster = Cluster(s, controllers)
        cluster.equip(s.ctx)
        await story(s, cluster)

    play_alerts(with_cluster, **more)


def test_a_host_that_is_fenced_is_told_with_the_proof_and_the_time_of_its_fencing() -> None:
    async def story(s: Stage, c: Cluster) -> None:
        metrics = c.start().ctx.metrics
        await c.looked()
        c.monitor.seen["cmp1"] = Seen.LOST
        await c.looked()
        shown = await c.state()
        assert (shown["state"], c.hostnames()) == ("lost", []), "lost is no proof"
        assert "nobody is told" in shown["why"]
        done = c.monitor.fence("cmp1")
        await c.looked()
        await s.until(c.told.settled, 60, "told")
        (told,) = c.told.recovery.received
        assert (told.hostname, told.failure_s, told.proof) == (
            "cmp1.example.org",
            done.at_s,
            done.proof,
        )
        shown = await c.state()
        assert (shown["state"], shown["fenced_us"]) == ("fenced", done.at_s * 1_000_000)
        assert len(shown["alerts"]) == 2, "one for each endpoint"
        await s.clock.sleep(3600)
        assert len(c.told.recovery.received) == 1, "however often it is seen"
        assert 5 < metrics.host_fence._sum.get() < 30, "once, however often it is seen"
        c.monitor.seen["cmp1"] = Seen.UP
        await c.looked()
        assert (await c.state())["state"] == "up"
        assert len(await c.said("lost")) == 1
        assert len(await c.said("up")) == 1, "three that were well from the beginning are no news"

    play(story)


def test_a_host_that_reboots_between_two_looks_is_told() -> None:
    async def story(s: Stage, c: Cluster) -> None:
        c.start()
        await c.looked()
        c.monitor.fence("cmp2")
        await c.looked()
        await s.until(c.told.settled, 60, "told")
        assert c.hostnames() == ["cmp2.example.org"]

    play(story)


def test_what_happened_while_no_engine_lived_is_told_by_the_next() -> None:
    async def story(s: Stage, c: Cluster) -> None:
        life = c.start()
        await c.looked()
        await life.kill()
        c.monitor.fence("cmp1")
        c.monitor.seen["cmp2"] = Seen.LOST
        c.monitor.fence("cmp2")
        await s.clock.sleep(1800)
        shown = await c.state()
        assert (shown["state"], shown["last_state"]) == ("unknown", "up")
        assert "no engine asks it" in shown["why"]
        c.start()
        await c.looked()
        await s.until(c.told.settled, 60, "told")
        assert sorted(c.hostnames()) == ["cmp1.example.org", "cmp2.example.org"]

    play(story)


def test_failures_of_one_host_that_nobody_saw_are_told_in_order_though_the_newest_is_shown_first() -> (
    None
):
    async def story(s: Stage, c: Cluster) -> None:
        life = c.start()
        await c.looked()
        await life.kill()
        failed_s = [c.monitor.fence("cmp1", ago_s=ago_s).at_s for ago_s in (300, 200, 100)]
        c.monitor.fencings.reverse()
        c.start()
        await c.looked()
        await s.until(c.told.settled, 60, "told")
        assert [told.failure_s for told in c.told.recovery.received] == failed_s

    play(story)


def test_a_host_that_is_down_when_it_is_seen_first_is_told_and_one_that_is_back_is_not() -> None:
    async def story(s: Stage, c: Cluster) -> None:
        c.monitor.fence("cmp1", ago_s=90_000)
        c.monitor.fence("cmp2", ago_s=90_000)
        c.monitor.seen["cmp1"] = Seen.LOST
        c.start()
        await c.looked()
        await s.until(c.told.settled, 60, "told")
        assert c.hostnames() == ["cmp1.example.org"]

    play(story)


@pytest.mark.parametrize("engine_lives", [True, False])
def test_a_host_that_came_back_from_its_fencing_and_is_cut_off_may_run_and_nobody_is_told(
    engine_lives: bool,
) -> None:
    async def story(s: Stage, c: Cluster) -> None:
        if engine_lives:
            # It was known before, and nobody saw what came between.
            life = c.start()
            await c.looked()
            await life.kill()
        c.monitor.fence("cmp1")
        c.monitor.off.clear()
        await s.clock.sleep(7200)
        c.monitor.seen["cmp1"] = Seen.LOST
        c.start()
        await s.clock.sleep(300)
        assert (await c.state())["state"] == "unfenced"
        assert c.hostnames() == []
        c.monitor.fence("cmp1")
        await c.looked()
        await s.until(c.told.settled, 60, "told")
        assert set(c.hostnames()) == {"cmp1.example.org"}

    play(story)


def test_a_host_that_nobody_fences_is_said_to_be_unfenced_and_nobody_is_told() -> None:
    async def story(s: Stage, c: Cluster) -> None:
        life = c.start()
        await c.looked()
        c.monitor.seen["cmp1"] = Seen.LOST
        await s.clock.sleep(170)
        assert (await c.state())["state"] == "lost"
        await s.clock.sleep(30)
        shown = await c.state()
        assert (shown["state"], c.hostnames()) == ("unfenced", [])
        assert "Fence it: `scripted --fence cmp1`; by a device" in shown["why"]
        assert life.ctx.metrics.hosts.labels("unfenced")._value.get() == 1
        assert len(await c.said("unfenced")) == 1

    play(story)


@pytest.mark.parametrize(
    "fault", [Fault.FAIL, Fault.RAISE, Fault.HANG, Fault.STUCK, Fault.LIE, Fault.HALF]
)
def test_a_monitor_that_cannot_tell_makes_every_host_unknown_and_no_failure(fault: Fault) -> None:
    async def story(s: Stage, c: Cluster) -> None:
        c.start()
        await c.looked()
        c.monitor.plan.rules.append(Rule(fault=fault, call="look"))
        c.monitor.seen["cmp1"] = Seen.LOST
        await s.clock.sleep(600)
        shown = await c.state()
        assert (shown["state"], shown["last_state"]) == ("unknown", "up")
        c.monitor.plan.rules.clear()
        await s.clock.sleep(60)
        assert (await c.state())["state"] == "lost", (
            "that nobody saw is no time for which it was lost"
        )
        await s.clock.sleep(180)
        assert (await c.state())["state"] == "unfenced"
        assert c.hostnames() == []

    play(story)


def test_why_nothing_is_seen_is_shown() -> None:
    async def story(s: Stage, c: Cluster) -> None:
        c.monitor.plan.rules.append(Rule(fault=Fault.FAIL, call="look"))
        c.start()
        await s.clock.sleep(20)
        with pytest.raises(NotFound, match="no monitor knows of it"):
            await c.state()
        (row,) = await s.store.read(lambda conn: conn.execute(select(host_monitors)).all())
        assert row.fault == "no quorum"
        c.monitor.plan.rules.clear()
        await c.looked()
        c.monitor.plan.rules.append(Rule(fault=Fault.FAIL, call="look"))
        await s.clock.sleep(90)
        assert "no quorum" in (await c.state())["why"]

    play(story)


def test_a_host_under_maintenance_is_no_failure_and_that_is_said() -> None:
    async def story(s: Stage, c: Cluster) -> None:
        c.start()
        c.monitor.seen["cmp1"] = Seen.MAINTENANCE
        await c.looked()
        c.monitor.fence("cmp1")
        await s.clock.sleep(300)
        assert c.hostnames() == []
        (said,) = await c.said("passed_over")
        assert "under maintenance" in said
        assert (await c.state())["state"] == "maintenance"

    play(story)


def test_a_host_is_put_under_maintenance_by_us_and_comes_back_to_what_it_is() -> None:
    async def story(s: Stage, c: Cluster) -> None:
        c.start()
        await c.looked()
        ident = await s.commands.pause(
            PauseKind.MAINTENANCE, PauseScope.HOST, "cmp1", owner="mara", reason="memory", for_s=900
        )
        c.monitor.seen["cmp1"] = Seen.LOST
        await c.looked()
        shown = await c.state()
        assert shown["state"] == "maintenance"
        assert "maintenance by mara: memory; scripted: lost" in shown["why"]
        c.monitor.fence("cmp1")
        await s.clock.sleep(300)
        assert c.hostnames() == [], "whatever it does is no failure"
        c.monitor.seen["cmp1"] = Seen.UP
        await s.commands.lift(str(ident), by="mara")
        await c.looked()
        assert (await c.state())["state"] == "up"
        c.monitor.seen["cmp1"] = Seen.LOST
        c.monitor.fence("cmp1")
        await c.looked()
        assert c.hostnames() == ["cmp1.example.org"]

    play(story)


def test_whoever_is_woken_looks_at_once_and_at_most_once_a_second() -> None:
    async def story(s: Stage, c: Cluster) -> None:
        c.start()
        await c.looked()
        before = c.monitor.looks
        await s.clock.sleep(50)
        assert 9 <= c.monitor.looks - before <= 10, "nobody says anything: at its pace"
        before = c.monitor.looks
        for _ in range(500):
            c.monitor.woken.set()
            await s.clock.sleep(0.1)
        assert 40 <= c.monitor.looks - before <= 51
        await s.clock.sleep(2)
        c.monitor.seen["cmp1"] = Seen.LOST
        c.monitor.fence("cmp1")
        c.monitor.woken.set()
        await s.clock.sleep(1.5)
        assert (await c.state())["state"] == "fenced"
        c.monitor.plan.rules.append(Rule(fault=Fault.RAISE, call="changed"))
        before = c.monitor.looks
        await s.clock.sleep(50)
        assert 9 <= c.monitor.looks - before <= 11, "one that cannot be told is asked at its pace"

    play(story)


def test_the_story_of_a_failure_is_told_in_its_order() -> None:
    async def story(s: Stage, c: Cluster) -> None:
        c.start()
        await c.looked()
        for name in ("cmp1", "cmp2"):
            c.monitor.seen[name] = Seen.LOST
        await c.looked()
        c.monitor.fence("cmp1")
        await c.looked()
        await s.until(c.told.settled, 60, "told")
        c.monitor.seen["cmp1"] = Seen.UP
        await c.looked()
        for name in ("cmp1", "cmp1.example.org"):
            told = await Queries(s.ctx).events(LOCAL, host=name)
            assert [event["status"] for event in told] == [
                *("lost", "fenced", "recorded"),
                *("accepted", "accepted", "up"),
            ]

    play(story)


def test_planned_work_on_a_host_counts_while_it_lasts() -> None:
    """It begins at its time, and is over by itself."""

    async def story(s: Stage, c: Cluster) -> None:
        c.start()
        await c.looked()
        begins_us = s.clock.now_us() + 60_000_000
        planned = Pause(
            id=PauseId("p1"),
            kind=PauseKind.MAINTENANCE,
            scope=PauseScope.HOST,
            target_id="cmp1",
            owner="mara",
            reason="memory",
            starts_us=begins_us,
            expires_us=begins_us + 60_000_000,
        )
        await s.store.write(lambda conn: pauses.add(conn, planned))
        states = []
        for _ in range(3):
            await c.looked()
            states.append((await c.state())["state"])
            await s.clock.sleep(50)
        assert states == ["up", "maintenance", "up"]

    play(story)


def test_two_engines_that_see_the_same_tell_it_once_and_one_that_is_blind_hides_nothing() -> None:
    async def story(s: Stage, c: Cluster) -> None:
        blind = ScriptedHostMonitor(s.clock)
        blind.plan.rules.append(Rule(fault=Fault.FAIL, call="look"))
        c.start(), c.start()
        third = c.told.start()
        third.ctx.drivers.host_monitors["pcmk"] = blind
        await s.clock.sleep(30)
        c.monitor.seen["cmp1"] = Seen.LOST
        c.monitor.fence("cmp1")
        await s.clock.sleep(60)
        assert await _count(s, host_failures) == 1
        assert (await c.state())["state"] == "fenced"
        assert blind.looks > 3
        assert len({f.id for f in c.told.recovery.received}) == 1

    play(story, alone=False)


def test_what_an_engine_of_ours_has_proved_is_not_told_again_by_the_monitor() -> None:
    async def story(s: Stage, c: Cluster) -> None:
        c.start()
        await c.looked()
        await mark(s, "cmp1")
        c.monitor.fence("cmp1", ago_s=-30)
        c.monitor.seen["cmp1"] = Seen.LOST
        await c.looked()
        assert await _count(s, host_failures) == 1
        assert (await c.state())["state"] == "fenced"
        await s.clock.sleep(300)
        c.monitor.fence("cmp1")
        await c.looked()
        assert await _count(s, host_failures) == 2, "a later one is another"

    play(story)


def test_what_a_monitor_has_told_is_not_told_again_with_our_own_proof() -> None:
    async def story(s: Stage, c: Cluster) -> None:
        drivers: Any = c.start().ctx.drivers
        drivers.fencers["COMPUTE"] = switch = Switch(drivers.fencers["COMPUTE"], "proves")
        await s.build(1, policy(actions=[{"name": "RECREATE", "timeout": 60}]))
        await c.looked()
        # The node lies on the host that the switch proves off.
        s.world.kill(s.node_ids()[0])
        c.monitor.fence(OFF.host)
        c.monitor.seen[OFF.host] = Seen.LOST
        await s.clock.sleep(10)
        await s.until(s.all_well, 120, "healed")
        assert switch.asked > 0
        await s.until(c.told.settled, 60, "told")
        assert await _count(s, host_failures) == 1
        assert len(c.told.recovery.received) == 1

    play(story)


class ByItsCluster(Switch):
    """A fencer that goes by what the host's own cluster has done."""

    since_s = 0

    async def fence(self, target: Any, *, operation_id: Any, deadline_s: float) -> Any:
        done = await super().fence(target, operation_id=operation_id, deadline_s=deadline_s)
        return replace(done, off=replace(OFF, since_s=self.since_s)) if done.proof else done


@pytest.mark.parametrize("seen_first", [True, False])
def test_a_node_that_goes_by_its_clusters_fencing_is_part_of_that_failure(seen_first: bool) -> None:
    async def story(s: Stage, c: Cluster) -> None:
        drivers: Any = c.start().ctx.drivers
        drivers.fencers["COMPUTE"] = switch = ByItsCluster(drivers.fencers["COMPUTE"], "proves")
        await s.build(1, policy(actions=[{"name": "RECREATE", "timeout": 60}]))
        await c.looked()
        done = c.monitor.fence(OFF.host)
        switch.since_s = done.at_s
        if seen_first:
            c.monitor.seen[OFF.host] = Seen.LOST
        # The cloud misses the host long after that.
        await s.clock.sleep(150)
        s.world.kill(s.node_ids()[0])
        await s.clock.sleep(10)
        await s.until(s.all_well, 120, "healed")
        c.monitor.seen[OFF.host] = Seen.LOST
        await s.clock.sleep(30)
        assert switch.asked > 0
        assert [f.failure_s for f in c.told.recovery.received] == [done.at_s]

    play(story)


def test_a_failure_is_told_though_the_cluster_has_lost_its_history() -> None:
    async def story(s: Stage, c: Cluster) -> None:
        c.start()
        await c.looked()
        c.monitor.seen["cmp1"] = Seen.LOST
        done = c.monitor.fence("cmp1")
        c.monitor.fencings.clear()
        await c.looked()
        await s.until(c.told.settled, 60, "told")
        assert [f.failure_s for f in c.told.recovery.received] == [done.at_s]
        c.monitor.fencings.append(replace(done, at_s=done.at_s + 1))
        await s.clock.sleep(300)
        assert len(c.told.recovery.received) == 1

    play(story)


def test_a_database_that_was_restored_tells_nothing_a_second_time() -> None:
    async def story(s: Stage, c: Cluster) -> None:
        c.start()
        await c.looked()
        c.monitor.seen["cmp1"] = Seen.LOST
        c.monitor.fence("cmp1")
        await c.looked()
        await s.until(c.told.settled, 60, "told")
        # What was known of the host is lost, and the failure is not.
        await s.store.write(lambda conn: conn.execute(monitored_hosts.delete()))
        await c.looked()
        (first,) = c.told.recovery.received

        # The copy is older than both: it is told once more, and the controller sees that it knows it.
        def older(conn: Connection) -> None:
            for table in (alerts, host_failures, monitored_hosts):
                conn.execute(table.delete())

        await s.store.write(older)
        await c.looked()
        await s.until(c.told.settled, 60, "told once more")
        _, again = c.told.recovery.received
        assert (again.id, again.hostname, again.failure_s) == (
            first.id,
            first.hostname,
            first.failure_s,
        )

    play(story)


def test_a_host_to_which_its_monitor_is_about_to_connect_is_what_it_was_or_unknown() -> None:
    async def story(s: Stage, c: Cluster) -> None:
        c.monitor.seen["cmp3"] = Seen.STARTING
        c.start()
        await c.looked()
        with pytest.raises(NotFound):
            await c.state("cmp3")
        c.monitor.seen["cmp2"] = Seen.LOST
        c.monitor.fence("cmp2")
        await c.looked()
        c.monitor.seen |= dict.fromkeys(("cmp1", "cmp2"), Seen.STARTING)
        await c.looked()
        shown = await c.state("cmp1")
        assert (shown["state"], shown["last_state"]) == ("unknown", "up")
        assert (await c.state("cmp2"))["state"] == "fenced", "it was lost and is not back"
        c.monitor.fence("cmp1")
        await c.looked()
        assert (await c.state("cmp1"))["state"] == "fenced", "that it is coming hides no proof"
        assert sorted(c.hostnames()) == ["cmp1.example.org", "cmp2.example.org"]
        c.monitor.seen |= dict.fromkeys(("cmp1", "cmp2"), Seen.UP)
        await c.looked()
        assert (await c.state("cmp1"))["state"] == "up"
        assert len(c.hostnames()) == 2

    play(story)


def test_a_host_that_its_cluster_does_not_name_any_more_is_unknown() -> None:
    async def story(s: Stage, c: Cluster) -> None:
        c.start()
        await c.looked()
        del c.monitor.seen["cmp3"]
        await c.looked()
        shown = await c.state("cmp3")
        assert shown["state"] == "unknown"
        assert "does not know since" in shown["why"]
        assert "it does not name the host any more" in shown["why"]
        await s.clock.sleep(600)
        assert (await c.state("cmp2"))["state"] == "up"
        assert c.hostnames() == []

    play(story)


def test_why_a_host_is_unknown_is_shown_and_nobody_is_told_or_fenced() -> None:
    async def story(s: Stage, c: Cluster) -> None:
        c.start()
        await c.looked()
        for why in ("nobody would miss it", "its agent is gone"):
            c.monitor.unknown["cmp1"] = why
            await c.looked()
            shown = await c.state("cmp1")
            assert shown["state"] == "unknown"
            assert shown["why"].startswith("cmp1 is unknown: monitor pcmk does not know since ")
            assert why in shown["why"]
        await s.clock.sleep(600)
        assert c.hostnames() == []
        c.monitor.unknown.clear()
        await c.looked()
        assert (await c.state("cmp1"))["state"] == "up"

    play(story)


@pytest.mark.parametrize("proved", [False, True])
def test_a_host_that_starts_anew_has_failed_unless_that_is_how_it_comes_back(proved: bool) -> None:
    async def story(s: Stage, c: Cluster) -> None:
        c.start()
        await c.looked()
        if proved:
            c.monitor.seen["cmp1"] = Seen.LOST
            c.monitor.fence("cmp1")
            await c.looked()
        c.monitor.fencings.append(
            HostFencing(
                host="cmp1",
                at_s=s.clock.now_us() // 1_000_000,
                proof="it started anew",
                restart=True,
            )
        )
        c.monitor.seen["cmp1"] = Seen.UP
        await c.looked()
        await s.clock.sleep(600)
        assert c.hostnames() == ["cmp1.example.org"], "one failure, whoever proved it"

    play(story)


def test_where_nobody_is_to_be_told_a_fencing_is_an_event() -> None:
    async def story(s: Stage, c: Cluster) -> None:
        c.told.all = {}
        life = c.start()
        object.__setattr__(life.ctx, "hosts", replace(TERMS, responsible=""))
        life.ctx.drivers.alerts.clear()
        await c.looked()
        c.monitor.fence("cmp1")
        await c.looked()
        assert await _count(s, host_failures) == 0
        (said,) = await c.said("fenced")
        assert "nobody is told" in said
        c.monitor.seen["cmp1"] = Seen.LOST
        c.monitor.fence("cmp1", ago_s=-1)
        s.ctx.drivers.alerts.clear()  # type: ignore[attr-defined]
        await c.looked()
        assert "no [alerts.NAME] is configured" in (await c.state())["why"]

    play(story)


# --- marks ----------------------------------------------------------------------------------------


def test_a_mark_is_told_though_the_host_is_back_and_its_cluster_remembers_nothing_else() -> None:
    async def story(s: Stage, c: Cluster) -> None:
        life = c.start()
        await c.looked()
        await life.kill()
        mark = c.monitor.mark("cmp1")
        await s.clock.sleep(90_000)
        c.start()
        await c.looked()
        await s.until(c.told.settled, 60, "told")
        assert [f.failure_s for f in c.told.recovery.received] == list(mark.at_s)
        await c.looked()
        assert c.monitor.marks == {}
        await s.clock.sleep(600)
        assert len(c.told.recovery.received) == 1

    play(story)


def test_a_mark_stays_until_the_controller_that_is_responsible_has_accepted() -> None:
    async def story(s: Stage, c: Cluster) -> None:
        c.told.recovery.plan.rules.append(Rule(fault=Fault.FAIL, call="send"))
        life = c.start()
        await c.looked()
        c.monitor.seen["cmp1"] = Seen.LOST
        c.monitor.fence("cmp1")
        mark = c.monitor.mark("cmp1")
        await s.clock.sleep(3000)
        assert len(c.told.audit.received) == 1, "another one has"
        assert c.monitor.marks == {"cmp1": mark}
        await life.kill()
        await s.clock.sleep(60)
        c.told.recovery.plan.rules.clear()
        c.monitor.plan.rules.append(Rule(fault=Fault.FAIL, call="clear", times=3))
        c.monitor.plan.rules.append(Rule(fault=Fault.RAISE, call="clear", times=1))
        c.monitor.plan.rules.append(Rule(fault=Fault.STUCK, call="clear", times=1))
        c.start()
        await s.until(c.told.settled, 3700, "told")
        await s.clock.sleep(120)
        assert c.monitor.marks == {}, "it is tried again until it is gone"
        assert len(c.told.recovery.received) == 1

    play(story)


def test_a_mark_that_was_set_anew_is_another_failure_and_is_not_removed_with_the_first() -> None:
    async def story(s: Stage, c: Cluster) -> None:
        c.start()
        await c.looked()
        first = c.monitor.mark("cmp1")
        await c.looked()
        await s.until(c.told.settled, 60, "told")
        c.told.recovery.plan.rules.append(Rule(fault=Fault.FAIL, call="send"))
        again = c.monitor.mark("cmp1", ago_s=-60)
        assert await c.monitor.clear(first, deadline_s=5) == ""
        await s.clock.sleep(120)
        assert c.monitor.marks == {"cmp1": again}
        c.told.recovery.plan.rules.clear()
        await s.until(c.told.settled, 3700, "told")
        await c.looked()
        assert c.monitor.marks == {}
        assert [f.failure_s for f in c.told.recovery.received] == [*first.at_s, *again.at_s]

    play(story)


def test_a_mark_that_is_no_failure_is_removed_and_that_is_said() -> None:
    async def story(s: Stage, c: Cluster) -> None:
        c.start()
        c.monitor.seen["cmp1"] = Seen.MAINTENANCE
        await c.looked()
        c.monitor.mark("cmp1")
        await c.looked()
        assert (c.monitor.marks, c.hostnames()) == ({}, [])
        (said,) = await c.said("passed_over")
        assert "under maintenance" in said

    play(story)


def test_a_mark_that_says_no_time_is_left_alone_and_hides_nothing() -> None:
    async def story(s: Stage, c: Cluster) -> None:
        c.start()
        await c.looked()
        by_hand = HostMark(host="cmp1", name="failed", value="look at me")
        timeless = HostMark(host="cmp2", name="evacuate", value="yes", timeless=True)
        c.monitor.marks = {"cmp1": by_hand, "cmp2": timeless}
        await c.looked()
        for host in ("cmp1", "cmp2"):
            c.monitor.seen[host] = Seen.LOST
        await c.looked()
        assert c.monitor.marks == {"cmp1": by_hand, "cmp2": timeless}, "neither is off"
        for host in ("cmp1", "cmp2"):
            c.monitor.fence(host)
        await c.looked()
        await s.until(c.told.settled, 60, "told")
        await c.looked()
        assert c.monitor.marks == {"cmp1": by_hand}, "the other was about what is told now"
        assert sorted(c.hostnames()) == ["cmp1.example.org", "cmp2.example.org"]

    play(story)


def test_where_nobody_is_to_be_told_a_mark_stays_for_the_first_who_is() -> None:
    async def story(s: Stage, c: Cluster) -> None:
        c.told.all, told = {}, c.told.all
        life = c.start()
        life.ctx.drivers.alerts.clear()
        await c.looked()
        c.monitor.mark("cmp1")
        c.monitor.fence("cmp1")
        await s.clock.sleep(300)
        assert set(c.monitor.marks) == {"cmp1"}
        await life.kill()
        c.told.all = told
        c.start()
        await s.clock.sleep(60)
        await s.until(c.told.settled, 60, "told")
        await c.looked()
        assert c.monitor.marks == {}
        assert c.hostnames() == ["cmp1.example.org"]

    play(story)


async def _count(s: Stage, table: Any) -> int:
    return len(await s.store.read(lambda conn: conn.execute(select(table)).all()))
