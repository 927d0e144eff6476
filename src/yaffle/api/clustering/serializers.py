"""Rows as clients of the clustering API know them: every key, null or empty as Senlin has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import select

from yaffle.api.clustering.microversion import V1_13, V1_14
from yaffle.api.clustering.times import offset, seconds, stored, zulu
from yaffle.errors import NotFound
from yaffle.store.actions import RUNNING, UNFINISHED
from yaffle.store.tables import actions, bindings, clusters, events, nodes, policies, profiles

if TYPE_CHECKING:
    from sqlalchemy import Connection, RowMapping, Table

    from yaffle.api.clustering.lists import Shown
    from yaffle.api.clustering.microversion import Microversion

    Row = RowMapping | Mapping[str, Any]

LEVELS: Final = {"CRITICAL": 50, "ERROR": 40, "WARNING": 30, "INFO": 20, "DEBUG": 10}
SHOWN_DATA: Final = frozenset({"health"})
"""Of an action's data, what is for people: the recovery that was merged (seed 1)."""
HIDDEN: Final = frozenset({"by", "snapshot", "was", "how", "tries", "capacity", "held"})
"""Keys of an action's inputs that nobody gave."""
WORDS: Final = {"timeout_s": "timeout"}
"""Keys of inputs that the engine calls otherwise than those who gave them."""


def owner(row: Row) -> Shown:
    """Return whose it is."""
    return {
        "user": row["user"],
        "project": row["project"],
        "domain": row["domain"] or None,
    }


def spec_of(row: Row) -> object:
    """Return a spec as its author wrote it, or as it was understood."""
    if row["given"] is not None:
        return row["given"]
    spec = row["spec"]
    if "properties" in spec and "version" in spec:
        return spec
    name, _, version = row["type"].rpartition("-")
    return {"type": name, "version": version, "properties": spec}


def profile(row: Row) -> Shown:
    """Return a profile."""
    return {
        "id": row["id"],
        "name": row["name"],
        "type": row["type"],
        "spec": spec_of(row),
        "metadata": row["metadata"],
        **owner(row),
        "created_at": zulu(row["created_us"]),
        "updated_at": zulu(row["updated_us"]),
    }


def policy(row: Row, *, fresh: bool = False) -> Shown:
    """Return a policy; Senlin writes the times of a `fresh` one in another way than later."""
    time = zulu if fresh else stored
    return {
        "id": row["id"],
        "name": row["name"],
        "type": row["type"],
        "spec": spec_of(row),
        "data": {},
        **owner(row),
        "created_at": time(row["created_us"]),
        "updated_at": time(row["updated_us"]),
    }


def cluster(row: Row, members: Sequence[str], bound: Sequence[str]) -> Shown:
    """Return a cluster."""
    return {
        "id": row["id"],
        "name": row["name"],
        "profile_id": row["profile_id"],
        "profile_name": row["profile_name"],
        **owner(row),
        "init_at": zulu(row["created_us"]),
        "created_at": zulu(row["made_us"]),
        "updated_at": zulu(row["updated_us"]),
        "min_size": row["min_size"],
        "max_size": row["max_size"],
        "desired_capacity": row["desired_capacity"],
        "timeout": row["timeout_s"],
        "status": row["status"],
        "status_reason": row["status_reason"],
        "metadata": row["metadata"],
        "data": row["data"],
        "dependents": {},
        "config": row["config"],
        "nodes": list(members),
        "policies": list(bound),
    }


def node(row: Row, version: Microversion) -> Shown:
    """Return a node, with our own two words of how it is."""
    shown = {
        "id": row["id"],
        "name": row["name"],
        "cluster_id": row["cluster_id"] or "",
        "physical_id": row["physical_id"] or None,
        "profile_id": row["profile_id"],
        "profile_name": row["profile_name"],
        **owner(row),
        "index": row["index"],
        "role": row["role"],
        "init_at": zulu(row["created_us"]),
        "created_at": zulu(row["made_us"]),
        "updated_at": zulu(row["updated_us"]),
        "status": row["status"],
        "status_reason": row["status_reason"],
        "data": row["data"],
        "metadata": row["metadata"],
        "dependents": {},
        "tainted": row["tainted"],
        "health": row["health"],
        "backend_status": row["backend_status"],
    }
    if version < V1_13:
        del shown["tainted"]
    return shown


def action(row: Row, parts: Sequence[str], version: Microversion) -> Shown:
    """Return an action; `parts` are its children that have not ended."""
    open_ = row["status"] in UNFINISHED
    shown = {
        "id": row["id"],
        "name": row["name"],
        "action": row["action"],
        "target": row["target"],
        "cluster_id": _cluster_of(row),
        "cause": row["cause"],
        "owner": (row["owner"] or None) if open_ else None,
        "interval": -1,
        "start_time": seconds(row["start_us"] or _claimed_us(row)),
        "end_time": seconds(row["end_us"]),
        "timeout": row["timeout_s"],
        "status": row["status"],
        "status_reason": row["status_reason"],
        "inputs": {WORDS.get(k, k): v for k, v in row["inputs"].items() if k not in HIDDEN},
        "outputs": row["outputs"],
        "depends_on": list(parts),
        "depended_by": [row["parent_id"]] if open_ and row["parent_id"] else [],
        "created_at": zulu(row["created_us"]),
        "updated_at": zulu(row["updated_us"]),
        "data": {k: v for k, v in row["data"].items() if k in SHOWN_DATA},
        "user": row["user"],
        "project": row["project"],
    }
    if version < V1_14:
        del shown["cluster_id"]
    return shown


