"""Repository of profiles, policies, clusters, nodes and bindings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from sqlalchemy import Table, bindparam, delete, func, insert, select, update

from yaffle.errors import MultipleChoices, NotFound
from yaffle.model.ids import ClusterId, NodeId, PolicyId, ProfileId
from yaffle.store.rows import (
    ActionRow,
    BindingRow,
    ClusterRow,
    NodeRow,
    PolicyRow,
    ProfileRow,
    R,
    ReceiverRow,
    load,
)
from yaffle.store.tables import (
    actions,
    bindings,
    clusters,
    nodes,
    policies,
    profiles,
    receivers,
)

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection

MIN_PREFIX = 4
IN_MAX: Final = 500
"""So many values are looked up by one statement."""
_TABLES: Final[Mapping[type, Table]] = {
    ActionRow: actions,
    BindingRow: bindings,
    ClusterRow: clusters,
    NodeRow: nodes,
    PolicyRow: policies,
    ProfileRow: profiles,
    ReceiverRow: receivers,
}


def is_prefix(ident: str) -> bool:
    """Whether `ident` can be the beginning of an id; anything else must not reach a LIKE."""
    return len(ident) >= MIN_PREFIX and set(ident) <= set("0123456789abcdef-")


def find(conn: Connection, kind: type[R], ident: str, word: str, project: str | None = None) -> R:
    """Return the object that `ident` names: its id, its exact name, or an unambiguous id prefix.

    `project`: whose objects are looked at; None for everybody's.
    """
    table = _TABLES[kind]
    mine = _mine(table, project)
    conditions = [table.c.id == ident, table.c.name == ident]
    if is_prefix(ident):
        conditions.append(table.c.id.startswith(ident))
    for condition in conditions:
        rows = conn.execute(select(table).where(condition, *mine).limit(2)).all()
        if len(rows) == 1:
            return load(kind, rows[0])
        if rows:
            raise MultipleChoices(
                f"Multiple results found matching the query criteria '{ident}'."
                " Please be more specific.",
                hint="use an id, or more of it",
            )
    raise NotFound(
        f"The {word} '{ident}' could not be found.",
        hint=f"`yaffle {word} list` shows what there is",
    )


def called(conn: Connection, kind: type[R], ident: str, name: str) -> str:
    """Return what commands may call an object: its name where no other bears it, else its short id."""
    table = _TABLES[kind]
    bearers = conn.execute(select(table.c.id).where(table.c.name == name).limit(2)).all()
    return name if len(bearers) == 1 else ident[:8]


def _mine(table: Table, project: str | None) -> tuple[ColumnElement[bool], ...]:
    return () if project is None else (table.c.project == project,)


def find_cluster(conn: Connection, ident: str, project: str | None = None) -> ClusterRow:
    """Return a cluster by id, name or id prefix; raise NotFound or MultipleChoices."""
    return find(conn, ClusterRow, ident, "cluster", project)


def find_node(conn: Connection, ident: str, project: str | None = None) -> NodeRow:
    """Return a node by id, name or id prefix; raise NotFound or MultipleChoices."""
    return find(conn, NodeRow, ident, "node", project)


def find_policy(conn: Connection, ident: str, project: str | None = None) -> PolicyRow:
    """Return a policy by id, name or id prefix; raise NotFound or MultipleChoices."""
    return find(conn, PolicyRow, ident, "policy", project)


def find_profile(conn: Connection, ident: str, project: str | None = None) -> ProfileRow:
    """Return a profile by id, name or id prefix; raise NotFound or MultipleChoices."""
    return find(conn, ProfileRow, ident, "profile", project)


def find_action(conn: Connection, ident: str, project: str | None = None) -> ActionRow:
    """Return an action by id, name or id prefix; raise NotFound or MultipleChoices."""
    return find(conn, ActionRow, ident, "action", project)


def add(conn: Connection, kind: type[R], *rows: Mapping[str, object]) -> None:
    """Insert rows that name the same columns; none where there are none."""
    # Without rows SQLAlchemy would insert one of defaults.
    if rows:
        conn.execute(insert(_TABLES[kind]), rows)


def change(conn: Connection, kind: type[R], ident: str, **values: object) -> None:
    """Change columns of a profile, a policy or a binding; `set_node` and `set_cluster` do of others."""
    table = _TABLES[kind]
    conn.execute(update(table).where(table.c.id == ident).values(**values))


def remove(conn: Connection, kind: type[R], ident: str) -> None:
    """Delete one row that nothing refers to."""
    table = _TABLES[kind]
    conn.execute(delete(table).where(table.c.id == ident))


def where_in(
    conn: Connection, kind: type[R], column: str, values: Sequence[str]
) -> list[Mapping[str, object]]:
    """Return the rows whose column has one of any number of values, by the names of the columns."""
    table = _TABLES[kind]
    found: list[Mapping[str, object]] = []
    for start in range(0, len(values), IN_MAX):
        query = select(table).where(table.c[column].in_(values[start : start + IN_MAX]))
        found += [dict(row) for row in conn.execute(query).mappings()]
    return found


def all_clusters(conn: Connection, project: str | None = None) -> Sequence[ClusterRow]:
    """Return every cluster, or a project's, in the order of creation."""
    ordered = select(clusters).order_by(clusters.c.created_us, clusters.c.id)
    rows = conn.execute(ordered.where(*_mine(clusters, project)))
    return [load(ClusterRow, r) for r in rows]


