"""The list of servers, and what changed since: who is in it, and whose copies they are."""

from __future__ import annotations

from yaffle.clouds.openstack.servers.census import Snapshot, gathered, since, updated
from yaffle.clouds.openstack.servers.documents import Link, Listed, ServerPage


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
