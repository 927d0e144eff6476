"""A cluster's rows as one transaction read them: what a watcher knows besides its observations."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeVar

import structlog

from yaffle.engine.action_inputs.default_policy import without_policy
from yaffle.engine.action_inputs.target_mapping import target_of
from yaffle.errors import InvalidSpec, StaleEpoch
from yaffle.model.action import ActionKind
from yaffle.model.policy import HealthPolicy, RecoveryAction
from yaffle.policy import UnknownPolicyType, parse_document
from yaffle.store import actions, catalog, change_tokens, leases
from yaffle.store.rows import ClusterRow, NodeRow

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from yaffle.engine.runtime.context import Drivers, EngineContext
    from yaffle.engine.runtime.session import Session
    from yaffle.model.ids import ClusterId, NodeId
    from yaffle.model.operations import Target
    from yaffle.store.rows import PolicyRow

log = structlog.get_logger()

V = TypeVar("V")

SOME_MAX: Final = 200
"""Rows that are read by their ids; more than that are read with all the others of the cluster."""
UNWATCHED: Final = frozenset({"INIT", "CREATING", "UPDATING", "DELETING"})
"""A node that is updated may be without any copy for a while: that is no failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSnapshot:
    """One cluster, its policy, its nodes and targets."""

    cluster: ClusterRow
    policy: HealthPolicy
    policy_id: str
    nodes: Mapping[NodeId, NodeRow]
    """Those that are watched: neither being made nor being deleted."""
    targets: Mapping[NodeId, Target]
    versions: Mapping[NodeId, int]
    """Of every member, also of those that are not watched: what changed next time is read by it."""
    changed: frozenset[NodeId]
    """Which of `nodes` may differ from the snapshot before; all of them where there was none."""
    requests: bool
    """Whether a person asked for a recovery that has not been admitted yet."""
    disturbed: bool
    """Whether an action of this cluster is under way: its end may change what is decided."""


_PARSED: dict[tuple[str, int | None], HealthPolicy] = {}
_PARSED_MAX: Final = 1024


def parsed(row: PolicyRow) -> HealthPolicy:
    """Return a stored document parsed; a stored document never changes under the same stamp."""
    key = (row.id, row.updated_us)
    # Read once: another thread may empty the cache between any two of these lines.
    found = _PARSED.get(key)
    if found is None:
        found = parse_document(row.spec).health
        if len(_PARSED) >= _PARSED_MAX:
            _PARSED.clear()
        _PARSED[key] = found
    return found


def policy_of(
    ctx: EngineContext, conn: Connection, cluster_id: ClusterId
) -> tuple[HealthPolicy, str]:
    """Return the active policy of a cluster and its id (empty without one)."""
    bound = catalog.bound_policy(conn, cluster_id)
    if bound is None:
        return without_policy(ctx.settings.default_interval), ""
    try:
        policy = parsed(bound)
    except (InvalidSpec, UnknownPolicyType):
        # One unreadable document must not end the watching of every other cluster.
        log.exception("stored policy cannot be read", policy=bound.name)
        return without_policy(ctx.settings.default_interval), bound.id
    in_place = _in_place(ctx, policy)
    return in_place, bound.id


def in_place_names(ctx: EngineContext) -> frozenset[str]:
    """Return the operations that every profile which has them declares unable to make a copy."""
    specs = [
        (name, spec.in_place)
        for profile in ctx.drivers.profiles.values()
        for name, spec in profile.operations.items()
    ]
    return frozenset({n for n, safe in specs if safe} - {n for n, safe in specs if not safe})


def declared_in_place(drivers: Drivers, action: RecoveryAction) -> bool:
    """Whether the operator declared this workflow unable to make a copy; a policy cannot."""
    driver = drivers.workflows.get(action.kind)
    try:
        return driver is not None and driver.in_place(action.name) is True
    except Exception:
        # In doubt the fence comes first, and no policy goes unread because of it.
        log.exception("driver failed", what=f"the {action.kind} workflows")
        return False


def _in_place(ctx: EngineContext, policy: HealthPolicy) -> HealthPolicy:
    """Let the profiles' declarations, not the document, say which rungs need no fence."""
    known = in_place_names(ctx)
    rungs = tuple(
        replace(
            a,
            in_place=a.name in known if a.kind == "BUILTIN" else declared_in_place(ctx.drivers, a),
        )
        for a in policy.recovery.actions
    )
    return replace(policy, recovery=replace(policy.recovery, actions=rungs))


Stamp = change_tokens.Stamp