def all_policies(conn: Connection, project: str | None = None) -> Sequence[PolicyRow]:
    """Return every policy, or a project's, in the order of creation."""
    ordered = select(policies).order_by(policies.c.created_us, policies.c.id)
    rows = conn.execute(ordered.where(*_mine(policies, project)))
    return [load(PolicyRow, r) for r in rows]


def all_profiles(conn: Connection, project: str | None = None) -> Sequence[ProfileRow]:
    """Return every profile, or a project's, in the order of creation."""
    ordered = select(profiles).order_by(profiles.c.created_us, profiles.c.id)
    rows = conn.execute(ordered.where(*_mine(profiles, project)))
    return [load(ProfileRow, r) for r in rows]


def nodes_of(
    conn: Connection, cluster_id: ClusterId | None = None, project: str | None = None
) -> Sequence[NodeRow]:
    """Return the nodes of a cluster, of a project, or all of them, in the order of creation."""
    if cluster_id is not None and project is None:
        return [load(NodeRow, r) for r in conn.execute(_MEMBERS, {"ident": cluster_id})]
    query = select(nodes).order_by(nodes.c.created_us, nodes.c.index, nodes.c.id)
    query = query.where(*_mine(nodes, project))
    if cluster_id is not None:
        query = query.where(nodes.c.cluster_id == cluster_id)
    return [load(NodeRow, r) for r in conn.execute(query)]


def versions_of(conn: Connection, cluster_id: ClusterId) -> Mapping[NodeId, int]:
    """Return the version of every member, in the order of creation; each change of a row adds one."""
    rows = conn.execute(_VERSIONS, {"ident": cluster_id})
    return {row[0]: row[1] for row in rows}


def some_nodes(conn: Connection, idents: Sequence[NodeId]) -> Sequence[NodeRow]:
    """Return the nodes with these ids that there are, in no order."""
    return [load(NodeRow, r) for r in conn.execute(_SOME_NODES, {"idents": idents})]


