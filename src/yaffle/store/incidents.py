"""Repository of incidents and decisions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from sqlalchemy import bindparam, func, insert, select, update

from yaffle.errors import NotFound
from yaffle.model.ids import IncidentId, NodeId
from yaffle.model.incident import IncidentState
from yaffle.store.catalog import is_prefix
from yaffle.store.rows import IncidentRow, load
from yaffle.store.tables import decisions, incidents, proofs

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection, RowMapping

# Built once: to build one anew costs more than to carry it out.
_INSERT: Final = insert(incidents)
_SET: Final = update(incidents).where(incidents.c.id == bindparam("ident"))
_OPEN: Final = select(incidents).where(incidents.c.open_key == bindparam("node"))
_ALL_OPEN: Final = select(incidents).where(
    incidents.c.open_key.in_(bindparam("nodes", expanding=True))
)
_OPEN_OF_CAUSE: Final = (
    select(incidents)
    .where(incidents.c.open_key.is_not(None), incidents.c.cause == bindparam("said"))
    .order_by(incidents.c.opened_us, incidents.c.id)
)
_BY_ID: Final = select(incidents).where(incidents.c.id == bindparam("ident"))
_JOIN: Final = (
    update(incidents)
    .where(incidents.c.open_key.in_(bindparam("nodes", expanding=True)))
    .where(incidents.c.parent_id.is_(None))
    .values(parent_id=bindparam("parent"))
)
_PARTS: Final = (
    select(incidents.c.state, func.count())
    .where(incidents.c.parent_id == bindparam("parent"))
    .group_by(incidents.c.state)
)
_INSERT_DECISION: Final = insert(decisions)


def add(conn: Connection, values: Mapping[str, object]) -> None:
    """Insert an incident; the database refuses a second open one for the same node."""
    conn.execute(_INSERT, dict(values))


def open_of(conn: Connection, node_id: NodeId) -> IncidentRow | None:
    """Return the node's open incident."""
    row = conn.execute(_OPEN, {"node": node_id}).one_or_none()
    return None if row is None else load(IncidentRow, row)


def open_among(conn: Connection, nodes: Iterable[NodeId]) -> Mapping[NodeId, IncidentRow]:
    """Return the open incidents of any of these nodes, by node."""
    rows = (load(IncidentRow, r) for r in conn.execute(_ALL_OPEN, {"nodes": list(nodes)}))
    return {row.node_id: row for row in rows}


def open_by_key(conn: Connection, keys: Iterable[str]) -> Mapping[str, IncidentRow]:
    """Return the open incidents of hosts, by their keys."""
    rows = (load(IncidentRow, r) for r in conn.execute(_ALL_OPEN, {"nodes": list(keys)}))
    return {row.open_key: row for row in rows if row.open_key is not None}


def open_of_cause(conn: Connection, cause: str) -> Sequence[IncidentRow]:
    """Return the open incidents of one cause, the oldest first."""
    rows = conn.execute(_OPEN_OF_CAUSE, {"said": cause})
    return [load(IncidentRow, row) for row in rows]


def join(conn: Connection, parent: IncidentId, nodes: Iterable[NodeId]) -> int:
    """Let the open incidents of these nodes be part of a host's; return how many were not yet."""
    return conn.execute(_JOIN, {"parent": parent, "nodes": list(nodes)}).rowcount


def states_of_parts(conn: Connection, parent: IncidentId) -> Mapping[str, int]:
    """Return how many parts of a host's incident there are in each state."""
    rows = conn.execute(_PARTS, {"parent": parent})
    return {str(state): int(number) for state, number in rows}


def by_id(conn: Connection, incident_id: IncidentId) -> IncidentRow | None:
    """Return an incident by its whole id."""
    row = conn.execute(_BY_ID, {"ident": incident_id}).one_or_none()
    return None if row is None else load(IncidentRow, row)


