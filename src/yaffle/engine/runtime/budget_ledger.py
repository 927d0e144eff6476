"""Reads and debits the shared budgets within the admission transaction."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from sqlalchemy import String, bindparam, func, insert, select, update

from yaffle.core.planning.budgets import Bucket, Key, Refusal, Scope, debit, refill
from yaffle.store.tables import actions, budgets, nodes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Connection, Select

    from yaffle.engine.runtime.context import EngineContext
    from yaffle.store.rows import NodeRow


# Built once: to build one anew costs more than to carry it out.
_MINE: Final = (budgets.c.scope == bindparam("which")) & (budgets.c.key == bindparam("name"))
_BUCKET: Final = select(budgets.c.tokens, budgets.c.updated_us).where(_MINE)
_SET: Final = update(budgets).where(_MINE)
_INSERT: Final = insert(budgets)


def keys_of(node: NodeRow, domain: str | None) -> tuple[Key, ...]:
    """Return the scopes that a recovery of this node draws on."""
    found: list[Key] = [(Scope.GLOBAL, "all"), (Scope.PROJECT, node.project)]
    if domain and node.attributes.get(domain):
        found.append((Scope.DOMAIN, f"{domain}={node.attributes[domain]}"))
    if node.attributes.get("host"):
        found.append((Scope.HOST, str(node.attributes["host"])))
    if node.cluster_id:
        found.append((Scope.CLUSTER, node.cluster_id))
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the budgets held when they were asked, and what they said."""

    buckets: Mapping[Key, Bucket]
    refusal: Refusal | None


class BudgetLedger:
    """The budgets in one transaction that admits: each is read once, since nobody else can spend.

    A thousand sick nodes of a cluster ask the same few budgets in one pass.
    """

    def __init__(self, ctx: EngineContext, conn: Connection, now_us: int) -> None:
        self._ctx = ctx
        self._conn = conn
        self._now_us = now_us
        self._known: dict[Key, Bucket] = {}

    def ask(self, node: NodeRow, domain: str | None, *, take: bool) -> Asked:
        """Take one token from every scope, or nothing at all and say which scope refused.

        Whoever takes inserts the action in the same transaction: it counts as in flight from here
        on. Without `take` nothing is taken in any case: for a policy that only observes.
        """
        buckets = {key: self._bucket(key, node) for key in keys_of(node, domain)}
        after = debit(buckets, self._ctx.budgets, self._now_us)
        if isinstance(after, Refusal):
            return Asked(buckets=buckets, refusal=after)
        if take:
            for key, bucket in after.items():
                _write(self._conn, key, bucket)
                self._known[key] = replace(bucket, in_flight=bucket.in_flight + 1)
        return Asked(buckets=buckets, refusal=None)

    def _bucket(self, key: Key, node: NodeRow) -> Bucket:
        if key not in self._known:
            self._known[key] = _bucket(self._ctx, self._conn, key, node, self._now_us)
        return self._known[key]


def give_back(
    ctx: EngineContext, conn: Connection, node: NodeRow, domain: str | None, now_us: int
) -> None:
    """Return the tokens of a recovery that touched nothing."""
    for key in keys_of(node, domain):
        bucket = refill(_bucket(ctx, conn, key, node, now_us), ctx.budgets[key[0]], now_us)
        whole = float(ctx.budgets[key[0]].burst)
        _write(conn, key, replace(bucket, tokens=min(whole, bucket.tokens + 1)))


def _bucket(ctx: EngineContext, conn: Connection, key: Key, node: NodeRow, now_us: int) -> Bucket:
    scope, name = key
    row = conn.execute(_BUCKET, {"which": scope.value, "name": name}).one_or_none()
    in_flight = _in_flight(conn, scope, name, node)
    if row is None:
        return Bucket(
            tokens=float(ctx.budgets[scope].burst), updated_us=now_us, in_flight=in_flight
        )
    return Bucket(tokens=row.tokens, updated_us=row.updated_us, in_flight=in_flight)


def _in_flight(conn: Connection, scope: Scope, name: str, node: NodeRow) -> int:
    attribute, value = "", name
    if scope in {Scope.DOMAIN, Scope.HOST}:
        attribute = name.split("=", 1)[0] if scope is Scope.DOMAIN else "host"
        value = str(node.attributes.get(attribute, ""))
    return int(conn.execute(_counting(scope, attribute), {"name": value}).scalar_one())


@lru_cache(maxsize=64)
def _counting(scope: Scope, attribute: str) -> Select[int]:
    """Return the query for the recoveries in flight; built once for each kind of scope."""
    query = select(func.count()).where(
        actions.c.action == "NODE_RECOVER", actions.c.status.in_(("READY", "RUNNING"))
    )
    name = bindparam("name", type_=String)
    match scope:
        case Scope.GLOBAL:
            return query
        case Scope.PROJECT:
            return query.where(actions.c.project == name)
        case Scope.CLUSTER:
            return query.where(actions.c.cluster_id == name)
        case Scope.DOMAIN | Scope.HOST:
            return query.join(nodes, nodes.c.id == actions.c.node_id).where(
                nodes.c.attributes[attribute].as_string() == name
            )


def _write(conn: Connection, key: Key, bucket: Bucket) -> None:
    scope, name = key
    held = {"tokens": bucket.tokens, "updated_us": bucket.updated_us}
    changed = conn.execute(_SET, {**held, "which": scope.value, "name": name}).rowcount
    if changed == 0:
        conn.execute(_INSERT, {**held, "scope": scope.value, "key": name})
