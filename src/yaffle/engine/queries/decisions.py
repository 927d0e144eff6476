"""Reads decisions, and replays them from their records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import or_, select

from yaffle.core.decision_audit.replay import Agreement, Disagreement, NotRecheckable, recheck
from yaffle.core.decision_audit.schema import Stored
from yaffle.engine.queries import presentation
from yaffle.store import catalog
from yaffle.store.tables import clusters, decisions, nodes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Connection, RowMapping, Select

    from yaffle.core.decision_audit.replay import Verdict
    from yaffle.engine.queries.presentation import Shown
    from yaffle.engine.runtime.context import EngineContext
    from yaffle.model.authz import Principal


@dataclass(frozen=True, slots=True, kw_only=True)
class Which:
    """Selection of decisions: later than number `after`, no older than `within_s`, about `node`."""

    after: int = 0
    within_s: float | None = None
    node: str | None = None
    limit: int = 100


class Decisions:
    """Reads what was decided, in its order."""

    def __init__(self, ctx: EngineContext) -> None:
        self._ctx = ctx

    async def decisions(self, who: Principal, which: Which) -> Sequence[Shown]:
        """Return decisions whole, each with whether it comes to the same once more."""
        rows = await self._rows(who, which)
        return [decision(row) for row in rows]

    async def check(self, who: Principal, which: Which) -> Shown:
        """Decide so many once more; name those that do not come to the same."""
        rows = await self._rows(who, which)
        found = [(row, rechecked(recheck(stored(row)))) for row in rows]
        return {
            "checked": len(found),
            "agreed": sum(one["agrees"] is True for _, one in found),
            "not_recheckable": sum(one["agrees"] is None for _, one in found),
            "disagreed": [_brief(row, one) for row, one in found if one["agrees"] is False],
            "last": found[-1][0]["seq"] if found else which.after,
        }

    async def _rows(self, who: Principal, which: Which) -> Sequence[RowMapping]:
        now_us = self._ctx.clock.now_us()

        def work(conn: Connection) -> Sequence[RowMapping]:
            query = _query(conn, who, which, now_us)
            return conn.execute(query).mappings().all()

        return await self._ctx.store.read(work)


def _query(
    conn: Connection, who: Principal, which: Which, now_us: int
) -> Select[tuple[object, ...]]:
    query = (
        select(decisions, nodes.c.name.label("node_name"))
        .outerjoin(nodes, nodes.c.id == decisions.c.node_id)
        .where(decisions.c.seq > which.after)
        .order_by(decisions.c.seq)
        .limit(which.limit)
    )
    if who.scope is not None:
        mine = select(clusters.c.id).where(clusters.c.project == who.scope)
        query = query.where(or_(nodes.c.project == who.scope, decisions.c.cluster_id.in_(mine)))
    if which.within_s is not None:
        query = query.where(decisions.c.at_us >= now_us - int(which.within_s * 1e6))
    if which.node is not None:
        found = catalog.find_node(conn, which.node, who.scope)
        query = query.where(decisions.c.node_id == found.id)
    return query


def _brief(row: RowMapping, found: Shown) -> Shown:
    return {
        "seq": row["seq"],
        "node_id": row["node_id"],
        "node": row["node_name"] or "",
        "kind": row["kind"],
        "reason": row["reason"],
        **presentation.times(at=row["at_us"]),
        **found,
    }


def stored(row: Mapping[str, Any] | RowMapping) -> Stored:
    """Return a row as the checker takes it; what was damaged to be no object is an empty one."""
    numbers, inputs = row["numbers"], row["inputs"]
    return Stored(
        cluster_id=row["cluster_id"],
        node_id=row["node_id"],
        kind=row["kind"],
        reason=row["reason"],
        numbers=numbers if isinstance(numbers, dict) else {},
        inputs=inputs if isinstance(inputs, dict) else {},
        policy_id=row["policy_id"],
        policy_version=row["policy_version"],
        at_us=row["at_us"],
        until_us=row["until_us"],
    )


def decision(row: RowMapping) -> Shown:
    """Return a decision with everything that led to it."""
    return {
        "seq": row["seq"],
        "cluster_id": row["cluster_id"],
        "node_id": row["node_id"],
        "node": row.get("node_name") or "",
        "kind": row["kind"],
        "reason": row["reason"],
        "numbers": row["numbers"],
        "inputs": row["inputs"],
        "policy_id": row["policy_id"],
        "policy_version": row["policy_version"],
        "incident_id": row["incident_id"],
        **presentation.times(at=row["at_us"], until=row["until_us"]),
        "recheck": rechecked(recheck(stored(row))),
    }


def rechecked(found: Verdict) -> Shown:
    """Return `agrees` (true, false, or null where nothing can be said) and why."""
    match found:
        case Agreement():
            return {"agrees": True, "why": ""}
        case Disagreement():
            return {
                "agrees": False,
                "why": str(found),
                "field": found.field,
                "stored": found.stored,
                "recomputed": found.recomputed,
            }
        case NotRecheckable():
            return {"agrees": None, "why": found.why}


def sentence(found: Shown) -> str:
    """Return what `why` says of it in one line."""
    match found["agrees"]:
        case True:
            return "Decision replayed from its record: consistent."
        case None:
            return f"It cannot be decided once more: {found['why']}."
        case _:
            return (
                f"Decided once more from what is stored, it does NOT come to the same: {found['why']}."
                " That is a fault of Yaffle's, or of the database: please report it."
            )
