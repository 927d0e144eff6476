"""Nova's API in our words: one method per request, with the version of the API that it needs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final
from urllib.parse import quote

from yaffle.drivers.profiles.nova_server.api.documents import (
    Attachments,
    Built,
    Console,
    Created,
    Flavor,
    FlavorDocument,
    Flavors,
    Group,
    Groups,
    Identified,
    Image,
    Images,
    ImageState,
    Limits,
    LimitsDocument,
    Networks,
    Port,
    Ports,
    Quota,
    QuotasDocument,
    Server,
    ServerDocument,
    Taken,
    Zones,
)
from yaffle.errors import BadRequest, Forbidden, NotFound
from yaffle.integrations.openstack import Answer, Client
from yaffle.integrations.openstack.ownership_tags import OPERATION
from yaffle.integrations.openstack.servers.documents import (
    Action,
    Migration,
    MigrationPage,
    ServerPage,
    Service,
)
from yaffle.integrations.openstack.servers.queries import COMPUTE, PAGE, READ, Servers

PERSONALITY: Final = "2.56"
"""The last one that takes files, and already one where networks must be said."""
EVACUATE: Final = "2.68"
"""Below 2.95, where what is evacuated arrives stopped."""
VOLUME_REBUILD: Final = "2.93"
GROUPS_MAX: Final = 20_000
MOVES_MAX: Final = 10_000
IMAGES_MAX: Final = 10_000
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


class NotOne(BadRequest):
    """A name of a profile's stands for nothing, or for several things."""


