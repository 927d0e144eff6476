"""A cell that Nova cannot reach: who is in it is left out of lists, and that proves nothing of copies."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.unit.openstack.standing import Clock

from yaffle.drivers.profiles.nova_server.api.nova import Nova
from yaffle.drivers.profiles.nova_server.inventory import listing
from yaffle.drivers.profiles.nova_server.operations import create, delete
from yaffle.drivers.profiles.nova_server.status import reading
from yaffle.drivers.profiles.nova_server.tracking.operation import ServerOperation, of_error
from yaffle.errors import Forbidden, NotFound, YaffleError
from yaffle.integrations.openstack.client import Answer
from yaffle.integrations.openstack.faults import CloudUnavailable
from yaffle.integrations.openstack.sent_requests import SentRequests
from yaffle.integrations.openstack.servers.server_cache import ServerCache
from yaffle.integrations.openstack.servers.stuck_tasks import Bounds, Tasks
from yaffle.model.ids import NodeId, OperationId
from yaffle.model.operations import Hindrance, Operation, Progress, ProgressState, Target

ROOM = 4
"""How many servers Nova puts on a page of its own accord."""


@dataclass
class Cells:
    """A small Nova of several cells behind one client, which lists servers as its big sister does."""

    cells: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    """Servers by id by the cell they are in."""
    away: set[str] = field(default_factory=set)
    admin: bool = True
    fails: bool = False
    asked: list[str] = field(default_factory=list)
    project_id: str = "p"

    def left_s(self) -> float:
        return 10.0

    @contextmanager
    def patient(self, left_s: float) -> Iterator[None]:
        yield

    def add(self, cell: str, ident: str, node: str = "", project: str = "p") -> None:
        self.cells.setdefault(cell, {})[ident] = {
            "id": ident, "name": ident, "status": "ACTIVE", "tenant_id": project,
            "created": "2026-01-01T00:00:00Z", "updated": "2026-01-01T00:00:00Z",
            "metadata": {"cluster_node_id": node} if node else {}, "host_status": "UP",
            "OS-EXT-STS:power_state": 1, "OS-EXT-SRV-ATTR:host": f"of {cell}",
        }  # fmt: skip

    def get(
        self, _: str, path: str, *, query: Mapping[str, Any] | None = None, **more: Any
    ) -> Answer:
        if self.fails:
            raise CloudUnavailable("no answer", sent=True)
        found = self._answer(path, query or {})
        return Answer(status=200, body=json.dumps(found).encode(), request_id="r-1")

    def _answer(self, path: str, query: Mapping[str, Any]) -> Any:
        if path == "/servers/detail":
            return self._page(query)
        if path == "/os-services":
            if not self.admin:
                raise Forbidden("Policy doesn't allow os_compute_api:os-services:list (HTTP 403)")
            return {"services": [self._service(cell) for cell in sorted(self.cells)]}
        ident = path.removeprefix("/servers/")
        for cell, servers in self.cells.items():
            if ident in servers:
                return {
                    "server": self._minimal(servers[ident]) if cell in self.away else servers[ident]
                }
        raise NotFound(f"Instance {ident} could not be found (HTTP 404)")

    def _service(self, cell: str) -> Mapping[str, Any]:
        if cell in self.away:
            return {"binary": "nova-compute", "host": f"of {cell}", "status": "UNKNOWN"}
        return {"id": cell, "host": f"of {cell}", "state": "up", "status": "enabled"}

    def _page(self, query: Mapping[str, Any]) -> Any:
        near = [s for c, of in self.cells.items() if c not in self.away for s in of.values()]
        far = [s for c, of in self.cells.items() if c in self.away for s in of.values()]
        if not query.get("all_tenants"):
            near, far = ([s for s in of if s["tenant_id"] == "p"] for of in (near, far))
        if "marker" in query:
            (place,) = (i for i, s in enumerate(near) if s["id"] == query["marker"])
            near = near[place + 1 :]
        if "changes-since" in query:
            near = [s for s in near if s["updated"] >= query["changes-since"]]
        room = min(ROOM, query.get("limit", ROOM))
        page = near[:room]
        if not query.keys() - {"all_tenants"}:
            page = [self._minimal(s) for s in far[: room - len(page)]] + page
        self.asked.append(" ".join(sorted(query)))
        return {"servers": page, "servers_links": [{"rel": "next"}] * (len(page) == room)}

    @staticmethod
    def _minimal(server: Mapping[str, Any]) -> Mapping[str, Any]:
        return {k: server[k] for k in ("id", "tenant_id", "created")} | {"status": "UNKNOWN"}


class World:
    """A driver with one node, which is said to have no copy."""

    def __init__(self, cloud: Cells, *, every: bool = True, project: str = "p") -> None:
        self.cloud, self.clock = cloud, Clock()
        self.nova = Nova(cloud, all_projects=every)  # type: ignore[arg-type]
        self.census = ServerCache(self.clock, full_s=0.0)  # type: ignore[arg-type]
        self.target = Target(
            node_id=NodeId("n"), name="web", physical_id="", profile_type="os.nova.server-1.0",
            spec={"flavor": "f", "image": "i"}, attributes={"project_id": project},
        )  # fmt: skip

    def copies(self, project: str = "p") -> dict[str, str]:
        found = self.census.take(self.nova, full=True)
        return {s.id: s.status for s in found.copies_of("n", project)}

    def do(self, kind: str) -> Progress:
        job = ServerOperation(
            op=Operation(kind=kind, target=self.target), operation_id=OperationId(f"o {kind}"),
            nova=self.nova, census=self.census, memory=SentRequests(), clock=self.clock, facts={},
            tasks=Tasks(self.clock, Bounds()),
        )  # type: ignore[arg-type] # fmt: skip
        try:
            return (create if kind == "CREATE" else delete).submit(job)
        except YaffleError as error:
            return of_error(error)


def two_cells() -> Cells:
    cloud = Cells()
    cloud.add("east", "a", "m")
    cloud.add("west", "b", "n")
    return cloud


def test_the_first_page_of_all_servers_has_no_limit_and_every_other_list_has_one() -> None:
    cloud = two_cells()
    for number in range(ROOM):
        cloud.add("east", f"more-{number}")
    world = World(cloud)
    assert len(world.census.take(world.nova).servers) == ROOM + 2
    assert cloud.asked == ["all_tenants", "all_tenants limit marker"]
    world.nova.page(name="web")
    world.nova.page(since="2026-01-01T00:00:00Z")
    assert cloud.asked[2:] == ["all_tenants limit name", "all_tenants changes-since limit"]


def test_whose_copy_it_was_is_known_of_a_server_whose_cell_is_away() -> None:
    cloud = two_cells()
    world = World(cloud)
    assert world.copies() == {"b": "ACTIVE"}
    cloud.away.add("west")
    for _ in range(3):
        assert world.copies() == {"b": "UNKNOWN"}
    one = world.census.take(world.nova).servers["b"]
    assert (one.host, one.power_state, one.host_status) == ("of west", None, None)
    # An answer that does not come makes nobody forget it.
    cloud.fails = True
    with pytest.raises(CloudUnavailable, match="no answer"):
        world.copies()
    cloud.fails = False
    assert world.copies() == {"b": "UNKNOWN"}
    assert world.do("CREATE").detail.startswith(
        "CREATE: an older copy of this node may still run: b"
    )
    (seen,) = reading.read(
        world.nova, world.census, Tasks(world.clock, Bounds()), [world.target], all_projects=True
    )  # type: ignore[arg-type] # fmt: skip
    assert (seen.up, seen.physical_id) == (None, "b")
    cloud.away.clear()
    assert world.copies() == {"b": "ACTIVE"}


@pytest.mark.parametrize("kind", ["CREATE", "DELETE", "KILL"])
def test_one_that_was_never_seen_may_be_any_nodes_copy(kind: str) -> None:
    cloud = two_cells()
    cloud.away.add("west")
    world = World(cloud)
    done = world.do(kind)
    assert (done.state, done.hindrance) == (ProgressState.RUNNING, Hindrance.UNASKED), done
    assert "does not tell whose copy it is" in done.detail
    (seen,) = reading.read(
        world.nova, world.census, Tasks(world.clock, Bounds()), [world.target], all_projects=True
    )  # type: ignore[arg-type] # fmt: skip
    assert (seen.exists, seen.up, seen.asked) == (True, None, False)
    with pytest.raises(CloudUnavailable, match="does not tell"):
        listing.present(world.nova, world.census, groups=False)
    # Between two sweeps, when only changes are asked for, it is as hidden as before.
    world.census = ServerCache(world.clock, full_s=3600.0)  # type: ignore[arg-type]
    for full in (True, False, False):
        with pytest.raises(CloudUnavailable, match="does not tell"):
            world.census.take(world.nova, full=full).copies_of("n", "p")
    # Of another project it hides nothing.
    assert World(cloud, project="q").copies("q") == {}
    cloud.away.clear()
    assert World(cloud).copies() == {"b": "ACTIVE"}


@pytest.mark.parametrize("admin", [True, False])
def test_a_list_without_room_for_a_cell_that_is_away_proves_nothing_where_we_are_told_of_it(
    admin: bool,
) -> None:
    cloud = two_cells()
    cloud.admin = admin
    for number in range(ROOM):
        cloud.add("east", f"more-{number}")
    cloud.away.add("west")
    world = World(cloud)
    if not admin:
        assert world.copies() == {}, "who may not see hosts cannot know: see the guarantees"
        return
    with pytest.raises(CloudUnavailable, match="has no room for all servers there"):
        world.copies()
    cloud.away.clear()
    assert world.copies() == {"b": "ACTIVE"}


@pytest.mark.parametrize("near", [0, 2])
def test_a_page_that_is_full_of_hidden_servers_is_the_last_that_counts(near: int) -> None:
    cloud = Cells(admin=False)
    for number in range(near):
        cloud.add("east", f"a-{number}")
    for number in range(ROOM + 1):
        cloud.add("west", f"b-{number}")
    world = World(cloud)
    assert len(world.census.take(world.nova).servers) == near + ROOM + 1
    cloud.away.add("west")
    # All that the page has room for were seen before, and bear no mark; there may be more.
    with pytest.raises(CloudUnavailable, match="has no room for all servers there"):
        world.copies()
