"""A host that fails is one failure: one incident, one message, and nothing done that would be wrong."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from sqlalchemy import select
from tests.sim.hosted import HYPERVISORS, STATUS, URL, Machines, equip, moving
from tests.sim.stage import Stage, stage

from yaffle.engine.explain import Explainer
from yaffle.engine.incidents.host_incident import close_left
from yaffle.engine.queries import Queries
from yaffle.engine.runtime.pauses import halted
from yaffle.errors import NotFound
from yaffle.model.authz import LOCAL
from yaffle.model.incident import PauseKind, PauseScope
from yaffle.store import incidents as rows
from yaffle.store.tables import actions, decisions, incidents, outbox, steps
from yaffle.testing import run_virtual

Story = Callable[[Stage, Machines], Awaitable[None]]
THREE = ("cmp1", "cmp2", "cmp3", "spare")


async def read(s: Stage, query: Any) -> Sequence[Any]:
    return await s.store.read(lambda conn: conn.execute(query).all())


async def host_incidents(s: Stage) -> Sequence[Any]:
    query = select(incidents).where(incidents.c.node_id == "").order_by(incidents.c.opened_us)
    return await read(s, query)


async def parts(s: Stage, parent: str) -> Sequence[Any]:
    return await read(s, select(incidents).where(incidents.c.parent_id == parent))


async def acted(s: Stage) -> list[str]:
    """Return what was done to nodes by recoveries, in order."""
    rows = await read(
        s,
        select(steps.c.operation)
        .join(actions, actions.c.id == steps.c.action_id)
        .where(actions.c.action == "NODE_RECOVER", steps.c.stage.in_(("act", "create", "delete")))
        .order_by(steps.c.intent_us),
    )
    return [row.operation for row in rows]


async def told(s: Stage) -> list[tuple[str, str]]:
    """Return the topics that the notifiers were told, with the name of the node or host."""
    rows = await read(s, select(outbox.c.topic, outbox.c.body).order_by(outbox.c.seq))
    found = [(r.topic, r.body.get("node_name", "")) for r in rows]
    return [one for one in found if one[0].startswith("incident.")]


def play(
    story: Story,
    document: dict[str, Any],
    *,
    size: int = 9,
    seed: int = 5,
    tells: bool = True,
    names: Sequence[str] = THREE,
) -> None:
    async def scene() -> None:
        async with stage(seed) as s:
            machines = Machines(s, names)
            equip(machines, s.start().ctx, s.ctx, tells=tells)
            await s.build(size, document)
            await story(s, machines)

    run_virtual(scene, seed=seed, cpu_s=120)


# --- a host that is lost --------------------------------------------------------------------------


async def _moved(s: Stage, machines: Machines) -> None:
    lost = machines.on("cmp1")
    assert len(lost) == 3
    machines.die("cmp1")
    await s.clock.sleep(10)
    await s.until(s.all_well, 400, "all of them were moved")
    assert {machines.host(i) for i in lost} == {"spare"}
    assert await acted(s) == ["EVACUATE"] * 3
    (outage,) = await host_incidents(s)
    assert (outage.node_name, outage.cause, outage.state) == ("host cmp1", "host-lost", "recovered")
    assert {p.node_id for p in await parts(s, outage.id)} == set(lost)
    messages = await told(s)
    assert {name for _, name in messages} == {"host cmp1"}
    assert [topic for topic, _ in messages] == [
        "incident.opened",
        "incident.recovering",
        "incident.recovered",
    ]
    (first, *_) = await read(s, select(decisions).where(decisions.c.kind == "recover"))
    assert first.inputs["cause"] == "host-lost"
    assert first.inputs["ladder"] == ["EVACUATE", "REBOOT"]
    assert (first.numbers["host"], first.numbers["lost_hosts"], first.numbers["sick"]) == (
        "cmp1",
        1,
        1,
    )


@pytest.mark.parametrize(
    "modes",
    [
        pytest.param([URL, HYPERVISORS], id="a mode asks for hosts"),
        pytest.param([URL], id="the profile is asked when they fall silent"),
        pytest.param([HYPERVISORS], id="nothing but the hosts is asked"),
    ],
)
def test_nodes_of_a_lost_host_are_moved_as_one_failure(modes: Any) -> None:
    play(_moved, moving(*modes))


def test_a_lost_host_with_most_of_a_cluster_is_no_storm() -> None:
    """Five of nine would hold all; it is one host of three that is lost."""

    async def story(s: Stage, machines: Machines) -> None:
        for ident in machines.on("cmp2")[:2]:
            machines.place[ident] = "cmp1"
            await _says(s, ident, "cmp1")
        machines.die("cmp1")
        await s.clock.sleep(10)
        await s.until(s.all_well, 600, "all of them were moved")
        assert await acted(s) == ["EVACUATE"] * 5
        assert len(await host_incidents(s)) == 1

    play(story, moving(URL, HYPERVISORS))


async def _says(s: Stage, ident: Any, host: str, **more: str) -> None:
    """Let the row of a node name another host, as a backend that moved it would."""
    from yaffle.store import catalog

    attributes = {"node_ip": "192.0.2.1", "host": host, **more}
    await s.store.write(
        lambda conn: catalog.set_node(conn, ident, s.clock.now_us(), attributes=attributes)
    )


@pytest.mark.parametrize("name", ["cmp1", "cmp1.example.org", "h1"])
def test_under_maintenance_of_a_host_nothing_on_it_is_healed_and_all_is_when_it_ends(
    name: str,
) -> None:
    """Whatever name it has in the cloud, in the cluster, and whole."""

    async def story(s: Stage, machines: Machines) -> None:
        names: Any = s.ctx.hosts.names
        names |= dict.fromkeys(("cmp1", "h1"), "cmp1.example.org")
        ident = await s.commands.pause(
            PauseKind.MAINTENANCE, PauseScope.HOST, name, owner="op", reason="memory", for_s=900
        )
        machines.die("cmp1")
        (other,) = machines.on("cmp2")[:1]
        s.world.kill(other)
        await s.clock.sleep(300)
        assert await acted(s) == ["REBOOT"], "the one of another host is healed"
        for node in machines.on("cmp1"):
            held = await s.store.read(
                lambda conn, node=node: halted(conn, node, None, s.clock.now_us())
            )
            assert held == "maintenance by op: memory (host cmp1)"
            answer = await Explainer(s.ctx).why(LOCAL, str(node))
            assert "memory (host cmp1)" in "\n".join(answer.lines()), answer.lines()
        assert not await s.store.read(lambda conn: halted(conn, other, None, s.clock.now_us()))
        (shown,) = await Queries(s.ctx).pauses(LOCAL, PauseKind.MAINTENANCE, history=False)
        assert (shown["scope"], shown["target"]) == ("host", name)
        await s.commands.lift(str(ident), by="op")
        await s.until(s.all_well, 600, "all of them were moved")
        assert "EVACUATE" in await acted(s)

    play(story, moving(URL, HYPERVISORS))


def test_the_story_of_a_host_is_its_own_and_that_of_the_nodes_that_failed_with_it() -> None:
    async def story(s: Stage, machines: Machines) -> None:
        names: Any = s.ctx.hosts.names
        names["cmp1"] = "cmp1.example.org"
        mine, others = set(machines.on("cmp1")), set(machines.on("cmp2"))
        machines.die("cmp1")
        await s.clock.sleep(10)
        await s.until(s.all_well, 600, "all of them were moved")
        s.world.kill(min(others))
        await s.clock.sleep(5)
        await s.until(s.all_well, 600, "and one of another host was healed")
        for name in ("cmp1", "cmp1.example.org"):
            told = await Queries(s.ctx).events(LOCAL, host=name, limit=1000)
            assert [e["seq"] for e in told] == sorted(e["seq"] for e in told)
            assert {e["object"]["name"] for e in told if e["object"]["type"] == "HOST"} == {
                "host cmp1"
            }
            assert {e["node_id"] for e in told if e["object"]["type"] == "NODE"} == mine
            (recovered,) = [e for e in told[-1:] if e["status"] == "recovered"]
            assert recovered["object"]["type"] == "HOST", "it is over when the last of them is well"
        assert await Queries(s.ctx).events(LOCAL, host="cmp", limit=1000) == []

    play(story, moving(URL, HYPERVISORS))


def test_nobody_has_a_host_under_maintenance_that_nobody_knows() -> None:
    async def story(s: Stage, machines: Machines) -> None:
        with pytest.raises(NotFound, match="no monitor knows of it, and no node is on it"):
            await s.commands.pause(
                PauseKind.MAINTENANCE, PauseScope.HOST, "cmp9", owner="op", reason="x", for_s=9
            )

    play(story, moving(URL))


def test_those_of_whom_the_backend_repeats_what_it_knew_do_not_speak_for_their_host() -> None:
    """A second cluster there asks for nothing but the record: that says "running" of the dead."""

    async def story(s: Stage, machines: Machines) -> None:
        lost = machines.on("cmp1")
        await s.build(12, moving(STATUS), name="db")
        assert len(machines.on("cmp1")) == 3 * len(lost)
        machines.die("cmp1")
        await s.clock.sleep(10)

        async def moved() -> bool:
            return {machines.host(i) for i in lost} == {"spare"}

        await s.until(moved, 300, "those of whom it is known were moved")
        assert await acted(s) == ["EVACUATE"] * len(lost)
        (outage,) = await host_incidents(s)
        assert outage.cause == "host-lost"

    play(story, moving(URL, HYPERVISORS), size=6)


def test_a_host_that_the_backend_has_lost_and_whose_nodes_answer_is_left() -> None:
    """Its agent is away. A fence for the sake of those who go by its word would end the others."""

    async def story(s: Stage, machines: Machines) -> None:
        await s.build(3, moving(HYPERVISORS), name="db")
        there = set(machines.on("cmp1"))
        (doubted,) = {n.id for n in await s.nodes() if n.name.startswith("db")} & there
        machines.barred.add("cmp1")
        await s.clock.sleep(90)
        assert await acted(s) == []
        (outage,) = await host_incidents(s)
        assert (outage.cause, outage.state) == ("host-unclear", "held")
        (part,) = await parts(s, outage.id)
        assert (part.node_id, part.hold_reason) == (doubted, "host-unclear")
        machines.barred.clear()
        await s.until(s.all_well, 120, "its agent is back")
        assert await acted(s) == []

    play(story, moving(URL))


def test_of_what_was_moved_it_is_not_said_that_its_machine_is_lost() -> None:
    """A person moved it by hand: it does not run, and the machine under it does."""

    async def story(s: Stage, machines: Machines) -> None:
        (ident, *_) = machines.on("cmp1")
        node = next(n.name for n in await s.nodes() if n.id == ident)

        async def believed() -> str:
            row = next(n for n in await s.nodes() if n.id == ident)
            return str(row.health_reason) if row.health == "unhealthy" else ""

        async def lost() -> bool:
            return (await believed()).startswith("The machine under it is lost.")

        machines.die("cmp1")
        await s.until(lost, 120, f"{node} fails with its host")
        machines.place[ident] = "spare"
        await s.clock.sleep(60)
        reason = await believed()
        assert "lost" not in reason, reason
        assert reason.startswith("It refuses connections."), reason
        (row,) = [n for n in await s.nodes() if n.id == ident]
        assert (row.status, row.status_reason) == ("WARNING", reason)

    play(story, moving(URL, HYPERVISORS, mode="observe"))


def test_of_whom_a_mark_was_lifted_it_is_not_said_that_it_is_marked() -> None:
    async def story(s: Stage, machines: Machines) -> None:
        (ident, *_) = machines.on("cmp1")

        async def believed() -> str:
            return next(str(n.health_reason) for n in await s.nodes() if n.id == ident)

        s.world.kill(ident)
        await s.clock.sleep(30)
        seen = await believed()
        assert seen.startswith("It refuses connections.")
        await s.commands.mark(ident, reason="its disk clicks", by="op")
        await s.clock.sleep(10)
        assert await believed() == "It was marked unhealthy. its disk clicks"
        await s.commands.unmark(ident, reason="another disk", by="op")
        await s.clock.sleep(10)
        assert await believed() == seen

    play(story, moving(URL, mode="observe"))


def test_where_every_host_looks_lost_nothing_is_moved() -> None:
    """The backend's own bus is away: that is no failure of three machines."""

    async def story(s: Stage, machines: Machines) -> None:
        machines.known = lambda ident: _down(machines.host(ident))  # type: ignore[method-assign]
        await s.clock.sleep(120)
        assert await acted(s) == []
        held = await read(s, select(incidents.c.hold_reason).where(incidents.c.node_id != ""))
        assert {row.hold_reason for row in held} == {"storm"}

    lax = moving(URL, HYPERVISORS, limits={"max_unhealthy": "60%", "max_in_flight": 2})
    play(story, lax, names=("cmp1", "cmp2", "spare"))


