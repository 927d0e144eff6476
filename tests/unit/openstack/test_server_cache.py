"""The list of servers, and what changed since: who is in it, and whose copies they are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from msgspec.structs import replace

from yaffle.engine.runtime.clock import SystemClock
from yaffle.integrations.openstack.servers.documents import Link, Listed, ServerPage
from yaffle.integrations.openstack.servers.server_cache import (
    ServerCache,
    Snapshot,
    gathered,
    since,
    updated,
)


def server(ident: str, *, status: str = "ACTIVE", node: str = "", created: str = "") -> Listed:
    metadata = {"cluster_node_id": node} if node else {}
    return Listed(
        id=ident,
        status=status,
        created=created,
        updated=f"2026-01-01T00:00:0{len(ident)}Z",
        metadata=metadata,
    )


def snapshot(*servers: Listed) -> Snapshot:
    return gathered({s.id: s for s in servers}, "2026-01-01T00:00:00Z")


def test_changes_replace_add_and_remove() -> None:
    old = snapshot(server("a"), server("b"), server("c"))
    new = updated(old, [server("b", status="SHUTOFF"), server("c", status="DELETED"), server("dd")])
    assert {i: s.status for i, s in new.servers.items()} == {
        "a": "ACTIVE",
        "b": "SHUTOFF",
        "dd": "ACTIVE",
    }
    assert new.newest == "2026-01-01T00:00:02Z"
    assert set(old.servers) == {"a", "b", "c"}


def test_a_list_without_changes_forgets_nothing() -> None:
    old = snapshot(server("a", node="n"))
    assert updated(old, []) == old


@dataclass
class Cloud:
    """A Nova that knows these servers; of changes it lists what it is told to."""

    there: list[Listed]
    changed: list[Listed] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    @property
    def client(self) -> Any:
        return self

    def left_s(self) -> float:
        return 10.0

    @contextmanager
    def patient(self, left_s: float) -> Iterator[None]:
        yield

    def page(self, *, marker: str, since: str) -> ServerPage:
        self.asked.append("changes" if since else "all")
        return ServerPage(servers=self.changed if since else self.there)


def waiting(ident: str, node: str = "n", *, task: str = "scheduling") -> Listed:
    return replace(server(ident, status="BUILD", node=node), task_state=task)


def test_what_no_host_has_had_yet_may_be_gone_without_a_word() -> None:
    well, lost = server("a", node="m"), waiting("b")
    cloud = Cloud([well, lost])
    census = ServerCache(SystemClock(), full_s=3600.0)
    assert set(census.take(cloud).servers) == {"a", "b"}
    # As long as it is there, it is among the changes.
    cloud.changed = [lost]
    assert set(census.take(cloud).servers) == {"a", "b"}
    # Deleted it is in no list at all, and not as DELETED either.
    cloud.there, cloud.changed = [well], []
    found = census.take(cloud)
    assert set(found.servers) == {"a"}
    assert found.copies_of("n") == []
    assert set(census.take(cloud).servers) == {"a"}
    assert cloud.asked == ["all", "changes", "changes", "all", "changes"]


def test_what_a_cell_has_and_no_list_of_changes_is_swept_for_once() -> None:
    # The message to its host was lost: it is written down, and nothing changes any more.
    lost = waiting("b")
    cloud = Cloud([lost])
    census = ServerCache(SystemClock(), full_s=3600.0)
    for _ in range(4):
        assert set(census.take(cloud).servers) == {"b"}
    assert cloud.asked == ["all", "changes", "all", "changes", "changes"]
    # Its end is told, as any other.
    cloud.changed = [replace(lost, status="DELETED")]
    assert census.take(cloud).copies_of("n") == []


@pytest.mark.parametrize(
    "there",
    [
        pytest.param(waiting("b", task="spawning"), id="a host has it, and its end is told"),
        pytest.param(waiting("b", node=""), id="somebody else's"),
        pytest.param(server("b", node="n"), id="it runs"),
    ],
)
def test_nothing_else_makes_a_whole_list_of_changes(there: Listed) -> None:
    cloud = Cloud([there])
    census = ServerCache(SystemClock(), full_s=3600.0)
    for _ in range(3):
        assert set(census.take(cloud).servers) == {"b"}
    assert cloud.asked == ["all", "changes", "changes"]


def test_copies_of_a_node_come_oldest_first() -> None:
    found = snapshot(
        server("a", node="n", created="2026-01-02"), server("b", node="n", created="2026-01-01")
    )
    assert [s.id for s in found.copies_of("n")] == ["b", "a"]
    assert found.copies_of("other") == []


def test_changes_are_asked_for_with_a_margin() -> None:
    assert since("2026-01-01T00:00:30Z") == "2025-12-31T23:59:30Z"


def test_a_page_that_nova_cut_short_says_so_by_its_link() -> None:
    cut = ServerPage(servers=[server("a")], servers_links=[Link(rel="next")])
    assert cut.more
    assert not ServerPage(servers=[server("a")] * 1000).more
