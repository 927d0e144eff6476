"""Commands on nodes: create, update, check, operate, delete."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from yaffle.core.scaling import sizes
from yaffle.engine.cluster_actions import (
    bound_policies,
    capacity_compensation,
    conflicts,
    request_validation,
)
from yaffle.engine.cluster_actions.children import node_name
from yaffle.engine.cluster_actions.enqueue import queue
from yaffle.engine.cluster_actions.member_removal import deletion_of, remove
from yaffle.engine.commands.context import CommandContext, existing_profile, named
from yaffle.engine.steps.node_action_plan import IN_DOUBT, NEW_PROFILE
from yaffle.errors import ActionInProgress, BadRequest, NotFound, ResourceIsLocked
from yaffle.model.action import ActionKind
from yaffle.model.authz import Right, need
from yaffle.model.health import ClusterStatus, NodeStatus
from yaffle.model.ids import NodeId
from yaffle.store import actions, catalog, events, lock_owners
from yaffle.store.rows import NodeRow

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from yaffle.model.authz import Principal
    from yaffle.model.ids import ActionId
    from yaffle.store.rows import ClusterRow, ProfileRow

IN_PROGRESS: Final = frozenset(
    {
        NodeStatus.CREATING.value,
        NodeStatus.UPDATING.value,
        NodeStatus.DELETING.value,
        NodeStatus.RECOVERING.value,
    }
)
NOTHING: Final = "No property needs an update."


class Nodes:
    """Commands on single nodes, in and out of clusters."""

    def __init__(self, context: CommandContext) -> None:
        self._context = context
        self._ctx = context.ctx

    # --- create ---------------------------------------------------------------------------------

    async def node_create(
        self,
        who: Principal,
        *,
        name: str,
        profile: str,
        cluster: str | None = None,
        role: str = "",
        metadata: Mapping[str, object] | None = None,
    ) -> tuple[NodeId, ActionId]:
        """Create a node, alone or as a member; a member's name is made from its cluster's format."""
        need(who, Right.WRITE)
        ident = NodeId(self._ctx.new_id())

        def work(conn: Connection) -> ActionId:
            row = existing_profile(conn, profile, who)
            self._context.driver(row.type)
            home = self._home(conn, cluster, who, row) if cluster else None
            now_us = self._context.now()
            values: dict[str, object] = {
                "id": ident,
                "name": named(name),
                "profile_id": row.id,
                "role": role,
                "metadata": dict(metadata or {}),
                "status_reason": "Initializing",
                "project": who.project,
                "user": who.user,
                "domain": who.domain,
                "init_us": now_us,
                "created_us": now_us,
            }
            if home is not None:
                values |= self._join(conn, home, now_us)
            catalog.add(conn, NodeRow, values)
            made = catalog.node(conn, ident)
            assert made is not None  # noqa: S101 - inserted a line above
            return self._queue(conn, who, made, ActionKind.NODE_CREATE)

        return ident, await self._asked(work)

    def _home(
        self, conn: Connection, cluster: str, who: Principal, profile: ProfileRow
    ) -> ClusterRow:
        """Return the cluster that a new node goes to; raise where it cannot."""
        try:
            home = catalog.find_cluster(conn, cluster, who.scope)
        except NotFound as error:
            raise BadRequest(
                f"The specified cluster '{cluster}' could not be found.", hint=error.hint
            ) from None
        if catalog.profile(conn, home.profile_id).type != profile.type:
            raise BadRequest("Node and cluster have different profile type, operation aborted.")
        holder = lock_owners.lock_holder(conn, NodeId(home.id))
        if home.status == ClusterStatus.DELETING:
            raise BadRequest(f"The specified cluster '{cluster}' is being deleted.")
        if holder is not None and holder.action == ActionKind.CLUSTER_DELETE:
            raise ResourceIsLocked(
                f"NODE_CREATE for cluster '{home.id}' cannot be completed because it is already"
                " locked.",
                hint=f"the cluster is being deleted by action {holder.id}",
            )
        _resized(home, home.desired_capacity + 1)
        return home

    def _join(self, conn: Connection, home: ClusterRow, now_us: int) -> dict[str, object]:
        catalog.set_cluster(
            conn,
            home.id,
            now_us,
            desired_capacity=home.desired_capacity + 1,
            next_index=home.next_index + 1,
        )
        return {
            "name": node_name(self._ctx, home, home.next_index),
            "cluster_id": home.id,
            "index": home.next_index,
            "project": home.project,
            "domain": home.domain,
        }

    # --- update ---------------------------------------------------------------------------------

    async def node_update(
        self,
        who: Principal,
        ident: str,
        *,
        name: str | None = None,
        profile: str | None = None,
        role: str | None = None,
        metadata: Mapping[str, object] | None = None,
        tainted: bool | None = None,
    ) -> ActionId:
        """Change a node. Words about it are changed at once; another profile takes its time."""
        need(who, Right.WRITE)
        said: dict[str, object] = {
            "name": None if name is None else named(name),
            "role": role,
            "metadata": None if metadata is None else dict(metadata),
            "tainted": tainted,
        }

        def work(conn: Connection) -> ActionId:
            row = catalog.find_node(conn, ident, who.scope)
            words = {k: v for k, v in said.items() if v is not None and getattr(row, k) != v}
            new = None if profile is None else self._new_profile(conn, row, profile, who)
            if not words and new is None:
                raise BadRequest(NOTHING)
            conflicts.check(conn, ActionKind.NODE_UPDATE, "node", row.id)
            now_us = self._context.now()
            if words:
                catalog.set_node(conn, row.id, now_us, **words)
            inputs = words if new is None else {**words, NEW_PROFILE: new.id}
            alone_s = int(self._ctx.settings.update_timeout)
            action = self._queue(conn, who, row, ActionKind.NODE_UPDATE, inputs, alone_s=alone_s)
            if new is None:
                _done(conn, action, now_us)
            return action

        return await self._asked(work)

    def _new_profile(
        self, conn: Connection, row: NodeRow, profile: str, who: Principal
    ) -> ProfileRow | None:
        """Return the profile that the node is to get; None where it is certain to have it already."""
        new = existing_profile(conn, profile, who)
        if new.id == row.profile_id and IN_DOUBT not in row.attributes:
            return None
        if new.type != catalog.profile(conn, row.profile_id).type:
            raise BadRequest("Cannot update a node to a different profile type, operation aborted.")
        return new

    # --- check and operations -------------------------------------------------------------------

    async def node_check(
        self, who: Principal, ident: str, params: Mapping[str, object] | None = None
    ) -> ActionId:
        """Have a node looked at once; the answer is its status."""
        need(who, Right.WRITE)

        def work(conn: Connection) -> ActionId:
            row = catalog.find_node(conn, ident, who.scope)
            conflicts.check(conn, ActionKind.NODE_CHECK, "node", row.id)
            return self._queue(conn, who, row, ActionKind.NODE_CHECK, dict(params or {}))

        return await self._asked(work)

    async def node_op(
        self, who: Principal, ident: str, operation: str, params: Mapping[str, object] | None = None
    ) -> ActionId:
        """Have a node do one operation of its profile, after whatever holds it now."""
        need(who, Right.WRITE)

        def work(conn: Connection) -> ActionId:
            row = catalog.find_node(conn, ident, who.scope)
            driver = self._context.driver(catalog.profile(conn, row.profile_id).type)
            inputs = request_validation.operation(driver, operation, dict(params or {}))
            conflicts.check(conn, ActionKind.NODE_OPERATION, "node", row.id)
            return self._queue(conn, who, row, ActionKind.NODE_OPERATION, inputs)

        return await self._asked(work)

    # --- delete ---------------------------------------------------------------------------------

    async def node_delete(self, who: Principal, ident: str, *, force: bool = False) -> ActionId:
        """Delete a node; its cluster wants one less from now on, unless a deletion policy says no."""
        need(who, Right.WRITE)

        def work(conn: Connection) -> ActionId:
            return self._delete(conn, who, catalog.find_node(conn, ident, who.scope), force=force)

        return await self._asked(work)

    def _delete(self, conn: Connection, who: Principal, row: NodeRow, *, force: bool) -> ActionId:
        if not force and row.status in IN_PROGRESS:
            raise ActionInProgress(
                f"The node '{row.id}' is in status {row.status}.",
                hint="wait for its end, or use force",
            )
        now_us = self._context.now()
        present = deletion_of(conn, row)
        home = catalog.cluster(conn, row.cluster_id) if row.cluster_id else None
        hook, reduced = None, False
        # Asked for twice, it is one node less, not two.
        if home is not None and present is None:
            policy = bound_policies.deletion(conn, home.id)
            hook = None if policy is None else policy.hook
            if policy is None or policy.reduce_desired_capacity:
                fewer = max(0, home.desired_capacity - 1)
                _resized(home, fewer)
                catalog.set_cluster(conn, home.id, now_us, desired_capacity=fewer)
                reduced = True
        self._event(conn, who, row, ActionKind.NODE_DELETE)
        return remove(
            self._ctx,
            conn,
            row,
            who=who,
            now_us=now_us,
            timeout_s=None if home is None else home.timeout_s,
            inputs=capacity_compensation.fewer(reduced=reduced),
            hook=hook,
        )

    # --- marks ----------------------------------------------------------------------------------

    async def node_mark(self, who: Principal, ident: str, *, reason: str) -> None:
        """Mark a node unhealthy; no check erases the mark. ResourceIsLocked while it is acted upon."""
        need(who, Right.WRITE)

        def work(conn: Connection) -> None:
            row = catalog.find_node(conn, ident, who.scope)
            holder = lock_owners.lock_holder(conn, row.id)
            if holder is not None and holder.status in actions.ACTIVE:
                # As Heat answers a mark while the resource is locked (seed 5).
                raise ResourceIsLocked(
                    f"node {row.name!r} is busy with {holder.action}; mark it afterwards"
                )
            now_us = self._context.now()
            catalog.set_node(
                conn, row.id, now_us, mark_reason=reason[:1000], mark_by=who.user, mark_us=now_us
            )
            self._event(conn, who, row, "NODE_MARK_UNHEALTHY", reason)

        await self._ctx.store.write(work)
        self._context.changed()

    async def node_unmark(self, who: Principal, ident: str, *, reason: str) -> None:
        """Lift a user's mark; what the checks say counts again. Without one nothing happens."""
        need(who, Right.WRITE)

        def work(conn: Connection) -> None:
            row = catalog.find_node(conn, ident, who.scope)
            if row.mark_reason is None:
                return
            catalog.set_node(
                conn, row.id, self._context.now(), mark_reason=None, mark_by="", mark_us=None
            )
            self._event(conn, who, row, "NODE_MARK_HEALTHY", reason)

        await self._ctx.store.write(work)
        self._context.changed()

    # --- rows -----------------------------------------------------------------------------------

    def _queue(
        self,
        conn: Connection,
        who: Principal,
        row: NodeRow,
        action: str,
        inputs: Mapping[str, object] | None = None,
        *,
        alone_s: int | None = None,
    ) -> ActionId:
        """Insert an action on a node, ready or behind whatever holds the node, with its event.

        It may take as long as the node's cluster says; `alone_s` where it is in none.
        """
        home = catalog.cluster(conn, row.cluster_id) if row.cluster_id else None
        free = lock_owners.lock_holder(conn, row.id) is None
        self._event(conn, who, row, action)
        return queue(
            self._ctx,
            conn,
            action=action,
            who=replace(who, project=row.project, domain=row.domain),
            target=row.id,
            cluster_id=row.cluster_id,
            node_id=row.id,
            inputs=inputs,
            timeout_s=alone_s if home is None else home.timeout_s,
            status=actions.READY if free else actions.WAITING,
            lock_key=row.id if free else None,
        )

    def _event(
        self, conn: Connection, who: Principal, row: NodeRow, action: str, reason: str = ""
    ) -> None:
        tell(conn, who, row, action, self._context.now(), reason)

    async def _asked(self, work: Callable[[Connection], ActionId]) -> ActionId:
        action = await self._ctx.store.write(work)
        self._context.changed()
        return action


def tell(
    conn: Connection, who: Principal, row: NodeRow, action: str, now_us: int, reason: str = ""
) -> None:
    """Record what was asked of a node, by whom and why."""
    events.append(
        conn,
        events.Subject(
            otype="NODE",
            oid=row.id,
            oname=row.name,
            node_id=row.id,
            cluster_id=row.cluster_id or "",
            project=row.project,
            user=who.user,
            domain=who.domain,
        ),
        at_us=now_us,
        action=action,
        status="start",
        reason=reason or f"requested by {who.user}",
        data={"by": who.user},
    )


def _resized(home: ClusterRow, desired: int) -> None:
    """Raise BadRequest if the cluster may not want so many nodes."""
    now = sizes.Sizes(desired=home.desired_capacity, min_size=home.min_size, max_size=home.max_size)
    fault = sizes.check(now, desired=desired)
    if fault is not None:
        raise BadRequest(fault.text)


def _done(conn: Connection, action: ActionId, now_us: int) -> None:
    """End an action that was words only, in the transaction that asked for it."""
    actions.set_values(conn, action, now_us, start_us=now_us)
    actions.end(
        conn,
        action,
        now_us,
        status=actions.SUCCEEDED,
        reason="Action completed successfully.",
        outputs={},
    )
