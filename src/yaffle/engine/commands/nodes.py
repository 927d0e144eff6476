"""Nodes: marks, recoveries that people ask for, and deletion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from yaffle.engine.commands.desk import Desk
from yaffle.engine.commands.removal import remove
from yaffle.errors import Conflict, InvalidSpec
from yaffle.policy.operations import NO_RECOVERY
from yaffle.store import actions, catalog

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from yaffle.model.ids import ActionId
    from yaffle.store.records import NodeRow


class Nodes:
    """Marks, recovers and deletes nodes."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def delete_node(self, node: str, *, by: str) -> None:
        """Delete one node; the cluster's desired capacity shrinks with it."""

        def work(conn: Connection) -> None:
            row = catalog.find_node(conn, node)
            now_us = self._desk.now()
            # Asked for twice, it is one node less, not two.
            if not remove(self._desk, conn, row, by, now_us):
                return
            cluster = catalog.cluster(conn, row.cluster_id) if row.cluster_id else None
            if cluster is not None:
                capacity = max(0, cluster.desired_capacity - 1)
                catalog.set_cluster(conn, cluster.id, now_us, desired_capacity=capacity)
            self._desk.event(conn, "NODE", row.id, row.name, "NODE_DELETE", by)

        await self._desk.kit.store.write(work)
        self._desk.changed()

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
            now_us = self._desk.now()
            ident = self._desk.job(
                conn, "NODE_RECOVER", row.id, row.cluster_id, by, now_us, locked=True
            )
            actions.set_values(conn, ident, now_us, status=actions.WAITING, inputs=inputs)
            self._desk.event(conn, "NODE", row.id, row.name, "NODE_RECOVER", by)
            return ident

        ident = await self._desk.kit.store.write(work)
        self._desk.changed()
        return ident

    def _knows(
        self, conn: Connection, node: NodeRow, operation: str, params: Mapping[str, object]
    ) -> None:
        driver = self._desk.driver(catalog.profile(conn, node.profile_id).type)
        known = {*driver.operations, "RECREATE"} - NO_RECOVERY
        name = operation.upper()
        if name in NO_RECOVERY:
            raise InvalidSpec(
                f"operation {operation!r} recovers nothing; known: {', '.join(sorted(known))}"
            )
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
            now_us = self._desk.now()
            catalog.set_node(
                conn, row.id, now_us, mark_reason=reason[:1000], mark_by=by, mark_us=now_us
            )
            self._desk.event(conn, "NODE", row.id, row.name, "NODE_MARK_UNHEALTHY", by, reason)

        await self._desk.kit.store.write(work)
        self._desk.changed()

    async def unmark(self, node: str, *, reason: str, by: str) -> None:
        """Lift a user's mark; what the checks say counts again. Without one nothing happens."""

        def work(conn: Connection) -> None:
            row = catalog.find_node(conn, node)
            if row.mark_reason is None:
                return
            now_us = self._desk.now()
            catalog.set_node(conn, row.id, now_us, mark_reason=None, mark_by="", mark_us=None)
            self._desk.event(conn, "NODE", row.id, row.name, "NODE_MARK_HEALTHY", by, reason)

        await self._desk.kit.store.write(work)
        self._desk.changed()
