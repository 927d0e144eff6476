"""Clusters: created with all their nodes, policy included, and deleted with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yaffle.engine.commands.bindings import bind
from yaffle.engine.commands.desk import Desk, named, unique
from yaffle.engine.commands.removal import remove
from yaffle.engine.saving import refresh_cluster
from yaffle.errors import InvalidSpec
from yaffle.model.ids import ClusterId, NodeId
from yaffle.store import catalog
from yaffle.store.tables import clusters, nodes

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from yaffle.store.records import ProfileRow

MAX_NODES = 1000


class Clusters:
    """Creates and deletes clusters."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def create_cluster(
        self, name: str, profile: str, size: int, *, by: str, policy: str | None = None
    ) -> ClusterId:
        """Create a cluster with `size` nodes; the engine builds them. Return its id."""
        if not 0 <= size <= MAX_NODES:
            raise InvalidSpec(f"size: {size} is not between 0 and {MAX_NODES}")
        ident = ClusterId(self._desk.kit.new_id())

        def work(conn: Connection) -> None:
            self._create(conn, ident, name, profile, size, by)
            if policy is not None:
                cluster = catalog.find_cluster(conn, ident)
                bind(self._desk, conn, cluster, policy, by=by, enabled=True)

        await self._desk.kit.store.write(work)
        self._desk.changed()
        return ident

    def _create(
        self, conn: Connection, ident: ClusterId, name: str, profile: str, size: int, by: str
    ) -> None:
        unique(conn, clusters, name, "cluster")
        row = catalog.find_profile(conn, profile)
        self._desk.driver(row.type)
        now_us = self._desk.now()
        catalog.add(
            conn,
            clusters,
            {
                "id": ident,
                "name": named(name),
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
        self._desk.event(conn, "CLUSTER", ident, name, "CLUSTER_CREATE", by)

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
        ident = NodeId(self._desk.kit.new_id())
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
        self._desk.job(conn, "NODE_CREATE", ident, cluster_id, by, now_us, locked=True)

    async def delete_cluster(self, cluster: str, *, by: str) -> None:
        """Delete a cluster with all its nodes; running recoveries stop at their next step."""

        def work(conn: Connection) -> None:
            found = catalog.find_cluster(conn, cluster)
            now_us = self._desk.now()
            members = catalog.nodes_of(conn, found.id)
            catalog.set_cluster(
                conn, found.id, now_us, status="DELETING", status_reason=f"asked for by {by}"
            )
            for node in members:
                remove(self._desk, conn, node, by, now_us)
            if not members:
                catalog.remove_cluster(conn, found.id)
            self._desk.event(conn, "CLUSTER", found.id, found.name, "CLUSTER_DELETE", by)

        await self._desk.kit.store.write(work)
        self._desk.changed()

    async def refresh(self, cluster_id: ClusterId) -> None:
        """Evaluate a cluster's status again."""
        await self._desk.kit.store.write(
            lambda conn: refresh_cluster(conn, cluster_id, self._desk.now())
        )