def _down(name: str) -> Any:
    from yaffle.model.operations import HostReading

    return HostReading(name=name, up=False, detail="down")


def test_a_successor_goes_on_with_the_same_incident() -> None:
    async def story(s: Stage, machines: Machines) -> None:
        machines.die("cmp1")

        async def begun() -> bool:
            return bool(await acted(s))

        await s.until(begun, 120, "the first one is moved")
        await s.lives[0].kill()
        equip(machines, s.start().ctx)
        await s.until(s.all_well, 600, "all of them were moved")
        (outage,) = await host_incidents(s)
        assert outage.state == "recovered"
        assert len(await parts(s, outage.id)) == 3

    play(story, moving(URL, HYPERVISORS))


# --- a host of which nobody knows -----------------------------------------------------------------


async def _held(s: Stage, machines: Machines) -> None:
    machines.cut.add("cmp1")
    await s.clock.sleep(90)
    assert await acted(s) == []
    (outage,) = await host_incidents(s)
    assert (outage.cause, outage.state, outage.hold_reason) == (
        "host-unclear",
        "held",
        "host-unclear",
    )
    assert {p.hold_reason for p in await parts(s, outage.id)} == {"host-unclear"}
    assert [topic for topic, _ in await told(s)] == ["incident.opened", "incident.held"]
    machines.cut.clear()
    await s.until(s.all_well, 120, "they answer again")
    (outage,) = await host_incidents(s)
    assert outage.state == "already-healthy"
    assert await acted(s) == []


