"""Bindings: which policy watches over which cluster; one health policy at most."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sqlalchemy import delete, insert, select, update

from yaffle.engine.commands.desk import Desk
from yaffle.errors import Conflict, InvalidSpec, NotFound
from yaffle.model.policy import ActionKind, HealthPolicy
from yaffle.policy import check_operations, parse_document
from yaffle.store import catalog
from yaffle.store.tables import bindings

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from yaffle.engine.kit import Drivers
    from yaffle.policy import ParsedPolicy
    from yaffle.store.records import ClusterRow

POLICY_PRIORITY = 600
SINGLETON = "senlin.policy.health"


class Bindings:
    """Attaches, switches and detaches policies."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def attach(self, cluster: str, policy: str, *, by: str, enabled: bool = True) -> None:
        """Bind a health policy to a cluster; the type is a singleton, the same policy a no-op."""

        def work(conn: Connection) -> None:
            found = catalog.find_cluster(conn, cluster)
            bind(self._desk, conn, found, policy, by=by, enabled=enabled)

        await self._desk.kit.store.write(work)
        self._desk.changed()

    async def set_policy_enabled(
        self, cluster: str, policy: str, *, enabled: bool, by: str
    ) -> None:
        """Switch a binding on or off."""
        await self._change(cluster, policy, by, "CLUSTER_UPDATE_POLICY", enabled)

    async def detach(self, cluster: str, policy: str, *, by: str) -> None:
        """Unbind a policy; recoveries that run go on with the policy they began with."""
        await self._change(cluster, policy, by, "CLUSTER_DETACH_POLICY", None)

    async def _change(
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
            self._desk.event(conn, "CLUSTER", found.id, found.name, action, by)

        await self._desk.kit.store.write(work)
        self._desk.changed()


def bind(
    desk: Desk, conn: Connection, cluster: ClusterRow, policy: str, *, by: str, enabled: bool
) -> None:
    """Insert a binding after checking that it fits; the part of a transaction."""
    row = catalog.find_policy(conn, policy)
    present = conn.execute(
        select(bindings.c.policy_id).where(
            bindings.c.cluster_id == cluster.id, bindings.c.policy_type.startswith(SINGLETON)
        )
    ).scalar_one_or_none()
    if present == row.id:
        return
    if present is not None:
        raise Conflict(f"cluster {cluster.name!r} has a health policy already; detach it first")
    fits(desk, conn, parse_document(row.spec), cluster)
    conn.execute(
        insert(bindings).values(
            id=desk.kit.new_id(),
            cluster_id=cluster.id,
            policy_id=row.id,
            policy_type=row.type,
            enabled=enabled,
            priority=POLICY_PRIORITY,
            created_us=desk.now(),
        )
    )
    desk.event(conn, "CLUSTER", cluster.id, cluster.name, "CLUSTER_ATTACH_POLICY", by)


def fits(desk: Desk, conn: Connection, parsed: ParsedPolicy, cluster: ClusterRow | None) -> None:
    """Refuse a policy that could not work here: an operation that the profile lacks, a missing driver.

    A binding without a working watch is impossible (contracts of the health policy, "nothing after
    attach"): what cannot be asked or done is said now and not found out at three in the morning.
    """
    policy = parsed.policy
    if cluster is None or not isinstance(policy, HealthPolicy):
        return
    profile = catalog.profile(conn, cluster.profile_id)
    driver = desk.driver(profile.type)
    lacking = check_operations(policy, driver.operations)
    problems = [*lacking, *missing_drivers(desk.kit.drivers, policy)]
    if policy.recovery.snapshot is not None and "SNAPSHOT" not in driver.operations:
        problems.append(f"recovery.snapshot: profile type {driver.type} cannot take snapshots")
    if problems:
        raise InvalidSpec(problems)


def missing_drivers(drivers: Drivers, policy: HealthPolicy) -> Iterator[str]:
    """Name what the policy needs of this engine and the engine does not have."""
    for place, mode in enumerate(policy.detection.modes):
        if mode.type not in drivers.detectors:
            yield (
                f"detection.detection_modes.{place}.type: {mode.type} is not available here;"
                f" installed: {', '.join(sorted(drivers.detectors))}"
            )
    for place, action in enumerate(policy.recovery.actions):
        where = f"recovery.actions.{place}"
        if action.kind is ActionKind.BUILTIN:
            continue
        driver = drivers.workflows.get(action.kind)
        if driver is None:
            yield f"{where}.type: no driver for {action.kind} workflows is installed here"
            continue
        try:
            driver.validate(action.name, action.params)
        except InvalidSpec as error:
            yield from (f"{where}: {problem}" for problem in error.problems)
    for place, kind in enumerate(policy.recovery.fencing):
        if kind not in drivers.fencers:
            yield (
                f"recovery.fencing.{place}: no {kind} fencer is installed here;"
                f" installed: {', '.join(sorted(drivers.fencers)) or 'none'}"
            )