# Built once: to build one anew costs more than to carry it out.
_VERSIONS: Final = (
    select(nodes.c.id, nodes.c.version)
    .where(nodes.c.cluster_id == bindparam("ident"))
    .order_by(nodes.c.created_us, nodes.c.index, nodes.c.id)
)
_MEMBERS: Final = (
    select(nodes)
    .where(nodes.c.cluster_id == bindparam("ident"))
    .order_by(nodes.c.created_us, nodes.c.index, nodes.c.id)
)
_STATUSES: Final = (
    select(nodes.c.status, func.count())
    .where(nodes.c.cluster_id == bindparam("ident"))
    .group_by(nodes.c.status)
)
_SET_CLUSTER: Final = update(clusters).where(clusters.c.id == bindparam("ident"))
_BOUND: Final = (
    select(policies)
    .join(bindings, bindings.c.policy_id == policies.c.id)
    .where(
        bindings.c.cluster_id == bindparam("ident"),
        bindings.c.enabled,
        bindings.c.policy_type.startswith("senlin.policy.health"),
    )
    .limit(1)
)
_SOME_NODES: Final = select(nodes).where(nodes.c.id.in_(bindparam("idents", expanding=True)))
_NODE: Final = select(nodes).where(nodes.c.id == bindparam("ident"))
_CLUSTER: Final = select(clusters).where(clusters.c.id == bindparam("ident"))
_PROFILE: Final = select(profiles).where(profiles.c.id == bindparam("ident"))
_NODES: Final = select(nodes).where(nodes.c.id.in_(bindparam("idents", expanding=True)))
_SET_NODE: Final = (
    update(nodes).where(nodes.c.id == bindparam("ident")).values(version=nodes.c.version + 1)
)


def node(conn: Connection, node_id: NodeId) -> NodeRow | None:
    """Return a node, or None once it has been deleted."""
    row = conn.execute(_NODE, {"ident": node_id}).one_or_none()
    return None if row is None else load(NodeRow, row)


def nodes_among(conn: Connection, idents: Iterable[NodeId]) -> Mapping[NodeId, NodeRow]:
    """Return those of the nodes that are still there; as many ids as one statement takes."""
    rows = (load(NodeRow, r) for r in conn.execute(_NODES, {"idents": list(idents)}))
    return {row.id: row for row in rows}


def cluster(conn: Connection, cluster_id: ClusterId) -> ClusterRow | None:
    """Return a cluster, or None once it has been deleted."""
    row = conn.execute(_CLUSTER, {"ident": cluster_id}).one_or_none()
    return None if row is None else load(ClusterRow, row)


def profile(conn: Connection, profile_id: ProfileId) -> ProfileRow:
    """Return a profile that some object refers to."""
    return load(ProfileRow, conn.execute(_PROFILE, {"ident": profile_id}).one())


def find_profile_row(conn: Connection, profile_id: ProfileId) -> ProfileRow | None:
    """Return a profile that nothing keeps from being deleted."""
    row = conn.execute(_PROFILE, {"ident": profile_id}).one_or_none()
    return None if row is None else load(ProfileRow, row)


def policy(conn: Connection, policy_id: PolicyId) -> PolicyRow:
    """Return a policy that some object refers to."""
    return load(PolicyRow, conn.execute(select(policies).where(policies.c.id == policy_id)).one())


def set_node(conn: Connection, node_id: NodeId, now_us: int, **values: object) -> None:
    """Change columns of a node; a node that is gone is left alone."""
    conn.execute(_SET_NODE, {**values, "updated_us": now_us, "ident": node_id})


def set_nodes(
    conn: Connection, changes: Mapping[NodeId, Mapping[str, object]], now_us: int
) -> None:
    """Change columns of several nodes, those with the same columns in one round trip."""
    alike: dict[frozenset[str], list[dict[str, object]]] = {}
    for ident, values in changes.items():
        change = {**values, "updated_us": now_us, "ident": ident}
        alike.setdefault(frozenset(values), []).append(change)
    for some in alike.values():
        conn.execute(_SET_NODE, some)


def set_cluster(conn: Connection, cluster_id: ClusterId, now_us: int, **values: object) -> None:
    """Change columns of a cluster."""
    conn.execute(_SET_CLUSTER, {**values, "updated_us": now_us, "ident": cluster_id})


def begin_grace(conn: Connection, cluster_id: str, now_us: int) -> None:
    """Let the grace of all members begin now."""
    conn.execute(
        update(nodes)
        .where(nodes.c.cluster_id == cluster_id)
        .values(grace_us=now_us, updated_us=now_us, version=nodes.c.version + 1)
    )