@pytest.mark.parametrize(
    ("tells", "modes"),
    [
        pytest.param(True, [URL], id="up by its word"),
        pytest.param(True, [URL, HYPERVISORS], id="up by a mode's word"),
        pytest.param(False, [URL], id="nobody can be asked"),
    ],
)
def test_nodes_that_fall_silent_with_a_host_that_is_not_lost_are_held(
    tells: bool, modes: Any
) -> None:
    play(_held, moving(*modes), tells=tells)


def test_the_word_of_another_host_says_nothing() -> None:
    """The backend has moved the node meanwhile, or means another one: of ours it has said nothing."""

    async def story(s: Stage, machines: Machines) -> None:
        machines.known = lambda _ident: _down("elsewhere")  # type: ignore[method-assign]
        await _held(s, machines)

    play(story, moving(URL))


def test_a_person_goes_past_it_for_one_node() -> None:
    async def story(s: Stage, machines: Machines) -> None:
        machines.cut.add("cmp1")
        await s.clock.sleep(60)
        victim = machines.on("cmp1")[0]
        await s.commands.recover(victim, by="ann")

        async def tried() -> bool:
            return "REBOOT" in await acted(s)

        await s.until(tried, 60, "what the person asked for is done")

    play(story, moving(URL))


def test_one_silent_node_on_a_host_that_lives_is_its_own_failure() -> None:
    async def story(s: Stage, machines: Machines) -> None:
        s.world.hang(machines.on("cmp1")[0])
        await s.clock.sleep(10)
        await s.until(s.all_well, 120, "it was rebooted")
        assert await acted(s) == ["REBOOT"]
        assert await host_incidents(s) == []

    play(story, moving(URL, HYPERVISORS))


