"""Profiles: how nodes are built, validated by their drivers before anything is stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sqlalchemy import delete, select

from yaffle.engine.commands.desk import Desk, named, unique
from yaffle.errors import Conflict
from yaffle.store import catalog
from yaffle.store.tables import clusters, nodes, profiles

if TYPE_CHECKING:
    from sqlalchemy import Connection


class Profiles:
    """Creates and deletes profiles."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def create_profile(
        self, name: str, kind: str, spec: Mapping[str, object], *, by: str
    ) -> str:
        """Store a profile after its driver has validated the properties; return its id."""
        driver = self._desk.driver(kind)
        validated = dict(driver.validate(spec))
        ident = self._desk.kit.new_id()

        def work(conn: Connection) -> None:
            unique(conn, profiles, name, "profile")
            catalog.add(
                conn,
                profiles,
                {
                    "id": ident,
                    "name": named(name),
                    "type": kind,
                    "spec": validated,
                    "user": by,
                    "created_us": self._desk.now(),
                },
            )
            self._desk.event(conn, "PROFILE", ident, name, "PROFILE_CREATE", by)

        await self._desk.kit.store.write(work)
        return ident

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
            self._desk.event(conn, "PROFILE", row.id, row.name, "PROFILE_DELETE", by)

        await self._desk.kit.store.write(work)
