"""Policies: documents read and judged with the drivers that are installed here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import delete, func, select, update

from yaffle import policy as documents
from yaffle.engine.commands.bindings import fits
from yaffle.engine.commands.desk import Desk, named, unique
from yaffle.errors import Conflict
from yaffle.store import catalog
from yaffle.store.tables import bindings, policies

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from yaffle.policy import ParsedPolicy


class Policies:
    """Reads, creates, replaces and deletes policies."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def parse_text(self, text: str, *, source: str = "policy.yaml") -> ParsedPolicy:
        """Return the policy in a YAML text; raise InvalidSpec naming every fault and its place."""
        return documents.parse(text, source=source)

    def parse_document(self, document: object) -> ParsedPolicy:
        """Return the policy in a JSON document; raise InvalidSpec naming every fault."""
        return documents.parse_document(document)

    async def create_policy(self, name: str, parsed: ParsedPolicy, *, source: str, by: str) -> str:
        """Store a parsed policy document; return its id."""
        ident = self._desk.kit.new_id()

        def work(conn: Connection) -> None:
            unique(conn, policies, name, "policy")
            catalog.add(
                conn,
                policies,
                {
                    "id": ident,
                    "name": named(name),
                    "type": parsed.type_name,
                    "spec": parsed.document,
                    "source": source,
                    "warnings": list(parsed.warnings),
                    "user": by,
                    "created_us": self._desk.now(),
                },
            )
            self._desk.event(conn, "POLICY", ident, name, "POLICY_CREATE", by)

        await self._desk.kit.store.write(work)
        return ident

    async def update_policy(
        self, policy: str, parsed: ParsedPolicy, *, source: str, by: str
    ) -> None:
        """Replace a policy's document; running recoveries keep the one they began with."""

        def work(conn: Connection) -> None:
            row = catalog.find_policy(conn, policy)
            now_us = self._desk.now()
            for cluster_id in conn.execute(
                select(bindings.c.cluster_id).where(bindings.c.policy_id == row.id)
            ).scalars():
                fits(self._desk, conn, parsed, catalog.cluster(conn, cluster_id))
            conn.execute(
                update(policies)
                .where(policies.c.id == row.id)
                .values(
                    spec=parsed.document,
                    source=source,
                    warnings=list(parsed.warnings),
                    type=parsed.type_name,
                    # A stamp of its own even within one microsecond: watches compare it.
                    updated_us=max(now_us, (row.updated_us or 0) + 1),
                )
            )
            self._desk.event(conn, "POLICY", row.id, row.name, "POLICY_UPDATE", by)

        await self._desk.kit.store.write(work)
        self._desk.changed()

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
            self._desk.event(conn, "POLICY", row.id, row.name, "POLICY_DELETE", by)

        await self._desk.kit.store.write(work)