def test_two_hosts_of_one_name_in_two_clouds_are_two() -> None:
    """The one with two nodes is a host of which nobody knows; the one with one is no host's matter."""

    async def story(s: Stage, machines: Machines) -> None:
        east, *west = machines.on("cmp1")
        await _says(s, east, "cmp1", cloud="east")
        for ident in west:
            await _says(s, ident, "cmp1", cloud="west")
        await s.clock.sleep(10)
        machines.cut.add("cmp1")
        await s.clock.sleep(90)
        (outage,) = await host_incidents(s)
        assert outage.cause == "host-unclear"
        assert {p.node_id for p in await parts(s, outage.id)} == set(west)

    play(story, moving(URL), tells=False)


def test_nodes_that_are_off_on_a_host_that_lives_are_healed_one_by_one() -> None:
    """After a reboot of the host its guests are off: somebody says so, and that is no mystery."""

    async def story(s: Stage, machines: Machines) -> None:
        for ident in machines.on("cmp1"):
            s.world.kill(ident)
        await s.clock.sleep(10)
        await s.until(s.all_well, 300, "they were started")
        assert set(await acted(s)) == {"REBOOT"}
        assert await host_incidents(s) == []

    play(story, moving(URL, HYPERVISORS, {"type": "NODE_STATUS_POLLING"}))