def stamp(conn: Connection, session: Session, cluster_id: ClusterId) -> Stamp:
    """Return a few numbers that change whenever the snapshot would; much cheaper than it.

    Raises StaleEpoch when the cluster is not ours.
    """
    if not leases.holds_watch(conn, session.me, session.epoch, cluster_id):
        raise StaleEpoch(f"cluster {cluster_id} is not ours")
    return change_tokens.of_cluster(conn, cluster_id)


def load_cluster_snapshot(
    ctx: EngineContext,
    conn: Connection,
    session: Session,
    cluster_id: ClusterId,
    before: ClusterSnapshot | None = None,
) -> ClusterSnapshot | None:
    """Return the cluster as it is now; None once it is gone; StaleEpoch when it is not ours.

    `before`: as it was read last; rows that have not changed since are taken from there.
    """
    if not leases.holds_watch(conn, session.me, session.epoch, cluster_id):
        raise StaleEpoch(f"cluster {cluster_id} is not ours")
    cluster = catalog.cluster(conn, cluster_id)
    if cluster is None:
        return None
    if before is not None and before.cluster.name != cluster.name:
        before = None  # every target bears it
    policy, policy_id = policy_of(ctx, conn, cluster_id)
    versions = catalog.versions_of(conn, cluster_id)
    changed = _changed(conn, cluster_id, versions, {} if before is None else before.versions)
    watched = {n.id: n for n in changed if n.status not in UNWATCHED}
    profiles = {p: catalog.profile(conn, p) for p in {n.profile_id for n in watched.values()}}
    targets = {i: target_of(n, profiles[n.profile_id], cluster.name) for i, n in watched.items()}
    active = actions.unfinished(conn, cluster_id=cluster_id)
    nodes: Mapping[NodeId, NodeRow] = {} if before is None else before.nodes
    known: Mapping[NodeId, Target] = {} if before is None else before.targets
    renewed = {n.id for n in changed}
    kept = {i for i in nodes if i in versions and i not in renewed}
    return ClusterSnapshot(
        cluster=cluster,
        policy=policy,
        policy_id=policy_id,
        nodes=_merged(versions, kept, nodes, watched),
        targets=_merged(versions, kept, known, targets),
        versions=versions,
        changed=frozenset(watched),
        requests=any(
            a.status == actions.WAITING
            and a.lock_key is not None
            and a.action == ActionKind.NODE_RECOVER
            for a in active
        ),
        disturbed=bool(active),
    )


def members(conn: Connection, cluster_id: ClusterId) -> Sequence[Target]:
    """Return a cluster's targets without a snapshot: the cluster may be another engine's to watch."""
    cluster = catalog.cluster(conn, cluster_id)
    if cluster is None:
        return ()
    watched = [n for n in catalog.nodes_of(conn, cluster_id) if n.status not in UNWATCHED]
    profiles = {p: catalog.profile(conn, p) for p in {n.profile_id for n in watched}}
    return [target_of(n, profiles[n.profile_id], cluster.name) for n in watched]


def watched_rows(
    conn: Connection,
    cluster_id: ClusterId,
    known: Mapping[NodeId, NodeRow],
    before: Mapping[NodeId, int],
) -> Mapping[NodeId, NodeRow]:
    """Return the rows of a cluster's nodes as they are now; only what has changed is read.

    `known`, `before`: the rows and versions of a snapshot. What it does not watch, since it is being made
    or deleted, is left out for as long as nothing of it changes.
    """
    versions = catalog.versions_of(conn, cluster_id)
    changed = {n.id: n for n in _changed(conn, cluster_id, versions, before)}
    return {i: changed.get(i) or known[i] for i in versions if i in changed or i in known}


def _changed(
    conn: Connection,
    cluster_id: ClusterId,
    versions: Mapping[NodeId, int],
    before: Mapping[NodeId, int],
) -> Sequence[NodeRow]:
    """Return the rows of the members that are new or have another version than `before`."""
    idents = [i for i, version in versions.items() if before.get(i) != version]
    if len(idents) > SOME_MAX:
        return catalog.nodes_of(conn, cluster_id)
    return catalog.some_nodes(conn, idents)


def _merged(
    order: Iterable[NodeId],
    kept: Container[NodeId],
    old: Mapping[NodeId, V],
    new: Mapping[NodeId, V],
) -> Mapping[NodeId, V]:
    """Return what is kept of the old with the new, in the order of the members."""
    found = {i: new[i] if i in new else old[i] for i in order if i in new or i in kept}
    return MappingProxyType(found)
