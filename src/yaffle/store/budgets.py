"""The shared budgets' rows: read for a plan, written with its recoveries, given back."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from sqlalchemy import bindparam, insert, select, tuple_, update

from yaffle.core.planning.budgets import Bucket, Budgets, Key, Scope, refill
from yaffle.model.action import ActionKind
from yaffle.store.tables import actions, budgets, nodes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sqlalchemy import Connection

    from yaffle.core.planning.budgets import BudgetLimit
    from yaffle.store.rows import NodeRow

# Built once: to build one anew costs more than to carry it out.
_SOME: Final = select(budgets).where(
    tuple_(budgets.c.scope, budgets.c.key).in_(bindparam("keys", expanding=True))
)
_SET: Final = update(budgets).where(
    budgets.c.scope == bindparam("which"), budgets.c.key == bindparam("name")
)
_INSERT: Final = insert(budgets)
_IN_FLIGHT: Final = (
    select(actions.c.project, actions.c.cluster_id, nodes.c.attributes)
    .join_from(actions, nodes, nodes.c.id == actions.c.node_id, isouter=True)
    .where(actions.c.action == ActionKind.NODE_RECOVER, actions.c.status.in_(("READY", "RUNNING")))
)
SOME_MAX: Final = 1000
"""Keys of one statement."""
ALL: Final[Key] = (Scope.GLOBAL, "all")


def keys_of(node: NodeRow, domain: str | None) -> tuple[Key, ...]:
    """Return the scopes that a recovery of this node draws on."""
    return (
        ALL,
        (Scope.PROJECT, node.project),
        *_places(node.attributes, domain),
        *([(Scope.CLUSTER, node.cluster_id)] if node.cluster_id else ()),
    )


def _places(attributes: Mapping[str, object], domain: str | None) -> Iterator[Key]:
    if domain and attributes.get(domain):
        yield Scope.DOMAIN, f"{domain}={attributes[domain]}"
    if attributes.get("host"):
        yield Scope.HOST, str(attributes["host"])


def read(
    conn: Connection, keys: Iterable[Key], limits: Mapping[Scope, BudgetLimit], now_us: int
) -> Budgets:
    """Return the buckets of these keys: as stored, else full, with the recoveries in flight counted."""
    wanted = list(dict.fromkeys(keys))
    if not wanted:
        return Budgets(limits=limits)
    stored: dict[Key, Bucket] = {}
    for start in range(0, len(wanted), SOME_MAX):
        for row in conn.execute(_SOME, {"keys": wanted[start : start + SOME_MAX]}):
            stored[Scope(row.scope), row.key] = Bucket(tokens=row.tokens, updated_us=row.updated_us)
    domains = {k.split("=", 1)[0] for s, k in wanted if s is Scope.DOMAIN}
    in_flight = _in_flight(conn, domains or {""})
    buckets = {
        key: replace(
            stored.get(key) or Bucket(tokens=float(limits[key[0]].burst), updated_us=now_us),
            in_flight=in_flight[key],
        )
        for key in wanted
    }
    return Budgets(limits=limits, buckets=buckets)


def _in_flight(conn: Connection, domains: Iterable[str]) -> Counter[Key]:
    """Return how many recoveries are in flight for each key."""
    found: Counter[Key] = Counter()
    for project, cluster_id, attributes in conn.execute(_IN_FLIGHT):
        found.update((ALL, (Scope.PROJECT, project), (Scope.CLUSTER, cluster_id or "")))
        found.update({key for d in domains for key in _places(attributes or {}, d)})
    return found


def write(conn: Connection, buckets: Mapping[Key, Bucket]) -> None:
    """Store buckets."""
    for (scope, name), bucket in buckets.items():
        held = {"tokens": bucket.tokens, "updated_us": bucket.updated_us}
        changed = conn.execute(_SET, {**held, "which": scope.value, "name": name}).rowcount
        if changed == 0:
            conn.execute(_INSERT, {**held, "scope": scope.value, "key": name})


def give_back(
    conn: Connection,
    node: NodeRow,
    domain: str | None,
    limits: Mapping[Scope, BudgetLimit],
    now_us: int,
) -> None:
    """Return the tokens of a recovery that touched nothing."""
    present = read(conn, keys_of(node, domain), limits, now_us).buckets
    fuller = {key: refill(bucket, limits[key[0]], now_us) for key, bucket in present.items()}
    write(
        conn,
        {
            key: replace(b, tokens=min(float(limits[key[0]].burst), b.tokens + 1))
            for key, b in fuller.items()
        },
    )