@pytest.mark.parametrize(
    ("ends", "state"),
    [
        pytest.param(["recovered", "recovered"], "recovered", id="all ended"),
        pytest.param(["recovered", "exhausted"], "exhausted", id="as the worst of them"),
        pytest.param(["recovered", "held"], "open", id="one goes on"),
        pytest.param([], "superseded", id="none at all"),
    ],
)
def test_what_an_older_engine_left_open_is_closed(ends: Sequence[str], state: str) -> None:
    """It ends the last part and does not know of the whole (a rolling upgrade)."""

    async def scene() -> None:
        async with stage(3) as s:
            await s.store.write(lambda conn: _left_open(s, conn, ends))
            await s.store.write(lambda conn: close_left(s.ctx, conn, s.clock.now_us()))
            (outage,) = await host_incidents(s)
            assert (outage.state, outage.open_key is None) == (state, state != "open")
            before = await told(s)
            assert len(before) == (state != "open")
            await s.store.write(lambda conn: close_left(s.ctx, conn, s.clock.now_us()))
            assert await told(s) == before

    run_virtual(scene, seed=3, cpu_s=60)


def _left_open(s: Stage, conn: Any, ends: Sequence[str]) -> None:
    common = {"cluster_name": "web", "cause": "host-lost", "opened_us": 1, "project": ""}
    host = {**common, "id": "h", "node_id": "", "node_name": "host cmp1", "cluster_id": ""}
    rows.add(conn, {**host, "state": "open", "open_key": "host:x"})
    for index, end in enumerate(ends):
        ident = f"n{index}"
        part = {
            **common,
            "id": f"i{index}",
            "node_id": ident,
            "node_name": ident,
            "cluster_id": "c",
        }
        going = ident if end == "held" else None
        rows.add(conn, {**part, "state": end, "parent_id": "h", "open_key": going})