def count_on(conn: Connection, cluster_id: str) -> None:
    """Let a cluster's next index begin after those of its members."""
    highest = conn.execute(
        select(func.max(nodes.c.index)).where(nodes.c.cluster_id == cluster_id)
    ).scalar_one()
    conn.execute(
        update(clusters)
        .where(clusters.c.id == cluster_id, clusters.c.next_index <= highest)
        .values(next_index=highest + 1)
    )


def remove_node(conn: Connection, node_id: NodeId) -> None:
    """Delete a node's row; its history stays."""
    conn.execute(delete(nodes).where(nodes.c.id == node_id))


def remove_cluster(conn: Connection, cluster_id: ClusterId) -> None:
    """Delete a cluster's row, its bindings and receivers; its history stays."""
    conn.execute(delete(bindings).where(bindings.c.cluster_id == cluster_id))
    conn.execute(delete(receivers).where(receivers.c.cluster_id == cluster_id))
    conn.execute(delete(clusters).where(clusters.c.id == cluster_id))


def bindings_of(conn: Connection, cluster_id: ClusterId) -> Sequence[BindingRow]:
    """Return the policies attached to a cluster, in the order in which they have their say."""
    rows = conn.execute(
        select(bindings)
        .where(bindings.c.cluster_id == cluster_id)
        .order_by(bindings.c.priority, bindings.c.created_us, bindings.c.id)
    )
    return [load(BindingRow, r) for r in rows]


def clusters_of_policy(conn: Connection, policy_id: PolicyId) -> Sequence[ClusterId]:
    """Return the clusters that a policy is attached to."""
    query = select(bindings.c.cluster_id).where(bindings.c.policy_id == policy_id)
    return [ClusterId(ident) for ident in conn.execute(query).scalars()]


def set_policy_type(conn: Connection, policy_id: PolicyId, policy_type: str) -> None:
    """Let the bindings of a policy say its type with another version."""
    conn.execute(
        update(bindings).where(bindings.c.policy_id == policy_id).values(policy_type=policy_type)
    )


def user_of_profile(conn: Connection, profile_id: ProfileId) -> str:
    """Return what a profile is used by, `cluster` or `node`; empty where nothing does."""
    for table, word in ((clusters, "cluster"), (nodes, "node")):
        query = select(table.c.id).where(table.c.profile_id == profile_id).limit(1)
        if conn.execute(query).first():
            return word
    return ""


def node_of_copy(conn: Connection, profile_type: str, physical_id: str) -> NodeId | None:
    """Return the node of a type whose copy has that id at its backend; None where there is none."""
    query = (
        select(nodes.c.id)
        .join(profiles, profiles.c.id == nodes.c.profile_id)
        .where(nodes.c.physical_id == physical_id, profiles.c.type == profile_type)
    )
    return conn.execute(query.limit(1)).scalar_one_or_none()


def count_clusters(conn: Connection, project: str) -> int:
    """Return how many clusters a project has."""
    mine = select(func.count()).select_from(clusters).where(clusters.c.project == project)
    return int(conn.execute(mine).scalar_one())


def statuses_of(conn: Connection, cluster_id: ClusterId) -> Mapping[str, int]:
    """Return how many members of a cluster are in each status."""
    return {row[0]: row[1] for row in conn.execute(_STATUSES, {"ident": cluster_id})}


def ids_of_nodes(conn: Connection) -> Sequence[NodeId]:
    """Return the ids of all nodes."""
    return [NodeId(ident) for ident in conn.execute(select(nodes.c.id)).scalars()]


def types_of_nodes(conn: Connection) -> Mapping[str, int]:
    """Return how many nodes there are of each profile type."""
    query = (
        select(profiles.c.type, func.count(nodes.c.id))
        .join(nodes, nodes.c.profile_id == profiles.c.id)
        .group_by(profiles.c.type)
        .order_by(profiles.c.type)
    )
    return {row[0]: row[1] for row in conn.execute(query)}


def bound_policy(conn: Connection, cluster_id: ClusterId) -> PolicyRow | None:
    """Return the enabled health policy of a cluster (a singleton type), or None."""
    row = conn.execute(_BOUND, {"ident": cluster_id}).one_or_none()
    return None if row is None else load(PolicyRow, row)