def last_of(conn: Connection, node_id: NodeId) -> IncidentRow | None:
    """Return the node's latest incident, open or not."""
    row = conn.execute(
        select(incidents)
        .where(incidents.c.node_id == node_id)
        .order_by(incidents.c.opened_us.desc())
        .limit(1)
    ).one_or_none()
    return None if row is None else load(IncidentRow, row)


def exhausted_of(conn: Connection, node_ids: Sequence[NodeId]) -> Mapping[NodeId, IncidentId]:
    """Return by node the latest incident that ended without a way left; absent without one."""
    # The latest comes last and stays.
    rows = conn.execute(
        select(incidents.c.node_id, incidents.c.id)
        .where(
            incidents.c.node_id.in_(node_ids), incidents.c.state == IncidentState.EXHAUSTED.value
        )
        .order_by(incidents.c.opened_us)
    )
    return {NodeId(node): IncidentId(ident) for node, ident in rows}


def get(conn: Connection, incident_id: str, project: str | None = None) -> IncidentRow:
    """Return an incident by id or by an unambiguous prefix of it; raise NotFound.

    `project`: whose incidents are looked at; None for everybody's.
    """
    query = select(incidents).where(incidents.c.id.startswith(incident_id)).limit(2)
    if project is not None:
        query = query.where(incidents.c.project == project)
    rows = conn.execute(query).all() if is_prefix(incident_id) else []
    if len(rows) != 1:
        raise NotFound(f"incident {incident_id!r}: there is none; see `yaffle incident list`")
    return load(IncidentRow, rows[0])


def listed(
    conn: Connection,
    *,
    open_only: bool,
    node_id: NodeId | None,
    limit: int,
    project: str | None = None,
) -> Sequence[IncidentRow]:
    """Return incidents, of a project or of all, the latest first; a whole one before its parts.

    A thousand servers of one host that failed are a thousand and one incidents, and the one to be read
    is not the latest of them: of whatever part is shown, the whole is shown too.
    """

    def some(*conditions: ColumnElement[bool]) -> list[IncidentRow]:
        query = select(incidents).where(*conditions)
        if open_only:
            query = query.where(incidents.c.open_key.is_not(None))
        if project is not None:
            query = query.where(incidents.c.project == project)
        query = query.order_by(incidents.c.opened_us.desc(), incidents.c.id).limit(limit)
        return [load(IncidentRow, r) for r in conn.execute(query)]

    if node_id is not None:
        return some(incidents.c.node_id == node_id)
    found = {row.id: row for row in some()}
    if wholes := {row.parent_id for row in found.values()} - {None, *found}:
        found |= {row.id: row for row in some(incidents.c.id.in_(wholes))}

    latest: dict[str, int] = {}
    for row in found.values():
        whole = row.parent_id or row.id
        latest[whole] = max(latest.get(whole, 0), row.opened_us)

    def place(row: IncidentRow) -> tuple[int, str, bool, int, str]:
        whole = row.parent_id or row.id
        return -latest[whole], whole, row.id != whole, -row.opened_us, row.id

    return sorted(found.values(), key=place)[:limit]


def set_values(conn: Connection, incident_id: IncidentId, **values: object) -> None:
    """Change columns of an incident."""
    conn.execute(_SET, {**values, "ident": incident_id})


def add_decision(conn: Connection, values: Mapping[str, object]) -> None:
    """Store a decision with everything needed to recompute it."""
    conn.execute(_INSERT_DECISION, dict(values))


def decisions_of(conn: Connection, node_id: NodeId, limit: int) -> Sequence[RowMapping]:
    """Return the latest decisions about a node, the newest first."""
    return (
        conn.execute(
            select(decisions)
            .where(decisions.c.node_id == node_id)
            .order_by(decisions.c.seq.desc())
            .limit(limit)
        )
        .mappings()
        .all()
    )


def proofs_of(conn: Connection, incident_id: IncidentId) -> Sequence[RowMapping]:
    """Return the proofs of an incident in the order of time."""
    return (
        conn.execute(
            select(proofs).where(proofs.c.incident_id == incident_id).order_by(proofs.c.at_us)
        )
        .mappings()
        .all()
    )