class Nova:
    """Nova's API for one call, in one thread; raises as `Client` does."""

    def __init__(self, client: Client, *, all_projects: bool = False) -> None:
        self.client = client
        self._servers = Servers(client, all_projects=all_projects)
        self._scope: dict[str, str | int] = {"all_tenants": 1} if all_projects else {}

    # --- reading --------------------------------------------------------------------------------

    def show(self, ident: str) -> Server | None:
        """Return the server; None when Nova itself says that there is none."""
        try:
            answer = self.client.get(COMPUTE, f"/servers/{ident}", version=READ)
        except NotFound:
            return None
        return answer.parsed(ServerDocument).server

    def page(self, *, marker: str = "", since: str = "", name: str = "") -> ServerPage:
        """As `Servers.page`."""
        return self._servers.page(marker=marker, since=since, name=name)

    def history(self, ident: str) -> list[Action]:
        """As `Servers.history`."""
        return self._servers.history(ident)

    def acts(self, ident: str) -> list[Action] | None:
        """As `Servers.acts`."""
        return self._servers.acts(ident)

    def act(self, ident: str, request_id: str) -> Action | None:
        """As `Servers.act`."""
        return self._servers.act(ident, request_id)

    def services(self) -> dict[str, Service] | None:
        """As `Servers.services`."""
        return self._servers.services()

    def cells_away(self) -> bool:
        """As `Servers.cells_away`."""
        return self._servers.cells_away()

    def evacuations(self, host: str) -> list[Migration] | None:
        """Return the moves of servers off a host that was given up; None when we are not told."""
        found: list[Migration] = []
        query: dict[str, str | int] = {
            "source_compute": host,
            "migration_type": "evacuation",
            "limit": PAGE,
        }
        try:
            while True:
                answer = self.client.get(COMPUTE, "/os-migrations", version=READ, query=query)
                page = answer.parsed(MigrationPage)
                found += page.migrations
                if not page.more or not page.migrations or len(found) >= MOVES_MAX:
                    return found
                query["marker"] = page.migrations[-1].uuid
        except Forbidden:
            return None

    def server_groups(self) -> list[Group]:
        """Return the server groups that we may see."""
        found: list[Group] = []
        scope = {"all_projects": 1} if self._scope else {}
        while True:
            query: dict[str, str | int] = {"limit": PAGE, "offset": len(found), **scope}
            answer = self.client.get(COMPUTE, "/os-server-groups", version=READ, query=query)
            page = answer.parsed(Groups).groups
            found += page
            if not page or len(found) >= GROUPS_MAX:
                return found

    def console(self, ident: str, lines: int) -> str:
        """Return the end of the console's log."""
        answer = self.do(ident, {"os-getConsoleOutput": {"length": lines}})
        return answer.parsed(Console).output or ""

    # --- names ----------------------------------------------------------------------------------

    def flavor_id(self, given: str) -> str:
        """Return the id of a flavor that is given by id or name; BadRequest where there is none."""
        try:
            self.client.get(COMPUTE, f"/flavors/{given}", version=READ)
        except NotFound:
            found = self.client.get(COMPUTE, "/flavors", version=READ).parsed(Flavors).flavors
            return _the_one("flavor", given, [f for f in found if f.name == given])
        return given

    def image_id(self, given: str) -> str:
        """Return the id of an image that is given by id or name; BadRequest where there is none."""
        if _UUID.fullmatch(given):
            # Nova says so itself where there is none; Glance says 404 as a page for people.
            return given
        answer = self.client.get("image", "/v2/images", query={"name": given})
        return _the_one("image", given, answer.parsed(Images).images)

    def images_of(self, operation_id: str) -> list[Image]:
        """Return the images that were taken for an operation."""
        answer = self.client.get("image", "/v2/images", query={OPERATION: operation_id})
        return answer.parsed(Taken).images

    def images_with(self, **which: str) -> list[Image]:
        """Return the images that bear these properties."""
        found: list[Image] = []
        query: dict[str, str | int] = {**which, "limit": PAGE}
        while True:
            page = self.client.get("image", "/v2/images", query=query).parsed(Taken)
            found += page.images
            if not page.next or not page.images or len(found) >= IMAGES_MAX:
                return found
            query["marker"] = page.images[-1].id

    def built_from(self, image: str) -> str:
        """Return the id of a server that was built from an image; empty where there is none."""
        query = {"image": image, "limit": 1, **self._scope}
        answer = self.client.get(COMPUTE, "/servers", version=READ, query=query)
        return next((server.id for server in answer.parsed(Built).servers), "")

    def network_id(self, given: str) -> str:
        """Return the id of a network that is given by id or name; BadRequest where there is none.

        An administrator sees those of every project, of which Nova takes ours and the shared ones.
        """
        for query in ({"id": given}, {"name": given}):
            answer = self.client.get("network", "/v2.0/networks", query=query)
            found = [n for n in answer.parsed(Networks).networks if given in (n.id, n.name)]
            if found:
                project = self.client.project_id
                ours = [n for n in found if n.shared or n.project_id in ("", project)]
                return _the_one("network", given, ours if len(found) > 1 else found)
        return _the_one("network", given, [])

    # --- what a server is made of ---------------------------------------------------------------

    def flavor(self, ident: str) -> Flavor:
        """Return what a flavor takes; NotFound where it is gone."""
        answer = self.client.get(COMPUTE, f"/flavors/{ident}", version=READ)
        return answer.parsed(FlavorDocument).flavor

    def image_status(self, ident: str) -> str:
        """Return Glance's word for an image; NotFound where Glance itself says that there is none."""
        return self.client.get("image", f"/v2/images/{ident}").parsed(ImageState).status

    def port(self, ident: str) -> Port:
        """Return a port; NotFound where Neutron lists none."""
        found = self.ports(id=ident)
        if not found:
            raise NotFound(f"there is no port {ident}")
        return found[0]

    def ports(self, **which: str) -> list[Port]:
        """Return those ports that we may see, and that are so."""
        return self.client.get("network", "/v2.0/ports", query=which).parsed(Ports).ports

    def networks(self, **which: str) -> list[str]:
        """Return the ids of those networks that we may see, and that are so."""
        answer = self.client.get("network", "/v2.0/networks", query=which)
        return [network.id for network in answer.parsed(Networks).networks]

    def disks(self, ident: str) -> dict[str, str]:
        """Return the devices that a server has its volumes as, by volume."""
        answer = self.client.get(COMPUTE, f"/servers/{ident}/os-volume_attachments", version=READ)
        found = answer.parsed(Attachments).attachments
        return {one.volume: one.device or "" for one in found}

    def key_pair(self, name: str) -> None:
        """Raise NotFound where we have no such key pair."""
        self.client.get(COMPUTE, f"/os-keypairs/{quote(name, safe='')}", version=READ)

    def server_group(self, ident: str) -> None:
        """Raise NotFound where there is no such server group."""
        self.client.get(COMPUTE, f"/os-server-groups/{ident}", version=READ)

    def zones(self) -> dict[str, bool]:
        """Return the availability zones, and whether a host of each is there."""
        answer = self.client.get(COMPUTE, "/os-availability-zone", version=READ)
        return {zone.name: zone.state.available for zone in answer.parsed(Zones).zones}

    def limits(self) -> Limits:
        """Return what our project may have, and has."""
        answer = self.client.get(COMPUTE, "/limits", version=READ)
        return answer.parsed(LimitsDocument).limits.absolute

    def port_quota(self) -> Quota | None:
        """Return how many ports our project may have, and has; None where Neutron does not count them.

        NotFound where Neutron does not tell such details at all.
        """
        path = f"/v2.0/quotas/{self.client.project_id}/details.json"
        return self.client.get("network", path).parsed(QuotasDocument).quota.port

    # --- acting ---------------------------------------------------------------------------------

    def create(self, body: Mapping[str, object], *, version: str, trace: str | None) -> str:
        """Ask for a server; return its id."""
        answer = self.client.act(
            "POST", COMPUTE, "/servers", body=body, version=version, trace=trace
        )
        return answer.parsed(Created).server.id

    def delete(self, ident: str, *, force: bool, trace: str | None = None) -> Answer:
        """Ask for its deletion; `force` also where Nova would keep it for a while."""
        if force:
            return self.do(ident, {"forceDelete": None}, trace=trace)
        return self.client.act("DELETE", COMPUTE, f"/servers/{ident}", version=READ, trace=trace)

    def do(
        self,
        ident: str,
        body: Mapping[str, object],
        *,
        version: str = READ,
        trace: str | None = None,
    ) -> Answer:
        """Ask for an act on a server."""
        path = f"/servers/{ident}/action"
        return self.client.act("POST", COMPUTE, path, body=body, version=version, trace=trace)

    def reset_state(self, ident: str, state: str) -> None:
        """Have Nova forget what it was doing, and call the server `active` or `error`.

        Only an administrator may.
        """
        self.do(ident, {"os-resetState": {"state": state}})

    def mark(self, ident: str, metadata: Mapping[str, str]) -> None:
        """Add to the metadata of a server."""
        body = {"metadata": dict(metadata)}
        self.client.act("POST", COMPUTE, f"/servers/{ident}/metadata", body=body, version=READ)

    def replace_metadata(self, ident: str, metadata: Mapping[str, str]) -> None:
        """Give a server this metadata, and no other."""
        body = {"metadata": dict(metadata)}
        self.client.act("PUT", COMPUTE, f"/servers/{ident}/metadata", body=body, version=READ)

    def rename(self, ident: str, name: str) -> None:
        """Give a server another name."""
        body = {"server": {"name": name}}
        self.client.act("PUT", COMPUTE, f"/servers/{ident}", body=body, version=READ)

    def delete_image(self, ident: str) -> None:
        """Have Glance delete an image; whoever deletes it otherwise was only faster."""
        with suppress(NotFound):
            self.client.act("DELETE", "image", f"/v2/images/{ident}")

    def enable(self, service: Service) -> None:
        """Let Nova place servers on a host."""
        self.client.act(
            "PUT", COMPUTE, f"/os-services/{service.id}", body={"status": "enabled"}, version=READ
        )

    def force_down(self, service: Service, *, down: bool = True) -> None:
        """Tell Nova that a host is dead, and stays so until somebody says otherwise; or say that."""
        body = {"forced_down": down}
        self.client.act("PUT", COMPUTE, f"/os-services/{service.id}", body=body, version=READ)


def _the_one(what: str, given: str, found: Sequence[Identified]) -> str:
    if len(found) == 1:
        return found[0].id
    how = "no" if not found else f"{len(found)} times a"
    raise NotOne(f"there is {how} {what} {given!r}")
