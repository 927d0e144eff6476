"""Heat's answers, as far as we read them."""

from __future__ import annotations

import msgspec


class Stack(msgspec.Struct, frozen=True, kw_only=True):
    """A stack as a list of a thousand shows it, deleted and nested ones included."""

    id: str
    name: str = msgspec.field(name="stack_name")
    status: str = msgspec.field(name="stack_status")
    """ACTION_STATUS: `CREATE_COMPLETE`."""
    reason: str | None = msgspec.field(name="stack_status_reason", default=None)
    created: str | None = msgspec.field(name="creation_time", default=None)
    updated: str | None = msgspec.field(name="updated_time", default=None)
    """When something was begun on it last, to the second; None before the first time."""
    parent: str | None = None
    """The stack that it is nested in."""
    tags: list[str] | None = None

    @property
    def action(self) -> str:
        """The half of the status that says what was begun last."""
        return self.status.partition("_")[0]

    @property
    def busy(self) -> bool:
        """Whether something is being done to it."""
        return self.status.endswith("_IN_PROGRESS")

    @property
    def gone(self) -> bool:
        """Whether it is deleted; Heat keeps the record for a while."""
        return self.status == "DELETE_COMPLETE"

    @property
    def words(self) -> str:
        """Heat's own words for how it is, on one line."""
        return f"status {self.status}" + (
            f": {' '.join(self.reason.split())}" if self.reason else ""
        )


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """Link to something else."""

    rel: str = ""
    href: str = ""


class StackPage(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to `GET /stacks`."""

    stacks: list[Stack]
    links: list[Link] = []

    @property
    def more(self) -> bool:
        """Whether there is another page."""
        return any(link.rel == "next" for link in self.links)


class Detail(msgspec.Struct, frozen=True, kw_only=True):
    """Inputs that a stack was made with, besides its template."""

    parameters: dict[str, object] = {}
    disable_rollback: bool = True
    timeout_mins: int | None = None
    outputs: list[dict[str, object]] = []


class DetailDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to `GET /stacks/NAME/ID`."""

    stack: Detail


class Resource(msgspec.Struct, frozen=True, kw_only=True):
    """A member of a stack, or of one that is nested in it."""

    name: str = msgspec.field(name="resource_name")
    type: str = msgspec.field(name="resource_type")
    status: str = msgspec.field(name="resource_status")
    reason: str | None = msgspec.field(name="resource_status_reason", default=None)
    physical_id: str | None = msgspec.field(name="physical_resource_id", default=None)
    parent: str | None = msgspec.field(name="parent_resource", default=None)
    """The resource whose nested stack it is in; None in the stack that was asked about."""
    links: list[Link] = []

    @property
    def nested(self) -> bool:
        """Whether it is a stack itself."""
        return any(link.rel == "nested" for link in self.links)

    @property
    def stack(self) -> str:
        """Path of the very stack that it is in: `NAME/ID`; by it Heat can be told of it."""
        for link in self.links:
            if link.rel == "stack":
                return link.href.rpartition("/stacks/")[2]
        return ""

    @property
    def shown(self) -> str:
        """Its name for people."""
        return f"{self.parent}/{self.name}" if self.parent else self.name


class Resources(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to `GET /stacks/NAME/ID/resources`."""

    resources: list[Resource]


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to a creation."""

    id: str


class MadeDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to `POST /stacks`."""

    stack: Made


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened to a stack or to a resource of it."""

    at: str = msgspec.field(name="event_time", default="")
    name: str | None = msgspec.field(name="resource_name", default=None)
    status: str = msgspec.field(name="resource_status", default="")
    reason: str | None = msgspec.field(name="resource_status_reason", default=None)
    physical_id: str | None = msgspec.field(name="physical_resource_id", default=None)


class Events(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to `GET /stacks/NAME/ID/events`."""

    events: list[Event]
