"""A lost host that its cluster has not fenced is switched off by us if that is allowed, and told once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import select
from tests.sim.hosted import Machines, equip, moving
from tests.sim.stage import Stage
from tests.sim.test_host_alerts import TERMS
from tests.sim.test_watched_hosts import Cluster
from tests.sim.test_watched_hosts import play as play_watched

from yaffle.core.health.host_fencing import HostFencePolicy
from yaffle.errors import Conflict, Forbidden, InvalidSpec, NotFound
from yaffle.model.authz import Principal, Right
from yaffle.model.incident import PauseKind, PauseScope
from yaffle.ports import Seen
from yaffle.store import hosts
from yaffle.store.tables import events, host_failures
from yaffle.testing import Fault, FaultPlan, Rule, ScriptedHostFencer, ScriptedHostMonitor

Story = Callable[[Stage, "Rack"], Awaitable[None]]
ALLOWED = HostFencePolicy(fence_lost=True, share=0.5)


class Rack(Cluster):
    """The cluster with a switch for each of its hosts; it outlives every engine."""

    def __init__(self, s: Stage, told: Any) -> None:
        super().__init__(s, told)
        self.switch = ScriptedHostFencer(s.clock, FaultPlan(s.clock))
        self.switch.devices = {host: f"bmc-{host}" for host in self.monitor.seen}

    def equip(self, ctx: Any) -> None:
        super().equip(ctx)
        ctx.drivers.fencers["HOST"] = self.switch
        object.__setattr__(ctx, "hosts", replace(TERMS, fencing=self.allowed))

    allowed = ALLOWED

    def lose(self, *names: str) -> None:
        self.monitor.seen |= dict.fromkeys(names, Seen.LOST)

    async def said_of_fences(self) -> list[tuple[str, str]]:
        return list(
            await self.s.store.read(
                lambda c: [
                    (row.status, row.reason)
                    for row in c.execute(
                        select(events.c.status, events.c.reason)
                        .where(events.c.action == "HOST_FENCE")
                        .order_by(events.c.seq)
                    )
                ]
            )
        )

    async def failures(self) -> int:
        found = await self.s.store.read(lambda c: c.execute(select(host_failures)).all())
        return len(found)


def play(story: Story, *, allowed: HostFencePolicy = ALLOWED, **more: Any) -> None:
    async def with_rack(s: Stage, cluster: Cluster) -> None:
        rack = Rack(s, cluster.told)
        rack.allowed = allowed
        rack.equip(s.ctx)
        await story(s, rack)

    play_watched(with_rack, **more)


LONG_S = 200
"""Longer than a host may be lost before it is unfenced."""


def test_a_host_whose_fencing_was_lost_is_switched_off_and_told_with_the_proof() -> None:
    async def story(s: Stage, c: Rack) -> None:
        metrics = c.start().ctx.metrics
        await c.looked()
        c.lose("cmp1")
        await s.clock.sleep(170)
        assert c.switch.asked == [], "its own cluster has its time"
        await s.clock.sleep(40)
        await s.until(c.told.settled, 60, "told")
        (told,) = c.told.recovery.received
        assert (told.hostname, told.proof) == (
            "cmp1.example.org",
            "scripted: bmc-cmp1: read back: off",
        )
        shown = await c.state()
        assert (shown["state"], shown["fencing"]) == ("fenced", "")
        assert [status for status, _ in await c.said_of_fences()] == ["begun", "proved"]
        assert 180 <= metrics.host_fence._sum.get() < 200
        assert 0 <= metrics.alert_delivery.labels("recovery")._sum.get() < 30
        await s.clock.sleep(3600)
        assert (c.switch.asked, len(c.told.recovery.received)) == (["cmp1"], 1), "once"
        c.monitor.seen["cmp1"] = Seen.UP
        await c.looked()
        assert (await c.state())["state"] == "up"
        c.lose("cmp1")
        await s.clock.sleep(LONG_S)
        assert c.switch.asked == ["cmp1", "cmp1"], "lost again is another failure"
        await s.until(c.told.settled, 60, "told")
        assert len(c.told.recovery.received) == 2

    play(story)


def test_where_it_is_not_allowed_it_is_said_and_nothing_is_done() -> None:
    async def story(s: Stage, c: Rack) -> None:
        c.start()
        await c.looked()
        c.lose("cmp1")
        await s.clock.sleep(3 * LONG_S)
        shown = await c.state()
        assert (shown["state"], c.switch.asked) == ("unfenced", [])
        assert shown["fencing"] == "it would be fenced, if hosts.fence_lost were on"
        assert shown["fencing"] in shown["why"]
        said = f"host cmp1 is lost, and it is left as it is: {shown['fencing']}"
        assert await c.said_of_fences() == [("held", said)], "what would be done is on record, once"

    play(story, allowed=HostFencePolicy())


def test_a_rack_that_is_lost_at_once_is_left_alone_though_the_share_of_all_hosts_lets_two() -> None:
    async def story(s: Stage, c: Rack) -> None:
        c.start()
        await c.looked()
        c.lose("cmp1", "cmp2")
        await s.clock.sleep(2 * LONG_S)
        assert c.switch.asked == []
        shown = await c.state()
        assert (shown["domain"], shown["state"]) == ("rack1", "unfenced")
        assert "2 of 2 hosts of rack1 have failed at once" in shown["fencing"]
        c.monitor.seen["cmp2"] = Seen.UP
        await s.clock.sleep(LONG_S)
        assert c.switch.asked == ["cmp1"], "its neighbour has come back, and one always may"

    domains = {"rack1": ["cmp1.example.org", "cmp2"]}
    play(story, allowed=HostFencePolicy(fence_lost=True, share=0.7, domains=domains))


def test_when_too_many_are_lost_none_is_switched_off_and_fenced_ones_count() -> None:
    async def story(s: Stage, c: Rack) -> None:
        c.start()
        await c.looked()
        c.lose("cmp1", "cmp2")
        await s.clock.sleep(2 * LONG_S)
        assert c.switch.asked == []
        assert "2 of 3 hosts have failed at once" in (await c.state())["fencing"]
        c.monitor.seen["cmp2"] = Seen.UP
        await s.clock.sleep(60)
        assert c.switch.asked == ["cmp1"]
        c.lose("cmp2")
        await s.clock.sleep(2 * LONG_S)
        assert c.switch.asked == ["cmp1"], "one after the other is a storm as well"

    play(story)


@pytest.mark.parametrize(
    "fault", [Fault.FAIL, Fault.ERROR, Fault.HANG, Fault.STUCK, Fault.RAISE, Fault.LIE]
)
def test_a_switch_that_proves_nothing_is_asked_again_and_nobody_is_told(fault: Fault) -> None:
    async def story(s: Stage, c: Rack) -> None:
        c.switch.plan.rules.append(Rule(fault=fault, call="fence_host"))
        c.start()
        await c.looked()
        c.lose("cmp1")
        await s.clock.sleep(500)
        shown = await c.state()
        assert (shown["state"], c.hostnames()) == ("unfenced", [])
        assert "not proved off by us in" in shown["fencing"]
        assert tuple({status for status, _ in await c.said_of_fences()} - {"begun"}) == ("failed",)
        c.switch.plan.rules.clear()
        await s.until(lambda: _true(c.hostnames()), 1000, "told")
        assert c.hostnames() == ["cmp1.example.org"]

    play(story)


def test_a_fencer_that_cannot_say_which_hosts_it_switches_does_not_end_the_looks() -> None:
    async def story(s: Stage, c: Rack) -> None:
        c.switch.plan.rules.append(Rule(fault=Fault.RAISE, call="device_of"))
        c.start()
        await c.looked()
        c.lose("cmp1")
        await s.clock.sleep(2 * LONG_S)
        shown = await c.state()
        assert (shown["state"], c.switch.asked) == ("unfenced", [])
        c.monitor.fence("cmp1")
        await s.until(lambda: _true(c.hostnames()), 60, "told")

    play(story)


def test_a_host_that_its_cluster_fences_now_or_that_is_heard_of_is_left_alone() -> None:
    async def story(s: Stage, c: Rack) -> None:
        c.start()
        await c.looked()
        c.monitor.busy.add("cmp1")
        c.lose("cmp1")
        await s.clock.sleep(2 * LONG_S)
        assert "its cluster is fencing it now" in (await c.state())["fencing"]
        c.monitor.fence("cmp1")
        c.monitor.busy.clear()
        await c.looked()
        assert (await c.state())["state"] == "fenced"
        assert c.switch.asked == []

    play(story)


def test_a_host_to_which_its_monitor_is_connecting_is_not_switched_off() -> None:
    """It was lost, and something is heard of it: what is on it may run."""

    async def story(s: Stage, c: Rack) -> None:
        c.start()
        await c.looked()
        c.lose("cmp1")
        await c.looked()
        c.monitor.seen["cmp1"] = Seen.STARTING
        await s.clock.sleep(2 * LONG_S)
        shown = await c.state()
        assert (shown["state"], c.switch.asked) == ("unfenced", [])
        assert "its monitor is connecting to it now" in shown["fencing"]
        # A person lifts what is forbidden, and nothing that is seen of the host.
        await s.commands.host_fence("cmp1", by="mara", reason="drill")
        await s.clock.sleep(60)
        assert c.switch.asked == []
        c.lose("cmp1")
        await c.looked()
        assert c.switch.asked == ["cmp1"]

    play(story)


def test_a_host_on_which_a_node_answers_is_not_switched_off() -> None:
    async def story(s: Stage, c: Rack) -> None:
        machines = Machines(s, ("cmp1", "cmp2", "spare"))
        equip(machines, c.start().ctx, s.ctx)
        await s.build(2, moving(mode="observe"))
        await c.looked()
        assert machines.on("cmp1")
        c.lose("cmp1")
        await s.clock.sleep(2 * LONG_S)
        assert "nodes on it answer, though it is lost: 1" in (await c.state())["fencing"]
        assert c.switch.asked == []
        machines.die("cmp1")
        await s.clock.sleep(120)
        assert c.switch.asked == ["cmp1"], "nothing answers any more"

    play(story)


def test_a_host_on_which_another_engines_node_answers_is_not_switched_off() -> None:
    async def story(s: Stage, c: Rack) -> None:
        machines = Machines(s, ("cmp1", "cmp2", "spare"))
        lives = [c.start() for _ in range(3)]
        equip(machines, *(life.ctx for life in lives), s.ctx)
        await s.build(2, moving(mode="observe"))
        await c.looked()
        assert machines.on("cmp1")
        c.lose("cmp1")
        await s.clock.sleep(5 * LONG_S)
        assert c.switch.asked == [], "only one of the three engines watches it"
        said = [why for status, why in await c.said_of_fences() if status == "held"]
        assert 1 <= len(said) <= 2, said
        # A person who asks for it lifts nothing that is heard, not for a moment either.
        await s.commands.host_fence("cmp1", by="mara", reason="drill")
        (row,) = await s.store.read(lambda conn: hosts.listed(conn, ("pcmk",), host="cmp1"))
        assert (row.fencing.asked_by, bool(row.fencing.heard)) == ("mara", True)
        await s.clock.sleep(LONG_S)
        assert c.switch.asked == []
        machines.die("cmp1")
        await s.clock.sleep(120)
        assert c.switch.asked == ["cmp1"], "nothing answers any more"

    play(story, alone=False)


def test_a_rack_whose_hosts_are_in_several_clusters_is_one() -> None:
    async def story(s: Stage, c: Rack) -> None:
        other = ScriptedHostMonitor(s.clock)
        other.seen = {"r1-b": Seen.UP, "r2-b": Seen.UP}
        c.start().ctx.drivers.host_monitors["other"] = other
        c.switch.devices |= {"r1-b": "bmc-b"}
        await c.looked()
        c.lose("cmp1")
        other.seen["r1-b"] = Seen.LOST
        await s.clock.sleep(2 * LONG_S)
        assert c.switch.asked == [], "of each cluster one has failed, and of the rack two of two"
        assert "2 of 2 hosts of rack1 have failed at once" in (await c.state())["fencing"]
        other.seen["r1-b"] = Seen.UP
        await s.clock.sleep(LONG_S)
        assert c.switch.asked == ["cmp1"]

    # By a name that neither is told by: another one of the host's counts as well.
    domains = {"rack1": ["cmp1", "r1-*"]}
    play(story, allowed=HostFencePolicy(fence_lost=True, share=0.5, domains=domains))


def test_while_everything_is_stopped_nothing_is_switched_off() -> None:
    async def story(s: Stage, c: Rack) -> None:
        c.start()
        await c.looked()
        await stop(s)
        c.lose("cmp1")
        await s.clock.sleep(2 * LONG_S)
        assert "everything is stopped" in (await c.state())["fencing"]
        assert c.switch.asked == []
        await s.commands.lift_stop(by="mara")
        await c.looked()
        assert c.switch.asked == ["cmp1"]

    play(story)


def test_a_stop_ends_what_is_tried_again_and_again() -> None:
    async def story(s: Stage, c: Rack) -> None:
        c.switch.plan.rules.append(Rule(fault=Fault.ERROR, call="fence_host"))
        c.start()
        await c.looked()
        c.lose("cmp1")
        await s.until(lambda: _true(c.switch.asked), 300, "it is asked")
        await stop(s)
        await s.clock.sleep(5)
        asked = len(c.switch.asked)
        await s.clock.sleep(300)
        assert len(c.switch.asked) == asked
        assert "everything was stopped" in dict(await c.said_of_fences())["failed"]

    play(story)


def test_a_host_that_is_back_or_unseen_while_it_is_tried_is_not_asked_for_again() -> None:
    for change in ("up", "blind"):

        async def story(s: Stage, c: Rack, change: str = change) -> None:
            c.switch.plan.rules.append(Rule(fault=Fault.ERROR, call="fence_host"))
            c.start()
            await c.looked()
            c.lose("cmp1")
            await s.until(lambda: _true(c.switch.asked), 300, "it is asked")
            if change == "up":
                c.monitor.seen["cmp1"] = Seen.UP
            else:
                c.monitor.plan.rules.append(Rule(fault=Fault.FAIL, call="look"))
            await s.clock.sleep(10)
            asked = len(c.switch.asked)
            await s.clock.sleep(600)
            assert len(c.switch.asked) == asked

        play(story)


async def stop(s: Stage) -> None:
    await s.commands.pause(
        PauseKind.STOP, PauseScope.ALL, "", owner="mara", reason="drill", for_s=None
    )


async def _true(value: object) -> bool:
    return bool(value)


def test_whoever_dies_while_it_fences_leaves_the_host_to_the_next_and_it_is_told_once() -> None:
    async def story(s: Stage, c: Rack) -> None:
        c.switch.plan.rules.append(Rule(fault=Fault.STUCK, call="fence_host", times=1))
        life = c.start()
        await c.looked()
        c.lose("cmp1")
        await s.until(lambda: _true(c.switch.asked), 300, "it is asked")
        await life.kill()
        c.start()
        await s.until(lambda: _true(c.hostnames()), 400, "told")
        assert c.hostnames() == ["cmp1.example.org"]
        assert await c.failures() == 1

    play(story)


def test_of_several_engines_one_switches_a_host_off() -> None:
    async def story(s: Stage, c: Rack) -> None:
        c.start(), c.start(), c.start()
        await s.clock.sleep(30)
        c.switch.plan.rules.append(Rule(fault=Fault.LATE, call="fence_host", delay_s=2.0))
        c.lose("cmp1")
        await s.clock.sleep(2 * LONG_S)
        assert c.switch.asked == ["cmp1"]
        assert await c.failures() == 1

    play(story, alone=False)


def test_a_host_that_another_cluster_sees_up_is_not_switched_off() -> None:
    """Two clusters have a host of that name, and one device has it."""

    async def story(s: Stage, c: Rack) -> None:
        other = ScriptedHostMonitor(s.clock)
        other.seen = {"cmp1": Seen.UP}
        c.start().ctx.drivers.host_monitors["other"] = other
        await c.looked()
        life = c.start()
        life.ctx.drivers.host_monitors["other"] = other
        await s.clock.sleep(20)
        c.lose("cmp1")
        await s.clock.sleep(2 * LONG_S)
        assert c.switch.asked == []

    play(story, alone=False)


@pytest.mark.parametrize("change", ["blind", "gone"])
def test_what_another_cluster_saw_once_keeps_no_host_from_being_switched_off(change: str) -> None:
    async def story(s: Stage, c: Rack) -> None:
        other = ScriptedHostMonitor(s.clock)
        other.seen = {"cmp1": Seen.UP}
        c.start().ctx.drivers.host_monitors["other"] = other
        life = c.start()
        life.ctx.drivers.host_monitors["other"] = other
        await s.clock.sleep(20)
        if change == "blind":
            other.plan.rules.append(Rule(fault=Fault.FAIL, call="look"))
        else:
            other.seen.clear()
        c.lose("cmp1")
        await s.clock.sleep(2 * LONG_S)
        assert c.switch.asked == ["cmp1"]

    play(story, alone=False)


# --- a person asks --------------------------------------------------------------------------------


def test_a_person_has_a_lost_host_switched_off_at_once_whatever_the_settings_forbid() -> None:
    async def story(s: Stage, c: Rack) -> None:
        c.start()
        await c.looked()
        c.lose("cmp1", "cmp2")
        await c.looked()
        await s.commands.host_fence("cmp1", by="mara", reason="the rack burns")
        await c.looked()
        assert c.switch.asked == ["cmp1"]
        await s.until(c.told.settled, 60, "told")
        assert c.hostnames() == ["cmp1.example.org"]
        (asked, begun, proved) = await c.said_of_fences()
        assert "the rack burns" in asked[1]
        assert "as mara asks: the rack burns" in begun[1]
        assert proved[0] == "proved"
        assert (await c.state("cmp2"))["state"] == "lost"

    play(story, allowed=HostFencePolicy())


def test_asking_can_be_taken_back_and_ends_with_the_host_s_return() -> None:
    async def story(s: Stage, c: Rack) -> None:
        c.switch.plan.rules.append(Rule(fault=Fault.FAIL, call="fence_host"))
        c.start()
        await c.looked()
        c.lose("cmp1")
        await c.looked()
        await s.commands.host_fence("cmp1", by="mara", reason="x")
        await c.looked()
        assert (await c.state())["fence_asked_by"] == "mara"
        await s.commands.host_unfence("cmp1", by="mara")
        asked = len(c.switch.asked)
        await s.clock.sleep(1000)
        assert len(c.switch.asked) == asked
        assert (await c.state())["fence_asked_by"] == ""
        await s.commands.host_fence("cmp1", by="mara", reason="x")
        await c.looked()
        c.monitor.seen["cmp1"] = Seen.UP
        await c.looked()
        c.lose("cmp1")
        asked = len(c.switch.asked)
        await s.clock.sleep(1000)
        assert len(c.switch.asked) == asked, "that was about what is over"

    play(story, allowed=HostFencePolicy())


def test_what_is_not_lost_or_not_known_is_not_switched_off_for_anybody() -> None:
    async def story(s: Stage, c: Rack) -> None:
        c.start()
        await c.looked()
        ask = s.commands.host_fence
        with pytest.raises(Conflict, match="host cmp1 is up: only one that is lost"):
            await ask("cmp1", by="mara", reason="x")
        with pytest.raises(NotFound, match="no monitor knows of it"):
            await ask("cmp9", by="mara", reason="x")
        c.lose("cmp1")
        await c.looked()
        with pytest.raises(InvalidSpec, match="reason"):
            await ask("cmp1", by="mara", reason=" ")
        for right in (Right.ADMIN, Right.OVERRIDE):
            with pytest.raises(Forbidden):
                await ask("cmp1", by=Principal(user="joe", rights=frozenset({right})), reason="x")
        with pytest.raises(Forbidden):
            await s.commands.host_unfence("cmp1", by=Principal(user="joe", rights=frozenset()))
        c.monitor.plan.rules.append(Rule(fault=Fault.FAIL, call="look"))
        await s.clock.sleep(120)
        with pytest.raises(Conflict, match="host cmp1 is unknown"):
            await ask("cmp1", by="mara", reason="x")
        assert c.switch.asked == []

    play(story)
