"""Nova's answers about one server, and about what it is made of, as far as we read them."""

from __future__ import annotations

import msgspec

from yaffle.integrations.openstack.ownership_tags import CLUSTER, NODE, OPERATION, PURPOSE
from yaffle.integrations.openstack.servers.documents import Listed


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """One address of a server."""

    addr: str
    version: int = 4
    kind: str = msgspec.field(name="OS-EXT-IPS:type", default="fixed")


class Disk(msgspec.Struct, frozen=True, kw_only=True):
    """A volume that Nova believes a server to have."""

    id: str
    delete_on_termination: bool = False


class Server(Listed, frozen=True, kw_only=True):
    """A server as one request about it alone shows it."""

    addresses: dict[str, list[Address]] = msgspec.field(default_factory=dict)
    image: dict[str, object] | str = ""
    """Empty text: it boots from a volume."""
    flavor: dict[str, object] = msgspec.field(default_factory=dict)
    key_name: str | None = None
    security_groups: list[dict[str, str]] = msgspec.field(default_factory=list)
    root_device: str | None = msgspec.field(name="OS-EXT-SRV-ATTR:root_device_name", default=None)
    """Only administrators are told."""
    volumes: list[Disk] = msgspec.field(
        name="os-extended-volumes:volumes_attached", default_factory=list
    )

    @property
    def image_id(self) -> str:
        """The image that it was built from; empty for a volume."""
        return str(self.image.get("id", "")) if isinstance(self.image, dict) else ""

    @property
    def node_ip(self) -> str:
        """The address that a `{node_ip}` stands for: a fixed IPv4 one before any other."""
        found = [a for several in self.addresses.values() for a in several]
        found.sort(key=lambda a: (a.kind != "fixed", a.version))
        return found[0].addr if found else ""


class ServerDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to `GET /servers/ID`."""

    server: Server


class Identified(msgspec.Struct, frozen=True, kw_only=True):
    """Anything that has an id, and perhaps a name."""

    id: str
    name: str = ""


class Flavor(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a flavor that counts against a project's quota."""

    vcpus: int
    ram: int
    """MiB."""


class FlavorDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to `GET /flavors/ID`."""

    flavor: Flavor


class ImageState(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to `GET /v2/images/ID`."""

    status: str


class ZoneState(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a host of an availability zone is there."""

    available: bool


class Zone(msgspec.Struct, frozen=True, kw_only=True):
    """An availability zone."""

    name: str = msgspec.field(name="zoneName")
    state: ZoneState = msgspec.field(name="zoneState")


class Zones(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to `GET /os-availability-zone`."""

    zones: list[Zone] = msgspec.field(name="availabilityZoneInfo")


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """A project's limits and use of servers; below zero: unlimited."""

    instances: int = msgspec.field(name="maxTotalInstances")
    instances_used: int = msgspec.field(name="totalInstancesUsed")
    cores: int = msgspec.field(name="maxTotalCores")
    cores_used: int = msgspec.field(name="totalCoresUsed")
    ram: int = msgspec.field(name="maxTotalRAMSize")
    """MiB."""
    ram_used: int = msgspec.field(name="totalRAMUsed")


class AbsoluteLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of a project, as against the pace of its requests."""

    absolute: Limits


class LimitsDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to `GET /limits`."""

    limits: AbsoluteLimits


class Quota(msgspec.Struct, frozen=True, kw_only=True):
    """A project's limit and use of one resource of Neutron; below zero: unlimited."""

    limit: int
    used: int
    reserved: int = 0


class Quotas(msgspec.Struct, frozen=True, kw_only=True):
    """The quotas of a project in Neutron that are asked for."""

    port: Quota | None = None


class QuotasDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to `GET /v2.0/quotas/PROJECT/details.json`."""

    quota: Quotas


class FixedIp(msgspec.Struct, frozen=True, kw_only=True):
    """One address of a port."""

    ip_address: str


class Port(msgspec.Struct, frozen=True, kw_only=True):
    """A port of Neutron's."""

    id: str
    name: str = ""
    device_id: str = ""
    """Whose it is: a server's, mostly."""
    network_id: str = ""
    created_at: str = ""
    fixed_ips: list[FixedIp] = msgspec.field(default_factory=list)


class Ports(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to `GET /v2.0/ports`."""

    ports: list[Port]


class Attachment(msgspec.Struct, frozen=True, kw_only=True):
    """The volume attachment of a server."""

    volume: str = msgspec.field(name="volumeId")
    device: str | None = None


class Attachments(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to `GET /servers/ID/os-volume_attachments`."""

    attachments: list[Attachment] = msgspec.field(name="volumeAttachments")


class Created(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to `POST /servers`."""

    server: Identified


class Flavors(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to `GET /flavors`."""

    flavors: list[Identified]


class Images(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to `GET /v2/images`."""

    images: list[Identified]


class Image(msgspec.Struct, frozen=True, kw_only=True):
    """An image with what became of it."""

    id: str
    name: str = ""
    status: str = ""
    created_at: str = ""
    owner: str = ""
    """The project that it counts for."""
    node: str = msgspec.field(name=NODE, default="")
    cluster: str = msgspec.field(name=CLUSTER, default="")
    operation: str = msgspec.field(name=OPERATION, default="")
    purpose: str = msgspec.field(name=PURPOSE, default="")


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to `GET /v2/images` where it matters how they are."""

    images: list[Image]
    next: str = ""
    """Where there are more."""


class Built(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to `GET /servers`, where it matters that there are any."""

    servers: list[Identified]


class Network(Identified, frozen=True, kw_only=True):
    """A network of Neutron's."""

    project_id: str = ""
    shared: bool = False


class Networks(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to `GET /v2.0/networks`."""

    networks: list[Network]


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """A server group, and the servers that its policy keeps together or apart."""

    id: str
    name: str = ""
    members: list[str] = []


class Groups(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to `GET /os-server-groups`."""

    groups: list[Group] = msgspec.field(name="server_groups")


class Console(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to `os-getConsoleOutput`."""

    output: str | None = None
