"""What is stored of the shared budgets, and the recoveries that count against them; on every database."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import insert
from tests.contract.store.test_watch_leases import Unit, unit

from yaffle.core.planning.budgets import Bucket, BudgetLimit, Key, Scope
from yaffle.store import budgets, catalog, tables

__all__ = ["unit"]

LIMITS = {scope: BudgetLimit(max_in_flight=9, burst=5, per_hour=3600.0) for scope in Scope}
SECOND = 1_000_000
CLUSTER = "c1"


def _recovers(conn: Any, ident: str, status: str = "RUNNING", **values: Any) -> None:
    row = {"id": ident, "action": "NODE_RECOVER", "status": status, "project": "p", **values}
    conn.execute(insert(tables.actions).values(created_us=1, **row))


def _read(unit: Unit, *keys: Key, now_us: int = 7) -> Any:
    return unit(lambda c: budgets.read(c, keys, LIMITS, now_us)).buckets


@pytest.fixture
def member(unit: Unit) -> Any:
    """A member on a host in a rack."""

    def place(conn: Any) -> Any:
        node = catalog.nodes_of(conn, CLUSTER)[0]
        catalog.set_node(conn, node.id, 1, attributes={"host": "h1", "rack": "r=1"}, project="p")
        return catalog.node(conn, node.id)

    return unit(place)


def test_a_node_draws_on_the_budgets_of_all_that_it_belongs_to(member: Any) -> None:
    assert budgets.keys_of(member, "rack") == (
        (Scope.GLOBAL, "all"),
        (Scope.PROJECT, "p"),
        (Scope.DOMAIN, "rack=r=1"),
        (Scope.HOST, "h1"),
        (Scope.CLUSTER, CLUSTER),
    )
    assert [s for s, _ in budgets.keys_of(member, None)].count(Scope.DOMAIN) == 0


def test_what_was_never_spent_is_full(unit: Unit) -> None:
    key = (Scope.HOST, "h1")
    assert _read(unit, key) == {key: Bucket(tokens=5.0, updated_us=7)}


def test_what_is_written_is_read_again_and_nothing_else(unit: Unit) -> None:
    mine, other = (Scope.HOST, "h1"), (Scope.CLUSTER, "h1")
    for tokens in (3.5, 2.5):  # inserted, then changed
        unit(lambda c, t=tokens: budgets.write(c, {mine: Bucket(tokens=t, updated_us=4)}))
    found = _read(unit, mine, other, (Scope.HOST, "H1"))
    assert [b.tokens for b in found.values()] == [2.5, 5.0, 5.0]
    assert found[mine].updated_us == 4


def test_many_are_read(unit: Unit) -> None:
    keys = [(Scope.HOST, f"h{i}") for i in range(budgets.SOME_MAX + 1)]
    unit(lambda c: budgets.write(c, {keys[-1]: Bucket(tokens=1.0, updated_us=4)}))
    assert [b.tokens for b in _read(unit, *keys).values()] == [5.0] * budgets.SOME_MAX + [1.0]


def test_each_recovery_under_way_counts_where_it_is(unit: Unit, member: Any) -> None:
    keys = budgets.keys_of(member, "rack")

    def begin(conn: Any) -> None:
        _recovers(conn, "here", "READY", node_id=member.id, cluster_id=CLUSTER)
        _recovers(conn, "of-one-that-is-gone", node_id="gone", cluster_id="c9")
        _recovers(conn, "of-another-project", node_id="gone", project="q")
        _recovers(conn, "ended", "SUCCEEDED", node_id=member.id, cluster_id=CLUSTER)
        _recovers(conn, "not-admitted", "WAITING", node_id=member.id, cluster_id=CLUSTER)
        other = {"id": "update", "action": "NODE_UPDATE", "status": "RUNNING", "project": "p"}
        conn.execute(insert(tables.actions).values(node_id=member.id, created_us=1, **other))

    unit(begin)
    assert {key: b.in_flight for key, b in _read(unit, *keys).items()} == dict(
        zip(keys, (3, 2, 1, 1, 1), strict=True)
    )


def test_what_is_given_back_flows_in_besides_and_never_beyond_the_brim(
    unit: Unit, member: Any
) -> None:
    keys = budgets.keys_of(member, None)
    low, nearly = Bucket(tokens=1.0, updated_us=0), Bucket(tokens=4.5, updated_us=0)
    unit(lambda c: budgets.write(c, {**dict.fromkeys(keys, low), keys[-1]: nearly}))
    unit(lambda c: budgets.give_back(c, member, None, LIMITS, SECOND))
    found = _read(unit, *keys, now_us=SECOND)
    assert [b.tokens for b in found.values()] == [3.0, 3.0, 3.0, 5.0]
