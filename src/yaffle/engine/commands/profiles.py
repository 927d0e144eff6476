"""Commands on profiles: validated by their drivers before they are stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from yaffle.engine.commands.admin_guard import may_build
from yaffle.engine.commands.context import CommandContext, asker, named
from yaffle.engine.steps.node_action_plan import is_coming
from yaffle.errors import BadRequest, ResourceInUse
from yaffle.store import catalog
from yaffle.store.rows import ProfileRow

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from yaffle.model.authz import Principal


class Profiles:
    """Creates, renames and deletes profiles; what they build never changes."""

    def __init__(self, context: CommandContext) -> None:
        self._context = context

    def validated(self, kind: str, spec: Mapping[str, object]) -> dict[str, object]:
        """Return the properties with defaults; raise InvalidSpec naming every fault."""
        return dict(self._context.driver(kind).validate(spec))

    async def create_profile(
        self,
        name: str,
        kind: str,
        spec: Mapping[str, object],
        *,
        by: str = "",
        who: Principal | None = None,
        given: Mapping[str, object] | None = None,
        metadata: Mapping[str, object] | None = None,
    ) -> str:
        """Store a profile after its driver has validated the properties; return its id.

        `given`: the whole spec as the user wrote it.
        """
        asks = who or asker(by)
        may_build(asks, kind)
        validated = self.validated(kind, spec)
        ident = self._context.ctx.new_id()

        def work(conn: Connection) -> None:
            catalog.add(
                conn,
                ProfileRow,
                {
                    "id": ident,
                    "name": named(name),
                    "type": kind,
                    "spec": validated,
                    "given": None if given is None else dict(given),
                    "metadata": dict(metadata or {}),
                    "project": asks.project,
                    "user": asks.user,
                    "domain": asks.domain,
                    "created_us": self._context.now(),
                },
            )
            self._context.event(conn, "PROFILE", ident, name, "PROFILE_CREATE", asks)

        await self._context.ctx.store.write(work)
        return ident

    async def update_profile(
        self,
        who: Principal,
        ident: str,
        *,
        name: str | None = None,
        metadata: Mapping[str, object] | None = None,
    ) -> str:
        """Change what a profile is called and what is noted about it; return its id."""
        said = {"name": name, "metadata": None if metadata is None else dict(metadata)}

        def work(conn: Connection) -> str:
            row = catalog.find_profile(conn, ident, who.scope)
            values = {k: v for k, v in said.items() if v is not None and getattr(row, k) != v}
            if not values:
                raise BadRequest("No property needs an update.")
            if name is not None:
                named(name)
            catalog.change(conn, ProfileRow, row.id, **values, updated_us=self._context.now())
            self._context.event(conn, "PROFILE", row.id, row.name, "PROFILE_UPDATE", who)
            return row.id

        return await self._context.ctx.store.write(work)

    async def delete_profile(
        self, profile: str, *, by: str = "", who: Principal | None = None
    ) -> None:
        """Delete a profile that no node or cluster uses."""
        asks = who or asker(by)

        def work(conn: Connection) -> None:
            row = catalog.find_profile(conn, profile, asks.scope)
            user = catalog.user_of_profile(conn, row.id)
            if user or is_coming(conn, row.id):
                raise ResourceInUse(
                    f"The profile '{profile}' cannot be deleted: still referenced by some"
                    " clusters and/or nodes.",
                    hint=f"a {user} uses it" if user else "a node is being given it",
                )
            catalog.remove(conn, ProfileRow, row.id)
            self._context.event(conn, "PROFILE", row.id, row.name, "PROFILE_DELETE", asks)

        await self._context.ctx.store.write(work)
