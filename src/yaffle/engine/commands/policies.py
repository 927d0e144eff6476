"""Commands on policies: parsed and validated with the drivers that are installed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from yaffle import policy as documents
from yaffle.engine.cluster_actions.policy_binding import fits
from yaffle.engine.commands.admin_guard import may_run
from yaffle.engine.commands.context import CommandContext, asker, named
from yaffle.errors import BadRequest, InvalidSpec, ResourceInUse
from yaffle.store import catalog
from yaffle.store.rows import PolicyRow

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from yaffle.model.authz import Principal
    from yaffle.policy import ParsedPolicy


class Policies:
    """Reads, creates, replaces and deletes policies."""

    def __init__(self, context: CommandContext) -> None:
        self._context = context

    def parse_text(self, text: str, *, source: str = "policy.yaml") -> ParsedPolicy:
        """Return the policy in a YAML text; raise InvalidSpec naming every fault and its place."""
        return documents.parse(text, source=source)

    def parse_document(self, document: object) -> ParsedPolicy:
        """Return the policy in a JSON document; raise InvalidSpec naming every fault."""
        return documents.parse_document(document)

    async def create_policy(
        self,
        name: str,
        parsed: ParsedPolicy,
        *,
        source: str = "",
        by: str = "",
        who: Principal | None = None,
        given: Mapping[str, object] | None = None,
    ) -> str:
        """Store a parsed policy document; return its id. `given`: as the user wrote it."""
        ident = self._context.ctx.new_id()
        asks = who or asker(by)
        may_run(asks, parsed)

        def work(conn: Connection) -> None:
            catalog.add(
                conn,
                PolicyRow,
                {
                    "id": ident,
                    "name": named(name),
                    "type": parsed.type_name,
                    "spec": parsed.document,
                    "given": None if given is None else dict(given),
                    "source": source,
                    "warnings": list(parsed.warnings),
                    "project": asks.project,
                    "user": asks.user,
                    "domain": asks.domain,
                    "created_us": self._context.now(),
                },
            )
            self._context.event(conn, "POLICY", ident, name, "POLICY_CREATE", asks)

        await self._context.ctx.store.write(work)
        return ident

    async def rename_policy(self, who: Principal, ident: str, *, name: str) -> str:
        """Give a policy another name; return its id. Documents are replaced by `update_policy`."""

        def work(conn: Connection) -> str:
            row = catalog.find_policy(conn, ident, who.scope)
            if row.name == name:
                raise BadRequest("No property needs an update.")
            now_us = max(self._context.now(), (row.updated_us or 0) + 1)
            catalog.change(conn, PolicyRow, row.id, name=named(name), updated_us=now_us)
            self._context.event(conn, "POLICY", row.id, name, "POLICY_UPDATE", who)
            return row.id

        return await self._context.ctx.store.write(work)

    async def update_policy(
        self, policy: str, parsed: ParsedPolicy, *, source: str, by: str | Principal
    ) -> None:
        """Replace a policy's document; running recoveries keep the one they began with."""
        who = asker(by)
        may_run(who, parsed)

        def work(conn: Connection) -> None:
            row = catalog.find_policy(conn, policy, who.scope)
            _same_type(row, parsed)
            now_us = self._context.now()
            for cluster_id in catalog.clusters_of_policy(conn, row.id):
                fits(self._context.ctx, conn, parsed, catalog.cluster(conn, cluster_id))
            catalog.change(
                conn,
                PolicyRow,
                row.id,
                spec=parsed.document,
                # What was given is shown where it is kept: the new document takes its place.
                given=None,
                source=source,
                warnings=list(parsed.warnings),
                type=parsed.type_name,
                # A stamp of its own even within one microsecond: watches compare it.
                updated_us=max(now_us, (row.updated_us or 0) + 1),
            )
            catalog.set_policy_type(conn, row.id, parsed.type_name)
            self._context.event(conn, "POLICY", row.id, row.name, "POLICY_UPDATE", who)

        await self._context.ctx.store.write(work)
        self._context.changed()

    async def delete_policy(
        self, policy: str, *, by: str = "", who: Principal | None = None
    ) -> None:
        """Delete a policy that no cluster uses."""
        asks = who or asker(by)

        def work(conn: Connection) -> None:
            row = catalog.find_policy(conn, policy, asks.scope)
            if catalog.clusters_of_policy(conn, row.id):
                raise ResourceInUse(
                    f"The policy '{policy}' cannot be deleted: still attached to some clusters.",
                    hint="detach it first",
                )
            catalog.remove(conn, PolicyRow, row.id)
            self._context.event(conn, "POLICY", row.id, row.name, "POLICY_DELETE", asks)

        await self._context.ctx.store.write(work)


def _same_type(row: PolicyRow, parsed: ParsedPolicy) -> None:
    """Refuse another type: clusters that have the policy would be left without what it was for."""
    kind = row.type.rpartition("-")[0]
    if kind != parsed.type:
        raise InvalidSpec(
            f"type: policy {row.name!r} is of type {kind} and stays so; create another policy"
            f" for {parsed.type}"
        )
