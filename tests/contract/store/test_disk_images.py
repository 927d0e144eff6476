"""Nodes of which images were taken: remembered, at rest, due once they are gone; on every database."""

from __future__ import annotations

from typing import Any

from sqlalchemy import delete, insert
from tests.contract.store.test_watch_leases import Unit, unit

from yaffle.model.ids import ClusterId, NodeId
from yaffle.model.operations import Target
from yaffle.store import disk_images, orphans, tables

__all__ = ["unit"]

TARGET = Target(
    node_id=NodeId("c2-0"),
    name="web",
    physical_id="s-1",
    cluster_id=ClusterId("c2"),
    profile_type="t",
    spec={},
)
LATER = 2**63 - 1


def _due(unit: Unit, now_us: int) -> list[tuple[str, bool, int, list[str]]]:
    found = unit(lambda c: disk_images.due(c, now_us, 10))
    return [(one.id, one.gone, one.attempts, one.spared) for one in found]


def _looked(unit: Unit, error: str, now_us: int) -> None:
    (due,) = unit(lambda c: disk_images.due(c, LATER, 10))
    unit(lambda c: disk_images.looked(c, due, error, now_us))


def test_a_node_is_looked_at_once_for_each_image_and_once_more_when_it_is_gone(unit: Unit) -> None:
    for at_us in (100, 200):
        unit(lambda c, at_us=at_us: disk_images.note(c, TARGET, at_us, at_us))
    assert _due(unit, 199) == []
    assert _due(unit, 200) == [("c2-0", False, 0, [])], "one row, however many images"
    assert not unit(lambda c: orphans.due(c, LATER, 10)), "it is no copy"
    _looked(unit, "", 201)
    assert _due(unit, LATER // 4) == [], "it rests"
    unit(lambda c: c.execute(delete(tables.nodes).where(tables.nodes.c.id == "c2-0")) and None)
    assert _due(unit, 0) == [("c2-0", True, 0, [])], "whoever deleted the node"
    _looked(unit, "one is in use", 1_000_000)
    assert _due(unit, 30_999_999) == []
    assert _due(unit, 31_000_000) == [("c2-0", True, 1, [])]
    _looked(unit, "", 31_000_000)
    assert _due(unit, LATER) == [], "it is over"


def test_what_a_failure_that_is_not_over_has_taken_is_spared(unit: Unit) -> None:
    def work(conn: Any, key: str | None, end_us: int | None) -> None:
        ident = f"{key}-{end_us}"
        incident = {"id": ident, "node_id": "n", "state": "open", "opened_us": 1, "open_key": key}
        conn.execute(insert(tables.incidents).values(**incident))
        action = {
            "id": ident,
            "name": ident,
            "action": "NODE_RECOVER",
            "target": "c2-1",
            "node_id": "c2-1",
            "cluster_id": "c2",
            "incident_id": ident,
            "cause": "x",
            "status": "READY",
            "timeout_s": 1,
            "created_us": 1,
            "end_us": end_us,
        }
        conn.execute(insert(tables.actions).values(**action))
        step = {
            "action_id": ident,
            "seq": 0,
            "stage": "snapshot",
            "phase": "ended",
            "epoch": 1,
            "intent_us": 1,
            "deadline_us": 1,
            "operation_id": ident,
            "data": {"snapshot": f"image {ident}"},
        }
        conn.execute(insert(tables.steps).values(**step))

    unit(lambda c: disk_images.note(c, TARGET, 1, 1))
    for key, end_us in ((None, 5), (None, None), ("k", 5)):
        unit(lambda c, key=key, end_us=end_us: work(c, key, end_us))
    ((_, _, _, spared),) = _due(unit, LATER)
    assert spared == ["image None-None", "image k-5"], (
        "also where it is another node's of the cluster"
    )
