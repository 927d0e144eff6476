"""Documents of Nova about servers, what was done to them, and its hosts: partial decoding."""

from __future__ import annotations

import msgspec


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """Why Nova says ERROR."""

    message: str = ""
    code: int = 0
    created: str = ""

    def __str__(self) -> str:
        return self.message or f"fault {self.code}"


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """A server as a list of a thousand is read.

    Of a server in a cell that it cannot reach Nova tells the id, the project and the status UNKNOWN; a
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
    locked: bool = False
    """Somebody keeps its users from changing it; Nova lets administrators all the same."""
    locked_reason: str | None = None
    zone: str | None = msgspec.field(name="OS-EXT-AZ:availability_zone", default=None)

    @property
    def hidden(self) -> bool:
        """Whether it is in a cell that Nova cannot reach: whose copy it is, is not told."""
        return self.status == "UNKNOWN" and not self.updated

    def out_of_reach(self) -> Listed:
        """Return it as a server in a cell that is away: who and where it was, and not how."""
        return msgspec.structs.replace(
            self, status="UNKNOWN", task_state=None, power_state=None, fault=None, host_status=None
        )

    @property
    def waits_for_host(self) -> bool:
        """Whether no host has had it yet: Nova may know no more of it than that somebody asked."""
        return self.status == "BUILD" and self.task_state == "scheduling"


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """The link to the next page of a list."""

    rel: str = ""


class ServerPage(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to `GET /servers/detail`."""

    servers: list[Listed]
    servers_links: list[Link] = []

    @property
    def more(self) -> bool:
        """Whether there is another page; its size says nothing, for Nova may cap it."""
        return any(link.rel == "next" for link in self.servers_links)


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """A part of an act, carried out on one machine."""

    event: str
    result: str | None = None
    """None while it is under way; then Success or Error."""
    details: str | None = None
    host: str | None = None
    finish_time: str | None = None


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """An act on a server, as `os-instance-actions` remembers it."""

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
    """A nova-compute, as Nova believes it to be; in a cell that is away it has a host and no more."""

    host: str
    id: str = ""
    state: str = ""
    """up or down: whether it has reported lately; empty where Nova cannot reach its cell."""
    status: str
    """enabled or disabled: whether the scheduler may use it."""
    forced_down: bool = False
    disabled_reason: str | None = None
    updated_at: str | None = None
    """When it reported last, also while it is forced down, or when somebody changed it."""

    @property
    def up(self) -> bool:
        """Whether Nova takes its host for alive."""
        return self.state == "up" and not self.forced_down

    @property
    def said(self) -> str:
        """Return what Nova believes of it, in one line."""
        words = [f"nova-compute {self.state}", self.status]
        words += ["forced down"] if self.forced_down else []
        words += [self.disabled_reason] if self.disabled_reason else []
        return ", ".join(words)


class Services(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to `GET /os-services`."""

    services: list[Service]


class Migration(msgspec.Struct, frozen=True, kw_only=True):
    """A move of a server off a host, as Nova remembers it until the server is deleted."""

    id: int
    uuid: str
    status: str
    """Of an evacuation: accepted, pre-migrating, done, failed, error; and completed, once the
    nova-compute that the server left has started again and removed what was left of it there."""
    instance_uuid: str


class MigrationPage(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to `GET /os-migrations`, the newest first."""

    migrations: list[Migration]
    migrations_links: list[Link] = []

    @property
    def more(self) -> bool:
        """Whether there is another page."""
        return any(link.rel == "next" for link in self.migrations_links)
