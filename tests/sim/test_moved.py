"""Somebody moves nodes to another machine, or nobody has said yet on which one they are.

Whoever counts the failures of a machine has to know what is on it now, not when it was made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import select
from tests.sim.hosted import HYPERVISORS, STATUS, Machines, moving
from tests.sim.stage import Stage
from tests.sim.test_hosts import host_incidents, parts, play, read

from yaffle.model.ids import NodeId
from yaffle.store import catalog
from yaffle.store.tables import events, nodes

MODES = (STATUS, HYPERVISORS)


async def _hosts(s: Stage, idents: Sequence[NodeId]) -> set[object]:
    return {n.attributes.get("host") for n in await s.nodes() if n.id in idents}


async def _moves(s: Stage) -> Sequence[str]:
    asked = select(events.c.reason).where(events.c.action == "COPY_MOVED")
    return await s.store.read(lambda conn: conn.execute(asked).scalars().all())


def test_nodes_that_somebody_has_moved_fail_with_the_machine_that_they_are_on() -> None:
    async def story(s: Stage, machines: Machines) -> None:
        moved = machines.on("cmp2")
        for ident in moved:
            machines.place[ident] = "cmp1"

        async def known() -> bool:
            return await _hosts(s, moved) == {"cmp1"}

        await s.until(known, 60, "their machine is known")
        assert await _moves(s) == ["it runs on host cmp1 now; it was on cmp2"] * len(moved)
        lost = machines.on("cmp1")
        machines.die("cmp1")
        await s.until(s.all_well, 400, "all of them were moved")
        (outage,) = await host_incidents(s)
        assert (outage.node_name, outage.cause) == ("host cmp1", "host-lost")
        assert {p.node_id for p in await parts(s, outage.id)} == set(lost)

    play(story, moving(*MODES, limits={"max_unhealthy": "70%", "max_in_flight": 2}))


def test_a_node_that_was_taken_over_with_no_word_of_its_machine_learns_it_once() -> None:
    async def story(s: Stage, machines: Machines) -> None:
        idents = [n.id for n in await s.nodes()]
        facts: Any = {"node_ip": "192.0.2.9", "snapshot": "kept"}
        bare = {ident: {"attributes": facts} for ident in idents}
        await s.store.write(lambda conn: catalog.set_nodes(conn, bare, s.clock.now_us()))

        async def known() -> bool:
            return await _hosts(s, idents) == {"cmp1", "cmp2", "cmp3"}

        await s.until(known, 60, "their machines are known")
        for node in await s.nodes():
            assert {k: v for k, v in node.attributes.items() if k != "host"} == facts
        versions = await read(s, select(nodes.c.id, nodes.c.version))
        await s.clock.sleep(60)
        assert await read(s, select(nodes.c.id, nodes.c.version)) == versions, "written again"
        assert await _moves(s) == []

    play(story, moving(*MODES))