def _claimed_us(row: Row) -> int | None:
    """Return since when an engine has an action whose first step it has not begun yet."""
    return row["updated_us"] if row["status"] == RUNNING else None


def _cluster_of(row: Row) -> str:
    mine = row["target"] if row["action"].startswith("CLUSTER_") else ""
    return row["cluster_id"] or mine


def event(row: Row) -> Shown:
    """Return an event."""
    return {
        "id": row["id"],
        "timestamp": offset(row["at_us"]),
        "oid": row["oid"],
        "oname": row["oname"],
        "otype": row["otype"],
        "cluster_id": row["cluster_id"],
        "level": level_name(row["level"]),
        "user": row["user"],
        "project": row["project"],
        "action": row["action"],
        "status": row["status"],
        "status_reason": row["reason"],
        "meta_data": row["data"],
    }


def level_name(level: int) -> str:
    """Return the name of a level, rounded down."""
    return next((name for name, least in LEVELS.items() if level >= least), "DEBUG")


def binding(row: Row) -> Shown:
    """Return a policy's binding to a cluster."""
    return {
        "id": row["id"],
        "cluster_id": row["cluster_id"],
        "cluster_name": row["cluster_name"],
        "policy_id": row["policy_id"],
        "policy_name": row["policy_name"],
        "policy_type": row["policy_type"],
        "enabled": row["enabled"],
        "priority": row["priority"],
        "data": row["data"],
        "last_op": zulu(row["last_op_us"]),
    }


# --- Fetching: the rows of some ids, and what is shown beside them, in few statements ------------


def row_of(conn: Connection, table: Table, ident: str) -> Row:
    """Return the row of an id that was found in this transaction, or just before it."""
    row = conn.execute(select(table).where(table.c.id == ident)).mappings().one_or_none()
    if row is None:
        raise NotFound(f"The {table.name[:-1]} '{ident}' could not be found.")
    return row


def profiles_by_id(
    conn: Connection, ids: Sequence[str], _version: Microversion
) -> Mapping[str, Shown]:
    """Return profiles."""
    rows = conn.execute(select(profiles).where(profiles.c.id.in_(ids))).mappings()
    return {row["id"]: profile(row) for row in rows}


def policies_by_id(
    conn: Connection, ids: Sequence[str], _version: Microversion
) -> Mapping[str, Shown]:
    """Return policies."""
    rows = conn.execute(select(policies).where(policies.c.id.in_(ids))).mappings()
    return {row["id"]: policy(row) for row in rows}


def clusters_by_id(
    conn: Connection, ids: Sequence[str], _version: Microversion
) -> Mapping[str, Shown]:
    """Return clusters with the ids of their nodes and policies."""
    members: dict[str, list[str]] = {}
    for cluster_id, ident in conn.execute(
        select(nodes.c.cluster_id, nodes.c.id)
        .where(nodes.c.cluster_id.in_(ids))
        .order_by(nodes.c.index, nodes.c.id)
    ):
        members.setdefault(cluster_id, []).append(ident)
    bound: dict[str, list[str]] = {}
    for cluster_id, ident in conn.execute(
        select(bindings.c.cluster_id, bindings.c.policy_id)
        .where(bindings.c.cluster_id.in_(ids))
        .order_by(bindings.c.priority, bindings.c.created_us, bindings.c.id)
    ):
        bound.setdefault(cluster_id, []).append(ident)
    rows = conn.execute(
        select(clusters, profiles.c.name.label("profile_name"))
        .join(profiles, profiles.c.id == clusters.c.profile_id)
        .where(clusters.c.id.in_(ids))
    ).mappings()
    return {
        row["id"]: cluster(row, members.get(row["id"], ()), bound.get(row["id"], ()))
        for row in rows
    }


def nodes_by_id(conn: Connection, ids: Sequence[str], version: Microversion) -> Mapping[str, Shown]:
    """Return nodes."""
    rows = conn.execute(
        select(nodes, profiles.c.name.label("profile_name"))
        .join(profiles, profiles.c.id == nodes.c.profile_id)
        .where(nodes.c.id.in_(ids))
    ).mappings()
    return {row["id"]: node(row, version) for row in rows}


def actions_by_id(
    conn: Connection, ids: Sequence[str], version: Microversion
) -> Mapping[str, Shown]:
    """Return actions with the parts they wait for."""
    parts: dict[str, list[str]] = {}
    for parent, ident in conn.execute(
        select(actions.c.parent_id, actions.c.id)
        .where(actions.c.parent_id.in_(ids), actions.c.status.in_(UNFINISHED))
        .order_by(actions.c.created_us, actions.c.id)
    ):
        parts.setdefault(parent, []).append(ident)
    rows = conn.execute(select(actions).where(actions.c.id.in_(ids))).mappings()
    return {row["id"]: action(row, parts.get(row["id"], ()), version) for row in rows}


def events_by_id(
    conn: Connection, ids: Sequence[str], _version: Microversion
) -> Mapping[str, Shown]:
    """Return events."""
    rows = conn.execute(select(events).where(events.c.id.in_(ids))).mappings()
    return {row["id"]: event(row) for row in rows}


def bindings_by_id(
    conn: Connection, ids: Sequence[str], _version: Microversion
) -> Mapping[str, Shown]:
    """Return bindings with the names of both ends."""
    rows = conn.execute(
        select(
            bindings,
            clusters.c.name.label("cluster_name"),
            policies.c.name.label("policy_name"),
        )
        .join(clusters, clusters.c.id == bindings.c.cluster_id)
        .join(policies, policies.c.id == bindings.c.policy_id)
        .where(bindings.c.id.in_(ids))
    ).mappings()
    return {row["id"]: binding(row) for row in rows}
