"""What other monitors notify: followed to its end, recovered by proof alone, and never twice."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from sqlalchemy import func, select
from tests.sim.hosted import HYPERVISORS, STATUS, Machines, Returning, equip, moving
from tests.sim.stage import Stage, stage

from yaffle.core.health.notified_failure import WELL_US
from yaffle.core.recovery.ladder import Result
from yaffle.engine.commands.instance_ha import Notification
from yaffle.engine.notified_failures import AT_ONCE
from yaffle.engine.runtime.notified_hosts import StoredNotifications
from yaffle.errors import BadRequest, Conflict, Forbidden, NotFound
from yaffle.model.authz import LOCAL, Principal, Right
from yaffle.model.host_failure import HostFailure
from yaffle.model.instance_ha import NotificationType
from yaffle.store import instance_ha
from yaffle.store.instance_ha import Kind
from yaffle.store.tables import actions, events, ha_notifications, steps, vm_moves
from yaffle.testing import run_virtual

HOST, VM, PROCESS = NotificationType.COMPUTE_HOST, NotificationType.VM, NotificationType.PROCESS
STOPPED = {"event": "STOPPED", "host_status": "NORMAL", "cluster_status": "OFFLINE"}
BACK = {"event": "STARTED", "host_status": "NORMAL", "cluster_status": "ONLINE"}
WELL_S = WELL_US / 1_000_000
Story = Callable[[Stage, "Ward"], Awaitable[None]]


class Ward:
    """Four machines, three of them in a segment, and what is told of them."""

    def __init__(self, s: Stage, machines: Machines) -> None:
        self.s, self.machines = s, machines
        self.life: Any = None
        self.profile: Any = None
        self.segment = ""
        self.hosts: dict[str, str] = {}

    async def register(self, *names: str, **values: Any) -> None:
        if not self.segment:
            given = {"name": "all", "service_type": "COMPUTE", "recovery_method": "auto"}
            self.segment = await self.s.commands.segment_create(LOCAL, {**given, **values})
        for name in names:
            host = {"name": name, "type": "COMPUTE", "control_attributes": "SSH"}
            self.hosts[name] = await self.s.commands.segment_host_create(LOCAL, self.segment, host)

    async def change(self, name: str, **values: Any) -> None:
        await self.s.commands.segment_host_update(LOCAL, self.segment, self.hosts[name], values)

    async def tell(self, host: str = "cmp1", kind: NotificationType = HOST, **payload: str) -> str:
        told = Notification(
            type=kind,
            hostname=host,
            payload=payload or STOPPED,
            generated_us=self.s.clock.now_us(),
        )
        return await self.s.commands.notify(LOCAL, told)

    async def row(self, ident: str) -> Any:
        return await self.s.store.read(lambda c: instance_ha.notification(c, ident))

    async def moves(self, ident: str) -> list[tuple[str, str | None]]:
        rows = await self.s.store.read(lambda c: instance_ha.moves_of(c, ident))
        return sorted((row.status, row.dest_host) for row in rows)

    async def host(self, name: str = "cmp1") -> Any:
        found = await self.s.store.read(lambda c: instance_ha.host_named(c, name))
        assert found is not None
        return found

    async def ends(self, ident: str, within_s: float = 600) -> Any:
        async def over() -> bool:
            return (await self.row(ident)).ended_us is not None

        await self.s.until(over, within_s, f"notification {ident} is over")
        return await self.row(ident)


def play(story: Story, *, seed: int = 7, nodes: int = 6) -> None:
    async def scene() -> None:
        async with stage(seed) as s:
            ward = Ward(s, Machines(s, ["cmp1", "cmp2", "cmp3", "cmp4"]))
            ward.life = life = s.start()
            equip(ward.machines, s.ctx, life.ctx, placed=Returning)
            await ward.register("cmp1", "cmp2", "cmp3")
            if nodes:
                await s.build(nodes, moving(STATUS, HYPERVISORS))
                await s.until(s.all_well, 120, "built")
            await story(s, ward)

    run_virtual(scene, seed=seed, cpu_s=120)


def test_the_nodes_of_a_failed_host_are_followed_until_they_run_elsewhere() -> None:
    async def story(s: Stage, w: Ward) -> None:
        w.machines.die("cmp1")
        ident = await w.tell()
        assert (await w.row(ident)).status == "new"
        end = await w.ends(ident)
        assert (end.status, end.message) == ("finished", "of its nodes 2 succeeded")
        assert await w.moves(ident) == [("succeeded", "cmp4")] * 2
        assert await s.all_well()
        assert (await w.host()).on_maintenance, "until somebody has seen to it"
        with pytest.raises(Conflict, match="already under maintenance"):
            await w.tell()
        words = StoredNotifications(s.store, s.clock)
        assert next((word.host, word.off) for word in await words.words()) == ("cmp1", True)
        with pytest.raises(Conflict, match="already under maintenance"):
            await w.tell("cmp1", HOST, **BACK)
        assert next((word.host, word.off) for word in await words.words()) == ("cmp1", False), (
            "what is refused is heard all the same"
        )
        await w.change("cmp1", on_maintenance=False)
        await w.tell("cmp1", HOST, **BACK)

    play(story)


def test_a_notification_that_is_not_true_moves_nothing() -> None:
    async def story(s: Stage, w: Ward) -> None:
        places = dict(w.machines.place)
        ident = await w.tell()
        await s.clock.sleep(WELL_S / 2)
        assert (await w.row(ident)).status == "running"
        end = await w.ends(ident, 2 * WELL_S)
        assert (end.status, end.message) == ("finished", "of its nodes 2 ignored")
        assert w.machines.place == places
        assert (
            await s.store.read(
                lambda c: c.execute(
                    select(func.count()).where(actions.c.action == "NODE_RECOVER")
                ).scalar_one()
            )
            == 0
        )
        assert not (await w.host()).on_maintenance, "nothing had failed"

    play(story)


def test_a_host_that_dies_after_it_was_said_to_have_is_followed_all_the_same() -> None:
    async def story(s: Stage, w: Ward) -> None:
        ident = await w.tell()
        await s.clock.sleep(WELL_S * 0.8)
        w.machines.die("cmp1")
        end = await w.ends(ident)
        assert end.message == "of its nodes 2 succeeded"
        assert (await w.host()).on_maintenance

    play(story)


def test_nodes_that_nobody_can_ask_are_not_called_well() -> None:
    async def story(s: Stage, w: Ward) -> None:
        w.machines.speechless.add("cmp1")
        w.machines.cut.add("cmp1")
        ident = await w.tell()
        await s.clock.sleep(4 * WELL_S)
        row = await w.row(ident)
        assert (row.status, row.ended_us) == ("running", None)
        age_s = w.life.ctx.metrics.notification_age._value.get()
        assert abs(age_s - 4 * WELL_S) < 10, "how long it takes can be seen"
        w.machines.cut.clear()
        w.machines.speechless.clear()
        assert (await w.ends(ident, 4 * WELL_S)).message == "of its nodes 2 ignored"

    play(story)


def test_an_instance_is_followed_until_it_is_well() -> None:
    async def story(s: Stage, w: Ward) -> None:
        node = next(n for n in await s.nodes() if n.attributes["host"] == "cmp2")
        s.world.kill(node.id)
        told = {"event": "LIFECYCLE", "vir_domain_event": "STOPPED_FAILED"}
        ident = await w.tell("cmp2", VM, instance_uuid=node.physical_id, **told)
        end = await w.ends(ident)
        assert (end.status, end.message) == ("finished", "of its nodes 1 succeeded")
        assert not (await w.host("cmp2")).on_maintenance
        stranger = await w.tell("cmp2", VM, instance_uuid="0" * 8, **told)
        end = await w.ends(stranger)
        assert (end.status, end.message) == ("finished", "no node of ours is concerned")

    play(story)


def test_an_instance_that_is_well_says_nothing_of_its_host() -> None:
    async def story(s: Stage, w: Ward) -> None:
        node = next(n for n in await s.nodes() if n.attributes["host"] == "cmp2")
        told = {"event": "LIFECYCLE", "vir_domain_event": "STOPPED_FAILED"}
        ident = await w.tell("cmp2", VM, instance_uuid=node.physical_id, **told)
        await w.tell("cmp2", PROCESS, event="STOPPED", process_name="nova-compute")
        assert (await w.ends(ident)).message == "of its nodes 1 ignored"
        assert (await w.host("cmp2")).on_maintenance

    play(story)


def test_a_false_alarm_leaves_what_a_stopped_process_needs() -> None:
    async def story(s: Stage, w: Ward) -> None:
        ident = await w.tell()
        # Before the first is begun, which would have this one refused.
        process = await w.tell("cmp1", PROCESS, event="STOPPED", process_name="nova-compute")
        assert (await w.ends(process, 15)).status == "finished"
        assert (await w.ends(ident)).message == "of its nodes 2 ignored"
        assert (await w.host()).on_maintenance, "until somebody has seen to it"

    play(story)


def test_a_host_whose_nodes_were_deleted_has_not_been_found_well() -> None:
    async def story(s: Stage, w: Ward) -> None:
        w.machines.speechless.add("cmp1")
        w.machines.cut.add("cmp1")
        ident = await w.tell()
        await s.clock.sleep(30)
        for node in await s.nodes():
            if node.attributes["host"] == "cmp1":
                await s.commands.node_delete(LOCAL, node.id, force=True)
        assert (await w.ends(ident)).message == "of its nodes 2 ignored"
        assert (await w.host()).on_maintenance

    play(story)


def test_what_is_refused_of_a_host_is_heard_all_the_same() -> None:
    async def story(s: Stage, w: Ward) -> None:
        words = StoredNotifications(s.store, s.clock)

        async def heard() -> list[tuple[str, bool]]:
            return [(word.sender, word.off) for word in await words.words()]

        await w.ends(await w.tell("cmp1", PROCESS, event="STOPPED", process_name="x"), 15)
        with pytest.raises(Conflict, match="already under maintenance"):
            await w.tell()
        assert await heard() == [(LOCAL.user, True)]
        await w.change("cmp1", on_maintenance=False)
        await s.clock.sleep(1)
        await w.tell()
        await s.clock.sleep(1)
        trusted = replace(LOCAL, user="trusted")
        told = Notification(
            type=HOST, hostname="cmp1", payload=STOPPED, generated_us=s.clock.now_us()
        )
        with pytest.raises(Conflict, match="is duplicate"):
            await s.commands.notify(trusted, told)
        assert await heard() == [("trusted", True), (LOCAL.user, True), (LOCAL.user, True)]
        with pytest.raises(Conflict, match="is duplicate"):
            await s.commands.notify(trusted, told)
        assert len(await heard()) == 3, "what is sent again is one word"
        later = replace(told, generated_us=told.generated_us + 1)
        with pytest.raises(Conflict, match="is duplicate"):
            await s.commands.notify(trusted, later)
        assert len(await heard()) == 4, "a second failure is another word"

    play(story, nodes=0)


@pytest.mark.parametrize(
    ("kind", "payload", "status", "maintenance"),
    [
        (HOST, BACK, "finished", False),
        (HOST, {"event": "STOPPED"}, "ignored", False),
        (HOST, {"event": "STOPPED", "host_status": "UNKNOWN"}, "ignored", False),
        (HOST, STOPPED, "finished", True),
        (PROCESS, {"event": "STARTED", "process_name": "nova-compute"}, "finished", False),
        (PROCESS, {"event": "STOPPED", "process_name": "nova-compute"}, "finished", True),
    ],
)
def test_what_concerns_no_node_is_over_at_once(
    kind: NotificationType, payload: dict[str, str], status: str, maintenance: bool
) -> None:
    async def story(s: Stage, w: Ward) -> None:
        await s.commands.segment_host_update(LOCAL, w.segment, w.hosts["cmp1"], {"reserved": True})
        end = await w.ends(await w.tell("cmp1", kind, **payload), 15)
        assert end.status == status
        assert end.message
        host = await w.host()
        assert (host.on_maintenance, host.reserved) == (maintenance, not maintenance)
        # What is over is in nobody's way.
        await s.commands.segment_host_delete(LOCAL, w.segment, w.hosts["cmp1"])

    play(story, nodes=0)


def test_in_a_segment_that_is_disabled_nothing_is_followed() -> None:
    async def story(s: Stage, w: Ward) -> None:
        await s.commands.segment_update(LOCAL, w.segment, {"enabled": False})
        end = await w.ends(await w.tell(), 15)
        assert (end.status, end.message) == ("ignored", "ignored: its segment is disabled")
        assert not (await w.host()).on_maintenance

    play(story)


def test_a_repeat_is_refused_and_a_failure_later_is_not() -> None:
    async def story(s: Stage, w: Ward) -> None:
        first = await w.tell("cmp1", PROCESS, event="STARTED", process_name="x")
        await w.ends(first, 15)
        await s.clock.sleep(100)
        with pytest.raises(Conflict, match="is duplicate"):
            await w.tell("cmp1", PROCESS, event="STARTED", process_name="x")
        await w.tell("cmp1", PROCESS, event="STARTED", process_name="y")
        await s.clock.sleep(100)
        await w.tell("cmp1", PROCESS, event="STARTED", process_name="x")
        with pytest.raises(BadRequest, match="Host with name ghost could not be found"):
            await w.tell("ghost")

    play(story, nodes=0)


def test_a_stamp_far_ahead_does_not_refuse_what_is_told_later() -> None:
    async def story(s: Stage, w: Ward) -> None:
        ahead = Notification(
            type=PROCESS,
            hostname="cmp1",
            payload={"event": "STARTED", "process_name": "x"},
            generated_us=s.clock.now_us() + 10**15,
        )
        await s.commands.notify(LOCAL, ahead)
        with pytest.raises(Conflict, match="is duplicate"):
            await s.commands.notify(LOCAL, ahead)
        await s.clock.sleep(200)
        await w.tell("cmp1", PROCESS, event="STARTED", process_name="x")

    play(story, nodes=0)


def test_what_is_under_way_keeps_its_segment_as_it_is() -> None:
    async def story(s: Stage, w: Ward) -> None:
        ident = await w.tell()
        await s.clock.sleep(20)
        tried = (
            s.commands.segment_update(LOCAL, w.segment, {"name": "x"}),
            s.commands.segment_delete(LOCAL, w.segment),
            s.commands.segment_host_update(LOCAL, w.segment, w.hosts["cmp2"], {"reserved": True}),
            s.commands.segment_host_delete(LOCAL, w.segment, w.hosts["cmp2"]),
        )
        for one in tried:
            with pytest.raises(Conflict, match="in-use to process notifications"):
                await one
        await w.ends(ident, 2 * WELL_S)
        await s.commands.segment_delete(LOCAL, w.segment)
        with pytest.raises(NotFound, match="No failover segment"):
            await s.commands.segment_delete(LOCAL, w.segment)
        with pytest.raises(BadRequest):
            await w.tell()

    play(story)


def test_what_is_held_is_waited_for() -> None:
    async def story(s: Stage, w: Ward) -> None:
        for node in await s.nodes():
            if node.attributes["host"] == "cmp1":
                s.world.kill(node.id)
        w.machines.die("cmp1")
        w.machines.speechless.add("cmp1")
        ident = await w.tell()
        await s.clock.sleep(2 * WELL_S)
        assert (await w.row(ident)).status == "running"
        assert {status for status, _ in await w.moves(ident)} <= {"ongoing", "pending"}
        w.machines.speechless.clear()
        assert (await w.ends(ident)).message == "of its nodes 2 succeeded"

    play(story)


def test_an_engine_that_dies_leaves_the_rest_to_the_next() -> None:
    async def story(s: Stage, w: Ward) -> None:
        w.machines.die("cmp1")
        ident = await w.tell()
        await s.clock.sleep(12)
        await w.life.kill()
        new = s.start()
        equip(w.machines, new.ctx, placed=Returning)
        end = await w.ends(ident, 900)
        assert end.message == "of its nodes 2 succeeded"
        count = select(func.count()).select_from(vm_moves)
        assert await s.store.read(lambda c: c.execute(count).scalar_one()) == 2

    play(story)


def test_seed_threes_json_is_taken_in_once_under_its_own_id() -> None:
    async def story(s: Stage, w: Ward) -> None:
        w.machines.die("cmp2")
        failure = HostFailure(
            id="6f1e8a4e-5c0d-4b4e-9a51-2f3f4f0a9a01",
            hostname="cmp2",
            failure_s=s.clock.now_us() // 1_000_000,
            generated_s=s.clock.now_us() // 1_000_000,
            on_shared_storage=True,
            proof="",
        )
        assert await s.commands.host_failure_told(failure, sender="alerter")
        assert not await s.commands.host_failure_told(failure, sender="alerter")
        end = await w.ends(failure.id)
        assert end.message == "of its nodes 2 succeeded"
        with pytest.raises(Conflict, match="before"):
            await s.commands.host_failure_told(replace(failure, hostname="cmp3"), sender="a")
        for _ in range(2):
            assert not await s.commands.host_failure_told(failure, sender="trusted")
        words = await StoredNotifications(s.store, s.clock).words()
        assert [(word.sender, word.off) for word in words] == [("trusted", True), ("alerter", True)]
        count = select(func.count()).select_from(ha_notifications)
        assert await s.store.read(lambda c: c.execute(count).scalar_one()) == 2

    play(story)


def test_nobody_but_administrators_tells_anything() -> None:
    async def story(s: Stage, w: Ward) -> None:
        member = Principal(user="m", rights=frozenset({Right.READ, Right.WRITE}))
        told = Notification(type=HOST, hostname="cmp1", payload=STOPPED, generated_us=1)
        values = {"name": "x", "service_type": "C", "recovery_method": "auto"}
        tried = (
            s.commands.notify(member, told),
            s.commands.segment_create(member, values),
            s.commands.segment_update(member, w.segment, {"name": "x"}),
            s.commands.segment_delete(member, w.segment),
            s.commands.segment_host_create(member, w.segment, {"name": "x"}),
            s.commands.segment_host_update(member, w.segment, w.hosts["cmp1"], {}),
            s.commands.segment_host_delete(member, w.segment, w.hosts["cmp1"]),
        )
        for one in tried:
            with pytest.raises(Forbidden):
                await one

    play(story, nodes=0)


def test_what_was_told_and_what_came_of_it_is_written_down() -> None:
    async def story(s: Stage, w: Ward) -> None:
        w.machines.die("cmp1")
        ident = await w.tell()
        await w.ends(ident)
        said = await s.store.read(
            lambda c: [
                (row.status, row.reason)
                for row in c.execute(
                    select(events.c.status, events.c.reason)
                    .where(events.c.oid == ident)
                    .order_by(events.c.seq)
                )
            ]
        )
        assert [status for status, _ in said] == ["start", "running", "finished"]
        assert said[1][1] == "the host failed: 2 nodes of ours are concerned"

    play(story)


def test_what_runs_for_long_keeps_nothing_else_waiting() -> None:
    async def story(s: Stage, w: Ward) -> None:
        names = [f"spare-{number}" for number in range(AT_ONCE + 10)]
        await w.register(*names)
        nodes = {n.attributes["host"]: n for n in await s.nodes()}
        sick, well = nodes["cmp1"], nodes["cmp2"]
        # Nobody can say how it is: what is told of it runs on.
        w.machines.speechless.add("cmp1")
        w.machines.cut.add("cmp1")
        await s.clock.sleep(60)
        told = {"event": "x", "vir_domain_event": "y"}
        running = [await w.tell(name, VM, instance_uuid=sick.physical_id, **told) for name in names]
        await s.clock.sleep(30)
        s.world.kill(well.id)
        later = await w.tell("cmp2", VM, instance_uuid=well.physical_id, **told)
        await w.ends(await w.tell("cmp3", PROCESS, event="STARTED", process_name="x"), 15)
        assert (await w.ends(later, 300)).message == "of its nodes 1 succeeded"
        assert {(await w.row(ident)).status for ident in running} == {"running"}

    play(story)


def test_an_incident_of_before_says_nothing_of_what_is_told_now() -> None:
    async def story(s: Stage, w: Ward) -> None:
        node = next(n for n in await s.nodes() if n.attributes["host"] == "cmp2")
        s.world.kill(node.id)
        await s.clock.sleep(30)
        await s.until(s.all_well, 300, "healed")
        await s.clock.sleep(60)
        end = await w.ends(await w.tell("cmp2"), 3 * WELL_S)
        assert end.message == "of its nodes 2 ignored"

    play(story)


# --- reserved hosts -----------------------------------------------------------------------------


class Reserving(Returning):
    """Machines that the backend keeps closed until somebody opens them."""

    def __init__(self, inner: Any, machines: Machines) -> None:
        super().__init__(inner, machines)
        self.opened: list[str] = []
        self.says: dict[str, bool | str] = {}

    async def open_host(self, host: str, target: Any, *, deadline_s: float) -> bool | str:
        self.opened.append(host)
        return self.says.get(host, True)

    async def submit(self, op: Any, *, operation_id: Any, deadline_s: float) -> Any:
        there = self._machines.host(op.target.node_id)
        done = await super().submit(op, operation_id=operation_id, deadline_s=deadline_s)
        moved = self._machines.host(op.target.node_id) != there
        if op.kind == "EVACUATE" and moved and op.params.get("host"):
            self._machines.place[op.target.node_id] = str(op.params["host"])
        return done


SPARES = ("spare1", "spare2")


def reserve(story: Story, *, method: str, spares: tuple[str, ...] = SPARES) -> None:
    async def scene() -> None:
        async with stage(7) as s:
            ward = Ward(s, Machines(s, ["cmp1", "cmp2", "cmp3", "cmp4"]))
            ward.life = life = s.start()
            equip(ward.machines, s.ctx, life.ctx, placed=Reserving)
            (ward.profile,) = life.ctx.drivers.profiles.values()
            await ward.register("cmp1", "cmp2", "cmp3", *spares, recovery_method=method)
            for name in spares:
                await ward.change(name, reserved=True)
            await s.build(6, moving(STATUS, HYPERVISORS))
            await s.until(s.all_well, 120, "built")
            await story(s, ward)

    run_virtual(scene, seed=7, cpu_s=120)


def places(w: Ward, *names: str) -> dict[str, int]:
    found = list(w.machines.place.values())
    return {name: found.count(name) for name in names}


@pytest.mark.parametrize("method", ["reserved_host", "rh_priority"])
def test_the_nodes_of_a_host_are_moved_to_one_that_was_kept_in_reserve(method: str) -> None:
    async def story(s: Stage, w: Ward) -> None:
        w.machines.die("cmp1")
        ident = await w.tell()
        assert (await w.ends(ident)).message == "of its nodes 2 succeeded"
        assert await w.moves(ident) == [("succeeded", "spare1")] * 2
        assert set(w.profile.opened) == {"spare1"}
        spare = await w.host("spare1")
        assert (spare.reserved, spare.on_maintenance) == (False, False)
        assert (await w.host("spare2")).reserved, "it is kept for the next one"
        w.machines.die("cmp2")
        await w.ends(await w.tell("cmp2"))
        assert places(w, *SPARES) == {"spare1": 2, "spare2": 2}

    reserve(story, method=method)


def test_a_host_that_is_back_and_fails_again_has_another_one() -> None:
    async def story(s: Stage, w: Ward) -> None:
        w.machines.die("cmp1")
        await w.ends(await w.tell())
        assert (await w.host("spare1")).spare_for == w.hosts["cmp1"]
        await w.change("cmp1", on_maintenance=False)
        assert (await w.host("spare1")).spare_for == ""
        await w.change("spare1", reserved=True)
        assert (await w.host("spare1")).reserved

    reserve(story, method="reserved_host")


def test_a_reserved_host_that_is_down_itself_is_passed_over() -> None:
    async def story(s: Stage, w: Ward) -> None:
        w.profile.says["spare1"] = False
        w.machines.die("cmp1")
        await w.ends(await w.tell())
        assert places(w, *SPARES) == {"spare1": 0, "spare2": 2}
        assert (await w.host("spare1")).on_maintenance, "somebody has to see to it"

    reserve(story, method="reserved_host")


def test_a_reserved_host_that_cannot_be_asked_is_not_given_up() -> None:
    async def story(s: Stage, w: Ward) -> None:
        w.profile.says["spare1"] = "the cloud is away"
        w.machines.die("cmp1")
        ident = await w.tell()

        async def asked() -> bool:
            return bool(w.profile.opened)

        await s.until(asked, 300, "it was asked")
        await s.clock.sleep(5)
        assert places(w, *SPARES, "cmp4") == {"spare1": 0, "spare2": 0, "cmp4": 0}
        assert not (await w.host("spare1")).on_maintenance
        w.profile.says.clear()
        await w.ends(ident, 1800)
        assert places(w, *SPARES) == {"spare1": 2, "spare2": 0}

    reserve(story, method="reserved_host")


@pytest.mark.parametrize(("method", "moved"), [("reserved_host", 0), ("rh_priority", 2)])
def test_where_none_is_left_the_method_says_whether_another_may_do(method: str, moved: int) -> None:
    async def story(s: Stage, w: Ward) -> None:
        w.machines.die("cmp1")
        await w.tell()
        await s.clock.sleep(300)
        assert places(w, "cmp4") == {"cmp4": moved}

    reserve(story, method=method, spares=())


def test_a_segment_without_such_a_method_leaves_its_reserve_alone() -> None:
    async def story(s: Stage, w: Ward) -> None:
        w.machines.die("cmp1")
        await w.ends(await w.tell())
        assert places(w, *SPARES, "cmp4") == {"spare1": 0, "spare2": 0, "cmp4": 2}
        assert w.profile.opened == []
        assert (await w.host("spare1")).reserved

    reserve(story, method="auto")


@pytest.mark.parametrize(
    "values",
    [{}, {"on_maintenance": True}, {"reserved": True}, {"on_maintenance": True, "reserved": True}],
)
def test_a_move_that_was_asked_for_is_followed_whatever_is_said_of_its_host(
    values: dict[str, bool],
) -> None:
    """The engine dies once it has asked; the next one does not ask for the host again."""

    async def story(s: Stage, w: Ward) -> None:
        w.machines.die("cmp1")
        ident = await w.tell()

        async def asked() -> bool:
            return places(w, "spare1")["spare1"] == 2

        await s.until(asked, 300, "the backend moves them")
        await w.life.kill()
        new = s.start()
        equip(w.machines, new.ctx, placed=Reserving)
        (profile,) = new.ctx.drivers.profiles.values()
        profile.says["spare1"] = "the cloud is away"
        for name in SPARES if values else ():
            # What is told meanwhile may do so, too: none of them would be chosen now.
            gone = {"spare_for": "", "reserved": False, **values}
            change = partial(instance_ha.change, kind=Kind.HOST, ident=w.hosts[name])
            await s.store.write(lambda c, do=change, to=gone: do(c, now_us=1, **to))
        assert (await w.ends(ident, 900)).message == "of its nodes 2 succeeded"
        assert (places(w, "spare1"), profile.opened) == ({"spare1": 2}, [])
        failed = select(steps.c.detail).where(steps.c.result == Result.FAILED)
        assert await s.store.read(lambda c: c.execute(failed).all()) == []

    reserve(story, method="reserved_host")
