"""What people ask for, each as one transaction: it either happened as a whole or not at all.

The API and the tests speak to this class only. Every change writes an event with who and why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from sqlalchemy import delete, func, insert, select, update

from yaffle.engine import news
from yaffle.engine.saving import refresh_cluster
from yaffle.errors import Conflict, Forbidden, InvalidSpec, NotFound
from yaffle.model.health import NodeStatus
from yaffle.model.ids import ActionId, ClusterId, NodeId, PauseId
from yaffle.model.incident import IncidentState, Pause, PauseKind, PauseScope
from yaffle.policy import check_operations, parse_document
from yaffle.store import actions, catalog, events, incidents, outbox, pauses
from yaffle.store.tables import bindings, clusters, nodes, policies, profiles

if TYPE_CHECKING:
    from sqlalchemy import Connection, Table

    from yaffle.engine.kit import Kit
    from yaffle.policy import ParsedPolicy
    from yaffle.ports import Profile
    from yaffle.store.records import ClusterRow, NodeRow, ProfileRow

MAX_NODES = 1000
POLICY_PRIORITY = 600
PAUSE_MAX_S = 366 * 86_400.0


class Commands:
    """The verbs of users; `by` is who asks."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit

    # --- profiles and policies ---------------------------------------------------------------

    async def create_profile(
        self, name: str, kind: str, spec: Mapping[str, object], *, by: str
    ) -> str:
        """Store a profile after its driver has validated the properties; return its id."""
        driver = self._driver(kind)
        validated = dict(driver.validate(spec))
        ident = self._kit.new_id()

        def work(conn: Connection) -> None:
            _unique(conn, profiles, name, "profile")
            catalog.add(
                conn,
                profiles,
                {
                    "id": ident,
                    "name": _named(name),
                    "type": kind,
                    "spec": validated,
                    "user": by,
                    "created_us": self._now(),
                },
            )
            self._event(conn, "PROFILE", ident, name, "PROFILE_CREATE", by)

        await self._kit.store.write(work)
        return ident

    async def create_policy(self, name: str, parsed: ParsedPolicy, *, source: str, by: str) -> str:
        """Store a parsed policy document; return its id."""
        ident = self._kit.new_id()
        kind = f"senlin.policy.health-{parsed.policy.version}"

        def work(conn: Connection) -> None:
            _unique(conn, policies, name, "policy")
            catalog.add(
                conn,
                policies,
                {
                    "id": ident,
                    "name": _named(name),
                    "type": kind,
                    "spec": parsed.document,
                    "source": source,
                    "warnings": list(parsed.warnings),
                    "user": by,
                    "created_us": self._now(),
                },
            )
            self._event(conn, "POLICY", ident, name, "POLICY_CREATE", by)

        await self._kit.store.write(work)
        return ident

    async def update_policy(
        self, policy: str, parsed: ParsedPolicy, *, source: str, by: str
    ) -> None:
        """Replace a policy's document; running recoveries keep the one they began with."""

        def work(conn: Connection) -> None:
            row = catalog.find_policy(conn, policy)
            now_us = self._now()
            for cluster_id in conn.execute(
                select(bindings.c.cluster_id).where(bindings.c.policy_id == row.id)
            ).scalars():
                self._fits(conn, parsed, catalog.cluster(conn, cluster_id))
            conn.execute(
                update(policies)
                .where(policies.c.id == row.id)
                .values(
                    spec=parsed.document,
                    source=source,
                    warnings=list(parsed.warnings),
                    type=f"senlin.policy.health-{parsed.policy.version}",
                    # A stamp of its own even within one microsecond: watches compare it.
                    updated_us=max(now_us, (row.updated_us or 0) + 1),
                )
            )
            self._event(conn, "POLICY", row.id, row.name, "POLICY_UPDATE", by)

        await self._kit.store.write(work)
        self._kit.signals.changed()

    async def delete_policy(self, policy: str, *, by: str) -> None:
        """Delete a policy that no cluster uses."""

        def work(conn: Connection) -> None:
            row = catalog.find_policy(conn, policy)
            used = conn.execute(
                select(func.count()).where(bindings.c.policy_id == row.id)
            ).scalar_one()
            if used:
                raise Conflict(
                    f"policy {row.name!r} is attached to {used} cluster(s); detach first"
                )
            conn.execute(delete(policies).where(policies.c.id == row.id))
            self._event(conn, "POLICY", row.id, row.name, "POLICY_DELETE", by)

        await self._kit.store.write(work)

    async def delete_profile(self, profile: str, *, by: str) -> None:
        """Delete a profile that no node or cluster uses."""

        def work(conn: Connection) -> None:
            row = catalog.find_profile(conn, profile)
            for table in (clusters, nodes):
                if conn.execute(
                    select(table.c.id).where(table.c.profile_id == row.id).limit(1)
                ).first():
                    raise Conflict(f"profile {row.name!r} is in use by a {table.name[:-1]}")
            conn.execute(delete(profiles).where(profiles.c.id == row.id))
            self._event(conn, "PROFILE", row.id, row.name, "PROFILE_DELETE", by)

        await self._kit.store.write(work)

    async def attach(self, cluster: str, policy: str, *, by: str, enabled: bool = True) -> None:
        """Bind a health policy to a cluster; the type is a singleton, the same policy a no-op."""

        def work(conn: Connection) -> None:
            found = catalog.find_cluster(conn, cluster)
            row = catalog.find_policy(conn, policy)
            present = conn.execute(
                select(bindings.c.policy_id).where(
                    bindings.c.cluster_id == found.id,
                    bindings.c.policy_type.startswith("senlin.policy.health"),
                )
            ).scalar_one_or_none()
            if present == row.id:
                return
            if present is not None:
                raise Conflict(
                    f"cluster {found.name!r} has a health policy already; detach it first"
                )
            self._fits(conn, parse_document(row.spec), found)
            conn.execute(
                insert(bindings).values(
                    id=self._kit.new_id(),
                    cluster_id=found.id,
                    policy_id=row.id,
                    policy_type=row.type,
                    enabled=enabled,
                    priority=POLICY_PRIORITY,
                    created_us=self._now(),
                )
            )
            self._event(conn, "CLUSTER", found.id, found.name, "CLUSTER_ATTACH_POLICY", by)

        await self._kit.store.write(work)
        self._kit.signals.changed()

    async def set_policy_enabled(
        self, cluster: str, policy: str, *, enabled: bool, by: str
    ) -> None:
        """Switch a binding on or off."""
        await self._change_binding(cluster, policy, by, "CLUSTER_UPDATE_POLICY", enabled)

    async def detach(self, cluster: str, policy: str, *, by: str) -> None:
        """Unbind a policy; recoveries that run go on with the policy they began with."""
        await self._change_binding(cluster, policy, by, "CLUSTER_DETACH_POLICY", None)

    async def _change_binding(
        self, cluster: str, policy: str, by: str, action: str, enabled: bool | None
    ) -> None:
        def work(conn: Connection) -> None:
            found = catalog.find_cluster(conn, cluster)
            row = catalog.find_policy(conn, policy)
            mine = (bindings.c.cluster_id == found.id) & (bindings.c.policy_id == row.id)
            change = (
                delete(bindings).where(mine)
                if enabled is None
                else update(bindings).where(mine).values(enabled=enabled)
            )
            if conn.execute(change).rowcount == 0:
                raise NotFound(f"policy {row.name!r} is not attached to cluster {found.name!r}")
            self._event(conn, "CLUSTER", found.id, found.name, action, by)

        await self._kit.store.write(work)
        self._kit.signals.changed()

    def _fits(self, conn: Connection, parsed: ParsedPolicy, cluster: ClusterRow | None) -> None:
        """Refuse a policy whose operations the cluster's profile lacks."""
        if cluster is None:
            return
        profile = catalog.profile(conn, cluster.profile_id)
        problems = check_operations(parsed.policy, self._driver(profile.type).operations)
        if problems:
            raise InvalidSpec(problems)

    # --- clusters and nodes ------------------------------------------------------------------

    async def create_cluster(
        self, name: str, profile: str, size: int, *, by: str, policy: str | None = None
    ) -> ClusterId:
        """Create a cluster with `size` nodes; the engine builds them. Return its id."""
        if not 0 <= size <= MAX_NODES:
            raise InvalidSpec(f"size: {size} is not between 0 and {MAX_NODES}")
        ident = ClusterId(self._kit.new_id())

        def work(conn: Connection) -> None:
            _unique(conn, clusters, name, "cluster")
            row = catalog.find_profile(conn, profile)
            self._driver(row.type)
            now_us = self._now()
            catalog.add(
                conn,
                clusters,
                {
                    "id": ident,
                    "name": _named(name),
                    "profile_id": row.id,
                    "desired_capacity": size,
                    "next_index": size + 1,
                    "status": "CREATING" if size else "ACTIVE",
                    "status_reason": "being created" if size else "empty",
                    "user": by,
                    "init_us": now_us,
                    "created_us": now_us,
                },
            )
            for index in range(1, size + 1):
                self._add_node(conn, ident, name, index, row, by, now_us)
            self._event(conn, "CLUSTER", ident, name, "CLUSTER_CREATE", by)

        await self._kit.store.write(work)
        if policy is not None:
            await self.attach(ident, policy, by=by)
        self._kit.signals.changed()
        return ident

    def _add_node(
        self,
        conn: Connection,
        cluster_id: ClusterId,
        cluster_name: str,
        index: int,
        profile: ProfileRow,
        by: str,
        now_us: int,
    ) -> None:
        ident = NodeId(self._kit.new_id())
        catalog.add(
            conn,
            nodes,
            {
                "id": ident,
                "name": f"{cluster_name}-{index}",
                "cluster_id": cluster_id,
                "index": index,
                "profile_id": profile.id,
                "user": by,
                "init_us": now_us,
                "created_us": now_us,
            },
        )
        self._job(conn, "NODE_CREATE", ident, cluster_id, by, now_us, locked=True)

    def _job(
        self,
        conn: Connection,
        action: str,
        node_id: NodeId,
        cluster_id: ClusterId | None,
        by: str,
        now_us: int,
        *,
        locked: bool,
    ) -> ActionId:
        ident = ActionId(self._kit.new_id())
        actions.add(
            conn,
            {
                "id": ident,
                "name": f"{action.lower()}_{node_id[:8]}",
                "action": action,
                "target": node_id,
                "cluster_id": cluster_id,
                "node_id": node_id,
                "lock_key": node_id if locked else None,
                "cause": "RPC Request",
                "status": actions.READY if locked else actions.WAITING,
                "inputs": {"by": by},
                "timeout_s": int(self._kit.settings.action_timeout),
                "created_us": now_us,
            },
        )
        return ident

    async def delete_cluster(self, cluster: str, *, by: str) -> None:
        """Delete a cluster with all its nodes; running recoveries stop at their next step."""

        def work(conn: Connection) -> None:
            found = catalog.find_cluster(conn, cluster)
            now_us = self._now()
            members = catalog.nodes_of(conn, found.id)
            catalog.set_cluster(
                conn, found.id, now_us, status="DELETING", status_reason=f"asked for by {by}"
            )
            for node in members:
                self._delete_node(conn, node, by, now_us)
            if not members:
                catalog.remove_cluster(conn, found.id)
            self._event(conn, "CLUSTER", found.id, found.name, "CLUSTER_DELETE", by)

        await self._kit.store.write(work)
        self._kit.signals.changed()

    async def delete_node(self, node: str, *, by: str) -> None:
        """Delete one node; the cluster's desired capacity shrinks with it."""

        def work(conn: Connection) -> None:
            row = catalog.find_node(conn, node)
            now_us = self._now()
            if row.cluster_id is not None:
                cluster = catalog.cluster(conn, row.cluster_id)
                assert cluster is not None  # noqa: S101 - a foreign key says so
                catalog.set_cluster(
                    conn,
                    cluster.id,
                    now_us,
                    desired_capacity=max(0, cluster.desired_capacity - 1),
                )
            self._delete_node(conn, row, by, now_us)
            self._event(conn, "NODE", row.id, row.name, "NODE_DELETE", by)

        await self._kit.store.write(work)
        self._kit.signals.changed()

    def _delete_node(self, conn: Connection, node: NodeRow, by: str, now_us: int) -> None:
        """Queue the deletion behind whatever holds the node, and tell that to stop."""
        present = actions.unfinished(conn, node_id=node.id)
        if any(a.action == "NODE_DELETE" for a in present):
            return
        incident = incidents.open_of(conn, node.id)
        holder = next((a for a in present if a.lock_key is not None), None)
        for other in present:
            actions.cancel(conn, other.id, f"{by} deletes the node", now_us)
            if other.status == actions.WAITING:
                actions.end(
                    conn,
                    other.id,
                    now_us,
                    status=actions.CANCELLED,
                    reason="the node is being deleted",
                    outputs={},
                )
        waits = holder is not None and holder.status != actions.WAITING
        self._job(conn, "NODE_DELETE", node.id, node.cluster_id, by, now_us, locked=not waits)
        catalog.set_node(
            conn,
            node.id,
            now_us,
            status=NodeStatus.DELETING.value,
            status_reason=f"asked for by {by}",
        )
        if incident is not None and not waits:
            news.change(
                self._kit,
                conn,
                node,
                incident,
                IncidentState.SUPERSEDED,
                reason=f"{by} deletes the node",
                now_us=now_us,
            )

    async def recover(
        self,
        node: str,
        *,
        by: str,
        operation: str | None = None,
        params: Mapping[str, object] | None = None,
        check: bool = False,
    ) -> ActionId:
        """Ask for a node to be recovered; the brakes that a person may lift are lifted."""
        inputs: dict[str, object] = {"by": by, "check": check}

        def work(conn: Connection) -> ActionId:
            row = catalog.find_node(conn, node)
            if operation is not None:
                self._knows(conn, row, operation, params or {})
                inputs.update(operation=operation.upper(), operation_params=dict(params or {}))
            holder = actions.lock_holder(conn, row.id)
            if holder is not None:
                raise Conflict(
                    f"node {row.name!r} is busy with {holder.action} {holder.id};"
                    " wait for its end, or see `yaffle why`"
                )
            now_us = self._now()
            ident = self._job(conn, "NODE_RECOVER", row.id, row.cluster_id, by, now_us, locked=True)
            actions.set_values(conn, ident, now_us, status=actions.WAITING, inputs=inputs)
            self._event(conn, "NODE", row.id, row.name, "NODE_RECOVER", by)
            return ident

        ident = await self._kit.store.write(work)
        self._kit.signals.changed()
        return ident

    def _knows(
        self, conn: Connection, node: NodeRow, operation: str, params: Mapping[str, object]
    ) -> None:
        driver = self._driver(catalog.profile(conn, node.profile_id).type)
        known = {*driver.operations, "RECREATE"} - {"CREATE", "DELETE"}
        name = operation.upper()
        if name not in known:
            raise InvalidSpec(
                f"operation {operation!r} is not supported by profile type {driver.type!r};"
                f" it knows {', '.join(sorted(known))}"
            )
        spec = driver.operations.get(name)
        for key, value in params.items():
            param = spec.params.get(key) if spec else None
            if param is None:
                raise InvalidSpec(f"operation_params.{key}: {name} has no such parameter")
            if param.choices and str(value).upper() not in {str(c).upper() for c in param.choices}:
                raise InvalidSpec(
                    f"operation_params.{key}: {value!r} is none of {', '.join(map(str, param.choices))}"
                )

    async def mark(self, node: str, *, reason: str, by: str) -> None:
        """Mark a node unhealthy; no check erases the mark."""

        def work(conn: Connection) -> None:
            row = catalog.find_node(conn, node)
            holder = actions.lock_holder(conn, row.id)
            if holder is not None and holder.status in actions.ACTIVE:
                # As Heat answers a mark while the resource is locked (seed 5).
                raise Conflict(
                    f"node {row.name!r} is busy with {holder.action}; mark it afterwards"
                )
            now_us = self._now()
            catalog.set_node(
                conn, row.id, now_us, mark_reason=reason[:1000], mark_by=by, mark_us=now_us
            )
            self._event(conn, "NODE", row.id, row.name, "NODE_MARK_UNHEALTHY", by, reason)

        await self._kit.store.write(work)
        self._kit.signals.changed()

    async def unmark(self, node: str, *, reason: str, by: str) -> None:
        """Lift a user's mark; what the checks say counts again."""

        def work(conn: Connection) -> None:
            row = catalog.find_node(conn, node)
            now_us = self._now()
            catalog.set_node(conn, row.id, now_us, mark_reason=None, mark_by="", mark_us=None)
            self._event(conn, "NODE", row.id, row.name, "NODE_MARK_HEALTHY", by, reason)

        await self._kit.store.write(work)
        self._kit.signals.changed()

    # --- operators' words ----------------------------------------------------------------------

    async def pause(
        self,
        kind: PauseKind,
        scope: PauseScope,
        target: str,
        *,
        owner: str,
        reason: str,
        for_s: float | None,
    ) -> PauseId:
        """Begin maintenance or the global stop; return its id."""
        if not reason.strip():
            raise InvalidSpec("reason: say why, for whoever finds this at three in the morning")
        if for_s is not None and not 0 < for_s <= PAUSE_MAX_S:
            raise InvalidSpec(f"duration: {for_s:g} s is not between 0 and {PAUSE_MAX_S:g} s")
        ident = PauseId(self._kit.new_id())

        def work(conn: Connection) -> None:
            now_us = self._now()
            target_id = _pause_target(conn, scope, target)
            pauses.add(
                conn,
                Pause(
                    id=ident,
                    kind=kind,
                    scope=scope,
                    target_id=target_id,
                    owner=owner,
                    reason=reason,
                    starts_us=now_us,
                    expires_us=None if for_s is None else now_us + int(for_s * 1e6),
                ),
            )
            self._event(
                conn, "PAUSE", ident, kind.value, f"{kind.value.upper()}_BEGIN", owner, reason
            )

        await self._kit.store.write(work)
        self._kit.signals.changed()
        return ident

    async def lift(self, pause: str, *, by: str) -> None:
        """End one pause before its time."""

        def work(conn: Connection) -> None:
            now_us = self._now()
            found = [p for p in pauses.in_force(conn, now_us) if p.id.startswith(pause)]
            if len(found) != 1 or len(pause) < catalog.MIN_PREFIX:
                raise NotFound(f"pause {pause!r}: none in force; see `yaffle maintenance list`")
            pauses.lift(conn, found[0].id, by, now_us)
            self._event(conn, "PAUSE", found[0].id, found[0].kind.value, "PAUSE_LIFT", by)

        await self._kit.store.write(work)
        self._kit.signals.changed()

    async def lift_stop(self, *, by: str) -> int:
        """Lift every global stop; return how many there were."""

        def work(conn: Connection) -> int:
            count = pauses.lift_kind(conn, PauseKind.STOP, by, self._now())
            if count:
                self._event(conn, "PAUSE", "", "stop", "STOP_LIFT", by)
            return count

        count = await self._kit.store.write(work)
        self._kit.signals.changed()
        return count

    async def release(self, cluster: str, *, by: str, reason: str, for_s: float) -> None:
        """Release a cluster's storm brake for a while."""
        if not 0 < for_s <= 86_400:
            raise InvalidSpec(f"duration: {for_s:g} s is not between 0 and 86400 s")

        def work(conn: Connection) -> None:
            found = catalog.find_cluster(conn, cluster)
            now_us = self._now()
            pauses.add_release(
                conn,
                ident=self._kit.new_id(),
                cluster_id=found.id,
                by=by,
                reason=reason,
                now_us=now_us,
                expires_us=now_us + int(for_s * 1e6),
            )
            self._event(conn, "CLUSTER", found.id, found.name, "CLUSTER_RELEASE", by, reason)

        await self._kit.store.write(work)
        self._kit.signals.changed()

    async def acknowledge(self, incident: str, *, by: str) -> None:
        """A person has seen it: the node's retry budget is full again."""

        def work(conn: Connection) -> None:
            row = incidents.get(conn, incident)
            now_us = self._now()
            incidents.set_values(conn, row.id, acknowledged_us=now_us, acknowledged_by=by)
            node = catalog.node(conn, row.node_id)
            if node is not None:
                catalog.set_node(
                    conn, node.id, now_us, attempts=0, next_attempt_us=None, exhausted_us=None
                )
            self._event(conn, "INCIDENT", row.id, row.node_name, "INCIDENT_ACKNOWLEDGE", by)

        await self._kit.store.write(work)
        self._kit.signals.changed()

    async def redeliver(self, seqs: Sequence[int] | None = None) -> int:
        """Send parked messages again; return how many."""
        now_us = self._now()
        count = await self._kit.store.write(
            lambda conn: outbox.redeliver(conn, now_us=now_us, seqs=seqs)
        )
        self._kit.signals.changed()
        return count

    async def refresh(self, cluster_id: ClusterId) -> None:
        """Evaluate a cluster's status again."""
        await self._kit.store.write(lambda conn: refresh_cluster(conn, cluster_id, self._now()))

    # --- shared --------------------------------------------------------------------------------

    def _now(self) -> int:
        return self._kit.clock.now_us()

    def _driver(self, kind: str) -> Profile:
        driver = self._kit.drivers.profiles.get(kind)
        if driver is None:
            known = ", ".join(sorted(self._kit.drivers.profiles)) or "none"
            hint = (
                " (local processes are off: start with --allow-local-process)"
                if kind.startswith("yaffle.local.process")
                else ""
            )
            raise Forbidden(f"profile type {kind!r} is not available here; known: {known}{hint}")
        return driver

    def _event(
        self,
        conn: Connection,
        otype: str,
        oid: str,
        oname: str,
        action: str,
        by: str,
        reason: str = "",
    ) -> None:
        events.append(
            conn,
            events.Subject(
                otype=otype,
                oid=oid,
                oname=oname,
                node_id=oid if otype == "NODE" else None,
                cluster_id=oid if otype == "CLUSTER" else "",
                user=by,
            ),
            at_us=self._now(),
            action=action,
            status="start",
            reason=reason or f"asked for by {by}",
            data={"by": by},
        )


def _named(name: str) -> str:
    if not 1 <= len(name) <= 255 or not name.isprintable() or name != name.strip():
        raise InvalidSpec(f"name: {name!r} must have 1 to 255 printable characters")
    return name


def _unique(conn: Connection, table: Table, name: str, word: str) -> None:
    if conn.execute(select(table.c.id).where(table.c.name == name).limit(1)).first():
        raise Conflict(f"{word} {name!r} exists already")


def _pause_target(conn: Connection, scope: PauseScope, target: str) -> str:
    match scope:
        case PauseScope.ALL:
            return ""
        case PauseScope.CLUSTER:
            return catalog.find_cluster(conn, target).id
        case PauseScope.NODE:
            return catalog.find_node(conn, target).id
