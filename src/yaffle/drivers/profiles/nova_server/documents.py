"""Nova's answers, as far as we read them: partial, so that a thousand servers cost a millisecond."""

from __future__ import annotations

import msgspec


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """Why Nova says ERROR."""

    message: str = ""
    code: int = 0

    def __str__(self) -> str:
        return self.message or f"fault {self.code}"


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """A server as a list of a thousand is read.

    A server in a cell that Nova cannot reach has an id and the status UNKNOWN, and nothing else; a
    deleted one has no metadata any more.
    """

    id: str
    status: str
    name: str = ""
    created: str = ""
    updated: str = ""
    tenant_id: str = ""
    metadata: dict[str, str] = {}
    fault: Fault | None = None
    task_state: str | None = msgspec.field(name="OS-EXT-STS:task_state", default=None)
    power_state: int | None = msgspec.field(name="OS-EXT-STS:power_state", default=None)
    host: str | None = msgspec.field(name="OS-EXT-SRV-ATTR:host", default=None)
    """Only administrators are told."""
    host_status: str | None = None
    """UP, DOWN, UNKNOWN, MAINTENANCE; only administrators are told."""
    launched_at: str | None = msgspec.field(name="OS-SRV-USG:launched_at", default=None)
    """Empty as long as no guest has ever run."""


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """One address of a server."""

    addr: str
    version: int = 4
    kind: str = msgspec.field(name="OS-EXT-IPS:type", default="fixed")


class Server(Listed, frozen=True, kw_only=True):
    """A server as one request about it alone shows it."""

    addresses: dict[str, list[Address]] = {}
    zone: str | None = msgspec.field(name="OS-EXT-AZ:availability_zone", default=None)
    image: dict[str, object] | str = ""
    """Empty text: it boots from a volume."""
    flavor: dict[str, object] = {}
    key_name: str | None = None
    locked: bool = False
    locked_reason: str | None = None
    security_groups: list[dict[str, str]] = []

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


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """Where a list goes on."""

    rel: str = ""


class ServerPage(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to `GET /servers/detail`."""

    servers: list[Listed]
    servers_links: list[Link] = []

    @property
    def more(self) -> bool:
        """Whether there is another page; its size says nothing, for Nova may cap it."""
        return any(link.rel == "next" for link in self.servers_links)


class Identified(msgspec.Struct, frozen=True, kw_only=True):
    """Anything that has an id, and perhaps a name."""

    id: str
    name: str = ""


class Created(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to `POST /servers`."""

    server: Identified


class Flavors(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to `GET /flavors`."""

    flavors: list[Identified]


class Images(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to `GET /v2/images`."""

    images: list[Identified]


class Networks(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to `GET /v2.0/networks`."""

    networks: list[Identified]


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One part of an act, carried out on one machine."""

    event: str
    result: str | None = None
    """None while it is under way; then Success or Error."""
    details: str | None = None
    host: str | None = None
    finish_time: str | None = None


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """One act on a server, as `os-instance-actions` remembers it."""

    action: str
    request_id: str | None = None
    user_id: str | None = None
    start_time: str = ""
    message: str | None = None
    """`Error` as soon as one of its events has failed."""
    events: list[Event] | None = None
    """Only where one act is asked for; None where we may not see them."""


class Actions(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to `GET /servers/ID/os-instance-actions`: the newest first."""

    acts: list[Action] = msgspec.field(name="instanceActions")


class ActionDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to `GET /servers/ID/os-instance-actions/REQUEST`."""

    act: Action = msgspec.field(name="instanceAction")


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """A nova-compute, as Nova believes it to be."""

    id: str
    host: str
    state: str
    """up or down: whether it has reported lately."""
    status: str
    """enabled or disabled: whether the scheduler may use it."""
    forced_down: bool = False
    disabled_reason: str | None = None

    @property
    def up(self) -> bool:
        """Whether Nova takes its host for alive."""
        return self.state == "up" and not self.forced_down


class Services(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to `GET /os-services`."""

    services: list[Service]


class Console(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to `os-getConsoleOutput`."""

    output: str | None = None
