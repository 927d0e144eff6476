"""A list that came late is old news, and what is read from it says so: nothing newer is proved by it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from yaffle.core.health.backend_status_codes import classify
from yaffle.drivers.profiles.nova_server.api.documents import Server
from yaffle.drivers.profiles.nova_server.status.hypervisors import hosts
from yaffle.drivers.profiles.nova_server.status.reading import read
from yaffle.integrations.batch_read import BatchReader, Question
from yaffle.integrations.openstack.faults import CloudUnavailable
from yaffle.integrations.openstack.servers.documents import Listed, ServerPage, Service
from yaffle.integrations.openstack.servers.server_cache import ServerCache
from yaffle.integrations.openstack.servers.stuck_tasks import Bounds, Tasks
from yaffle.model.ids import NodeId
from yaffle.model.operations import Reading, Target


@dataclass
class Nova:
    """A small one whose whole list takes `full_s`, by a clock of its own, and a list of changes 1 s."""

    full_s: float = 15.0
    now_s: float = 100.0
    servers: dict[str, Server] = field(default_factory=dict)
    left: float = 10.0
    granted: float = 0.0
    lists: int = 0
    project_id: str = "p"

    def monotonic_s(self) -> float:
        return self.now_s

    def now_us(self) -> int:
        return int(self.now_s * 1_000_000)

    @property
    def client(self) -> Nova:
        return self

    def left_s(self) -> float:
        return self.left

    @contextmanager
    def patient(self, left_s: float) -> Iterator[None]:
        self.granted = left_s
        yield

    def page(self, *, marker: str, since: str) -> ServerPage:
        # As of when it was asked for: what happens while it is made is not in it.
        seen = [msgspec.convert(msgspec.to_builtins(s), Listed) for s in self.servers.values()]
        self.lists += 1
        takes_s = 1.0 if since else self.full_s
        self.now_s += min(takes_s, self.granted)
        if takes_s > self.granted:
            raise CloudUnavailable("no answer in time", sent=False)
        return ServerPage(servers=seen)

    def show(self, ident: str) -> Server | None:
        return self.servers.get(ident)

    def services(self) -> Mapping[str, Service] | None:
        return None

    def add(self, ident: str, node: str, status: str = "ACTIVE", host: str = "UP") -> None:
        self.servers[ident] = Server(
            id=ident, status=status, power_state=1, updated="2026-01-01T00:02:00Z", created=ident,
            metadata={"cluster_node_id": node}, host="h1", host_status=host,
        )  # fmt: skip


class World:
    """A cloud with two nodes, and a list of it that came late: it was begun 15 s ago."""

    def __init__(self) -> None:
        self.nova = Nova()
        self.nova.add("s0", "n0")
        self.nova.add("s1", "n1")
        self.census = ServerCache(self.nova)  # type: ignore[arg-type]
        self.tasks = Tasks(self.nova, Bounds())  # type: ignore[arg-type]
        for _ in range(2):
            with pytest.raises(CloudUnavailable):
                self.census.take(self.nova, nodes=("somebody else",))  # type: ignore[arg-type]

    def read(self, *idents: str) -> list[Reading]:
        targets = [target(i, ident) for i, ident in enumerate(idents)]
        return read(self.nova, self.census, self.tasks, targets, all_projects=False)  # type: ignore[arg-type]


def target(index: int, ident: str) -> Target:
    return Target(
        node_id=NodeId(f"n{index}"), name="web", physical_id=ident,
        profile_type="os.nova.server-1.0", spec={},
    )  # fmt: skip


def test_what_is_read_from_it_is_as_old_as_when_it_was_begun() -> None:
    world = World()
    world.nova.now_s += 30.0
    assert [reading.age_us for reading in world.read("s0", "s1")] == [45_000_000] * 2
    assert [reading.age_us for reading in world.read("s0", "s1")] == [0, 0], "asked for anew"


def test_the_age_of_an_answer_is_part_of_how_long_it_took() -> None:
    """As `core.health.verdict` compares it: what was asked before the present life says nothing."""
    world = World()

    class Profile:
        async def read(self, targets: Sequence[Target], *, deadline_s: float) -> Any:
            world.nova.now_s += 2.0
            return world.read(*(target.physical_id for target in targets))

    context: Any = type("Context", (), {})()
    context.clock, context.profiles = world.nova, {"os.nova.server-1.0": Profile()}
    question: Question[Reading] = Question(
        read_of=lambda profile: profile.read,  # type: ignore[attr-defined]
        classify=classify, cannot="", error="ST-ERROR", timeout="ST-TIMEOUT",
        age_us_of=lambda reading: reading.age_us,
    )  # fmt: skip
    began_us = world.nova.now_us() - 15_000_000
    asker = BatchReader(context, question)
    found = asyncio.run(asker.ask([target(0, "s0"), target(1, "s1")], deadline_s=10.0))
    assert all(one.at_us - one.took_us <= began_us for one in found)


def test_one_that_is_asked_about_alone_is_about_to_be_acted_upon() -> None:
    world = World()
    world.nova.add("s2", "n0")
    assert [r.physical_id for r in world.read("")] == ["s2"]


def test_gone_and_other_copies_are_read_from_a_list_that_is_fresh() -> None:
    world = World()
    world.nova.add("s2", "n0")
    found = world.read("gone", "s1")
    assert [(r.physical_id, r.up, r.age_us) for r in found] == [
        ("s2", True, 0),
        ("s1", True, 0),
    ], "a copy that came since is not seen"
    assert world.nova.lists == 3


def test_where_a_fresh_list_would_be_too_late_gone_is_unclear_and_the_others_are_read() -> None:
    world = World()
    world.nova.now_s += 90.0  # a full sweep is due again
    found = world.read("s0", "gone")
    assert [(r.exists, r.up) for r in found] == [(True, True), (True, None)]
    assert world.nova.lists == 2, "nobody would have heard of the others"


def test_a_host_is_never_read_from_it() -> None:
    world = World()
    world.nova.add("s0", "n0", host="DOWN")
    pair = [target(0, "s0"), target(1, "s1")]
    found = hosts(world.nova, world.census, pair)  # type: ignore[arg-type]
    assert [host.up for host in found] == [False, True]
