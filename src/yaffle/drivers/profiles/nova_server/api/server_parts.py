"""Parts of a server that it may be given while it is there: its flavor in full, its interfaces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from yaffle.drivers.profiles.nova_server.api.documents import FixedIp
from yaffle.errors import BadRequest, NotFound
from yaffle.integrations.openstack.servers.documents import ActionDocument
from yaffle.integrations.openstack.servers.queries import COMPUTE, READ

if TYPE_CHECKING:
    from collections.abc import Mapping

    from yaffle.drivers.profiles.nova_server.api.documents import Server
    from yaffle.drivers.profiles.nova_server.api.nova import Nova
    from yaffle.integrations.openstack import Answer
    from yaffle.integrations.openstack.servers.documents import Action

DETAILS: Final = "2.84"
"""From here on Nova tells an administrator why a part of an act has failed."""


class Size(msgspec.Struct, frozen=True, kw_only=True):
    """A flavor; Nova shows a server's with its name and its numbers, never with its id."""

    id: str
    name: str
    vcpus: int
    ram: int
    """MiB."""
    disk: int
    """GiB."""

    def is_of(self, server: Server) -> bool:
        """Whether the server has it; one that was made anew under an old name has other numbers."""
        has = server.flavor
        numbers = (has.get("vcpus"), has.get("ram"), has.get("disk"))
        return has.get("original_name") == self.name and numbers == (
            self.vcpus,
            self.ram,
            self.disk,
        )


class SizeDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to `GET /flavors/ID`."""

    flavor: Size


class Interface(msgspec.Struct, frozen=True, kw_only=True):
    """One interface of a server, which is a port of Neutron's."""

    port_id: str
    net_id: str = ""
    fixed_ips: list[FixedIp] | None = None


class Interfaces(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to `GET /servers/ID/os-interface`."""

    interfaces: list[Interface] = msgspec.field(name="interfaceAttachments")


def size(nova: Nova, ident: str) -> Size:
    """Return a flavor; BadRequest where there is none."""
    try:
        answer = nova.client.get(COMPUTE, f"/flavors/{ident}", version=READ)
    except NotFound as error:
        raise BadRequest(f"there is no flavor {ident!r}: {error}") from error
    return answer.parsed(SizeDocument).flavor


def interfaces(nova: Nova, server: str) -> list[Interface]:
    """Return what a server is connected by, as Neutron has it."""
    answer = nova.client.get(COMPUTE, f"/servers/{server}/os-interface", version=READ)
    return answer.parsed(Interfaces).interfaces


def attach(nova: Nova, server: str, wanted: Mapping[str, object], *, trace: str | None) -> Answer:
    """Connect a server; Nova answers once that is done."""
    return nova.client.act(
        "POST",
        COMPUTE,
        f"/servers/{server}/os-interface",
        body={"interfaceAttachment": wanted},
        version=READ,
        trace=trace,
    )


def detach(nova: Nova, server: str, port: str, *, trace: str | None) -> Answer:
    """Disconnect a server; Nova answers before that is done, and deletes a port that it has made."""
    path = f"/servers/{server}/os-interface/{port}"
    return nova.client.act("DELETE", COMPUTE, path, version=READ, trace=trace)


def told(nova: Nova, server: str, request_id: str) -> Action | None:
    """Return one act with its events, and why each of them failed where we may know."""
    path = f"/servers/{server}/os-instance-actions/{request_id}"
    try:
        return nova.client.get(COMPUTE, path, version=DETAILS).parsed(ActionDocument).act
    except BadRequest:
        # A Nova that is older.
        return nova.act(server, request_id)
    except NotFound:
        return None
