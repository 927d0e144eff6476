"""Copies that are looked for after their node was deleted: how often, for how long; on every database."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from sqlalchemy import insert, select
from tests.contract.store.test_watch_leases import Unit, unit

from yaffle.core.recovery.ladder import Stage
from yaffle.model.ids import NodeId
from yaffle.model.operations import Target
from yaffle.store import disk_images, late_resources, orphans, tables

__all__ = ["unit"]

TARGET = Target(
    node_id=NodeId("gone"), name="web", physical_id="s-1", profile_type="t", spec={"a": 1}
)
LATER = 2**63 - 1
DAY_US = int(late_resources.LATE_S * 1e6)


def _looks(unit: Unit, *, error: str, until_us: int) -> list[int]:
    """Look whenever it is due until then; return when that was."""
    times: list[int] = []
    now_us = 0
    while now_us <= until_us and (due := unit(lambda c: late_resources.due(c, LATER, 10))):
        next_us = select(tables.debris.c.next_us).where(tables.debris.c.id == due[0].id)
        now_us = unit(lambda c, q=next_us: c.execute(q).scalar_one())
        times.append(now_us)
        unit(
            lambda c, due=due[0], at_us=now_us: late_resources.looked(
                c, due, error, at_us, under_way=False, over=not error
            )
        )
    return times


def test_it_is_looked_for_ever_more_rarely_until_the_day_is_over(unit: Unit) -> None:
    unit(lambda c: late_resources.note(c, "one", TARGET, 0))
    (due,) = unit(lambda c: late_resources.due(c, LATER, 10))
    assert (due.target.physical_id, due.target.spec) == ("", {"a": 1}), "whatever bears its mark"
    times = _looks(unit, error="", until_us=10 * DAY_US)
    assert 10 < len(times) < 25
    assert all(b - a <= max(a, late_resources.FIRST_S * 1e6) for a, b in pairwise(times))
    assert times[-2] < DAY_US <= times[-1], "it ends with the first look after that"


def test_what_could_not_be_asked_is_asked_for_ever(unit: Unit) -> None:
    unit(lambda c: late_resources.note(c, "one", TARGET, 0))
    times = _looks(unit, error="no answer", until_us=2 * DAY_US)
    assert times[-1] > 2 * DAY_US
    assert len(times) < 40
    assert unit(lambda c: late_resources.due(c, LATER, 10)), "it is not settled"


def test_its_row_is_neither_a_copys_nor_one_of_images(unit: Unit) -> None:
    unit(lambda c: late_resources.note(c, "one", TARGET, 0))
    unit(lambda c: orphans.add(c, "two", TARGET, 0))
    unit(lambda c: disk_images.note(c, TARGET, 0, 0))
    assert [row["id"] for row, _ in unit(lambda c: orphans.due(c, LATER, 10))] == ["two"]
    assert [one.id for one in unit(lambda c: disk_images.due(c, LATER, 10))] == ["gone"]
    assert [one.id for one in unit(lambda c: late_resources.due(c, LATER, 10))] == ["one"]


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        pytest.param({"phase": "intent"}, False, id="never-sent"),
        pytest.param({"phase": "submitted", "submitted_us": 1}, True, id="never-ended"),
        pytest.param({"phase": "ended", "submitted_us": 1}, False, id="answered"),
        pytest.param(
            {"phase": "ended", "submitted_us": 1, "data": {late_resources.OUTSTANDING: True}},
            True,
            id="outstanding",
        ),
        pytest.param(
            {"phase": "submitted", "submitted_us": 1, "stage": "delete"}, False, id="no-creation"
        ),
    ],
)
def test_what_may_still_arrive_is_told_by_the_journal(
    unit: Unit, row: dict[str, Any], expected: bool
) -> None:
    def work(conn: Any) -> None:
        action = {"id": "a", "node_id": "gone", "name": "x", "action": "x", "target": "gone"}
        times = {"timeout_s": 1, "created_us": 1}
        given = {"cause": "RPC Request", "status": "FAILED", "inputs": {}}
        conn.execute(insert(tables.actions).values(**action, **times, **given))
        step = {"action_id": "a", "seq": 0, "rung": 0, "stage": "create", "operation": "CREATE"}
        more = {"operation_id": "o", "epoch": 1, "intent_us": 1, "deadline_us": 2, "data": {}}
        conn.execute(insert(tables.steps).values({**step, **more, **row}))

    unit(work)
    assert unit(lambda c: late_resources.expected(c, NodeId("gone"), Stage.CREATE)) is expected
    assert not unit(lambda c: late_resources.expected(c, NodeId("another"), Stage.CREATE))
