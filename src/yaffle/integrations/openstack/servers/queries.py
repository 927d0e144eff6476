"""Queries of Nova about servers, their acts and its hosts; they raise as `Client` does."""

from __future__ import annotations

from typing import Final

import msgspec

from yaffle.errors import Forbidden, NotFound
from yaffle.integrations.openstack.client import Client
from yaffle.integrations.openstack.servers.documents import (
    Action,
    ActionDocument,
    Actions,
    Listed,
    ServerPage,
    Service,
    Services,
)

COMPUTE: Final = "compute"
READ: Final = "2.73"
"""From 2.69 on a cell that is down is told (UNKNOWN), where it was left out before."""
PAGE: Final = 1000


class _ListedDocument(msgspec.Struct, frozen=True, kw_only=True):
    server: Listed


class Servers:
    """Used in one thread, then thrown away."""

    def __init__(self, client: Client, *, all_projects: bool = False) -> None:
        self.client = client
        self._scope: dict[str, str | int] = {"all_tenants": 1} if all_projects else {}

    def show(self, ident: str) -> Listed | None:
        """Return the server; None when Nova itself says that there is none."""
        try:
            answer = self.client.get(COMPUTE, f"/servers/{ident}", version=READ)
        except NotFound:
            return None
        return answer.parsed(_ListedDocument).server

    def page(self, *, marker: str = "", since: str = "", name: str = "") -> ServerPage:
        """Return a page of servers; with `since`, those that changed, deleted ones included.

        The first of all servers has no limit but Nova's own: from a list with a limit, a marker or a
        filter it leaves out without a word whoever is in a cell that it cannot reach.
        """
        part = marker or since or name
        query: dict[str, str | int] = {**({"limit": PAGE} if part else {}), **self._scope}
        query |= {"marker": marker} if marker else {}
        query |= {"changes-since": since} if since else {}
        query |= {"name": name} if name else {}
        answer = self.client.get(COMPUTE, "/servers/detail", version=READ, query=query)
        return answer.parsed(ServerPage)

    def history(self, ident: str) -> list[Action]:
        """Return what was done to a server, newest first, also when it is deleted already.

        NotFound: Nova does not know it (any more). Forbidden: it does, and does not tell us.
        """
        answer = self.client.get(COMPUTE, f"/servers/{ident}/os-instance-actions", version=READ)
        return answer.parsed(Actions).acts

    def acts(self, ident: str) -> list[Action] | None:
        """Return the acts as `history` does; None where Nova does not know the server or does not say."""
        try:
            return self.history(ident)
        except (NotFound, Forbidden):
            return None

    def act(self, ident: str, request_id: str) -> Action | None:
        """Return one act with its events; None when there is no such act."""
        path = f"/servers/{ident}/os-instance-actions/{request_id}"
        try:
            return self.client.get(COMPUTE, path, version=READ).parsed(ActionDocument).act
        except (NotFound, Forbidden):
            return None

    def services(self) -> dict[str, Service] | None:
        """Return every nova-compute by its host; None when we are not told.

        Without those in a cell that Nova cannot reach: of them it tells nothing but that they are.
        """
        found = self._services()
        return None if found is None else {s.host: s for s in found if s.state}

    def cells_away(self) -> bool:
        """Whether Nova says that it cannot reach a cell; false where it does not tell us."""
        return any(not service.state for service in self._services() or ())

    def _services(self) -> list[Service] | None:
        query = {"binary": "nova-compute"}
        try:
            answer = self.client.get(COMPUTE, "/os-services", version=READ, query=query)
        except Forbidden:
            return None
        return answer.parsed(Services).services
