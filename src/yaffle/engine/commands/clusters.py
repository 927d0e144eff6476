"""Commands on clusters: create, update, delete, and everything of `POST clusters/ID/actions`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from yaffle.core.scaling import node_names, sizes
from yaffle.engine.cluster_actions import lifecycle_hooks, policy_binding, request_validation
from yaffle.engine.cluster_actions.sizing import accepted
from yaffle.engine.cluster_actions.table import VERBS
from yaffle.engine.cluster_actions.transitions import begin
from yaffle.engine.commands.context import CommandContext, existing_profile, named
from yaffle.errors import (
    ActionInProgress,
    BadRequest,
    FeatureNotSupported,
    InvalidSpec,
    NotFound,
    OverQuota,
)
from yaffle.model.action import ActionKind
from yaffle.model.authz import need_for_recovery
from yaffle.model.health import ClusterStatus
from yaffle.model.ids import ClusterId
from yaffle.store import catalog
from yaffle.store.rows import ClusterRow

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from yaffle.model.authz import Principal
    from yaffle.model.ids import ActionId
    from yaffle.ports import Profile

TIMEOUT_S: Final = 3600
IN_PROGRESS: Final = frozenset(
    {
        ClusterStatus.CREATING,
        ClusterStatus.UPDATING,
        ClusterStatus.DELETING,
        ClusterStatus.RECOVERING,
    }
)
"""States in which only `force` deletes a cluster."""


class Clusters:
    """The verbs of clusters; each is one transaction."""

    def __init__(self, context: CommandContext) -> None:
        self._context = context

    async def cluster_create(  # noqa: PLR0913 - what the API's body may hold
        self,
        who: Principal,
        *,
        name: str,
        profile: str,
        desired_capacity: int | None = None,
        min_size: int | None = None,
        max_size: int | None = None,
        timeout: int | None = None,
        metadata: Mapping[str, object] | None = None,
        config: Mapping[str, object] | None = None,
        policy: str | None = None,
    ) -> tuple[ClusterId, ActionId]:
        """Create a cluster; its nodes are being built when this returns.

        `timeout` in s. `policy`: attached in the same transaction.
        """
        ident = ClusterId(self._context.ctx.new_id())
        quotas = self._context.ctx.quotas
        wanted = accepted(sizes.initial(desired_capacity, min_size, max_size, ceiling=quotas.nodes))
        _check_config(config or {})

        def work(conn: Connection) -> ActionId:
            self._within_quota(conn, who)
            row = existing_profile(conn, profile, who)
            self._context.driver(row.type)
            now_us = self._context.now()
            catalog.add(
                conn,
                ClusterRow,
                {
                    "id": ident,
                    "name": named(name),
                    "profile_id": row.id,
                    "desired_capacity": wanted.desired,
                    "min_size": wanted.min_size,
                    "max_size": wanted.max_size,
                    "timeout_s": TIMEOUT_S if timeout is None else timeout,
                    "metadata": dict(metadata or {}),
                    "config": dict(config or {}),
                    "status": ClusterStatus.INIT.value,
                    "status_reason": "Initializing",
                    "project": who.project,
                    "user": who.user,
                    "domain": who.domain,
                    "init_us": now_us,
                    "created_us": now_us,
                },
            )
            if policy is not None:
                self._bind(conn, ident, policy, who)
            return self._begin(conn, who, ident, ActionKind.CLUSTER_CREATE, {})

        action = await self._context.ctx.store.write(work)
        self._context.changed()
        return ident, action

    async def cluster_update(
        self,
        who: Principal,
        ident: str,
        *,
        name: str | None = None,
        profile: str | None = None,
        metadata: Mapping[str, object] | None = None,
        timeout: int | None = None,
        profile_only: bool | None = None,
        config: Mapping[str, object] | None = None,
    ) -> ActionId:
        """Change a cluster; a new profile replaces node after node unless `profile_only`."""
        said: dict[str, object] = {
            "name": None if name is None else named(name),
            "metadata": None if metadata is None else dict(metadata),
            "timeout_s": timeout,
            "config": None if config is None else dict(config),
        }
        _check_config(config or {})

        def work(conn: Connection) -> ActionId:
            row = catalog.find_cluster(conn, ident, who.scope)
            inputs = {k: v for k, v in said.items() if v is not None and getattr(row, k) != v}
            if profile is not None:
                inputs |= self._new_profile(conn, row, profile, who)
            if not inputs:
                raise BadRequest("No property needs an update.")
            if row.status == ClusterStatus.ERROR:
                raise FeatureNotSupported(
                    f"Updating a cluster in error state is not supported: {row.id}."
                )
            if "profile_id" in inputs:
                inputs["profile_only"] = bool(profile_only)
            return self._begin(conn, who, row.id, ActionKind.CLUSTER_UPDATE, inputs)

        return await self._asked(work)

    def _new_profile(
        self, conn: Connection, row: ClusterRow, profile: str, who: Principal
    ) -> dict[str, object]:
        new = existing_profile(conn, profile, who)
        old = catalog.profile(conn, row.profile_id)
        if new.type != old.type:
            raise BadRequest(
                "Cannot update a cluster to a different profile type, operation aborted."
            )
        # A roll-out that stopped half-way is taken up again by asking for the same profile.
        others = any(n.profile_id != new.id for n in catalog.nodes_of(conn, row.id))
        return {"profile_id": new.id} if new.id != old.id or others else {}

    async def cluster_delete(self, who: Principal, ident: str, *, force: bool = False) -> ActionId:
        """Delete a cluster with all its nodes; running recoveries stop at their next step."""

        def work(conn: Connection) -> ActionId:
            row = catalog.find_cluster(conn, ident, who.scope)
            if not force and row.status in IN_PROGRESS:
                raise ActionInProgress(
                    f"The cluster '{ident}' is in status {row.status}.",
                    hint="wait for its end, or use force",
                )
            return self._begin(conn, who, row.id, ActionKind.CLUSTER_DELETE, {})

        return await self._asked(work)

    async def cluster_act(
        self, who: Principal, ident: str, verb: str, data: Mapping[str, object]
    ) -> ActionId:
        """Do what a key of `POST clusters/ID/actions` says; `data` has passed its schema."""
        if verb != "complete_lifecycle" and verb not in VERBS:
            raise BadRequest(f"Unrecognized action '{verb}' specified")

        def work(conn: Connection) -> ActionId:
            row = catalog.find_cluster(conn, ident, who.scope)
            if verb == "complete_lifecycle":
                token = str(data.get("lifecycle_action_token", ""))
                return lifecycle_hooks.complete(conn, row.id, token, self._context.now())
            action = VERBS[verb]
            inputs = {k: v for k, v in data.items() if v is not None}
            if "policy_id" in inputs:
                inputs["policy_id"] = self._policy_id(conn, who, str(inputs["policy_id"]))
            if action == ActionKind.CLUSTER_RECOVER:
                need_for_recovery(who, inputs)
                driver = self._driver_of(conn, row)
                inputs = request_validation.recovery(
                    who, driver, inputs, request_validation.CLUSTER_WORDS
                )
            return self._begin(conn, who, row.id, action, inputs)

        return await self._asked(work)

    def _policy_id(self, conn: Connection, who: Principal, word: str) -> str:
        """Return the id of a policy that exists; what does not is the job's to refuse."""
        try:
            return catalog.find_policy(conn, word, who.scope).id
        except NotFound:
            return word

    async def cluster_op(
        self,
        who: Principal,
        ident: str,
        operation: str,
        filters: Mapping[str, object],
        params: Mapping[str, object],
    ) -> ActionId:
        """Have every member that matches do one operation of its profile."""

        def work(conn: Connection) -> ActionId:
            row = catalog.find_cluster(conn, ident, who.scope)
            known = request_validation.operation(self._driver_of(conn, row), operation, params)
            inputs = {**known, "filters": dict(filters)}
            return self._begin(conn, who, row.id, ActionKind.CLUSTER_OPERATION, inputs)

        return await self._asked(work)

    async def _asked(self, work: Callable[[Connection], ActionId]) -> ActionId:
        action = await self._context.ctx.store.write(work)
        self._context.changed()
        return action

    def _begin(
        self,
        conn: Connection,
        who: Principal,
        ident: str,
        action: str,
        inputs: Mapping[str, object],
    ) -> ActionId:
        row = catalog.find_cluster(conn, ident)
        return begin(self._context.ctx, conn, who, row, action, inputs)

    def _driver_of(self, conn: Connection, row: ClusterRow) -> Profile:
        return self._context.driver(catalog.profile(conn, row.profile_id).type)

    def _bind(self, conn: Connection, ident: ClusterId, policy: str, who: Principal) -> None:
        row = catalog.find_policy(conn, policy, who.scope)
        policy_binding.bind(
            self._context.ctx, conn, catalog.find_cluster(conn, ident), row, enabled=True
        )

    def _within_quota(self, conn: Connection, who: Principal) -> None:
        most = self._context.ctx.quotas.clusters
        if catalog.count_clusters(conn, who.project) >= most:
            raise OverQuota(
                f"Quota exceeded: a project may have {most} clusters.",
                hint="delete one, or raise quotas.clusters",
            )


def _check_config(config: Mapping[str, object]) -> None:
    fmt = config.get(node_names.KEY)
    fault = None if fmt is None else node_names.fault(str(fmt))
    if fault is not None:
        raise InvalidSpec(f"config.{fault}")
