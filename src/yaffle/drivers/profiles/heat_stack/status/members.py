"""Members of a stack that have failed: by Heat's word for each, and Nova's for servers.

Heat looks at a server again only when somebody asks for its `check`, which changes the status of the
stack and wipes out what others have marked. So Nova is asked instead, which costs nobody anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from yaffle.drivers.profiles.heat_stack.status.status_mapping import COMPLETE, FAILED, IN_PROGRESS
from yaffle.integrations.openstack.servers.status_mapping import lock_of, row_of, words_of

if TYPE_CHECKING:
    from yaffle.drivers.profiles.heat_stack.api.documents import Resource
    from yaffle.integrations.openstack.servers.documents import Listed

SERVER: Final = "OS::Nova::Server"
CHECK_FAILED: Final = "CHECK_FAILED"
NEVER_MADE: Final = frozenset({"CREATE", "ADOPT"})
_NAMED_MAX: Final = 4


class State(StrEnum):
    """State of a member."""

    FINE = "fine"
    FAILED = "failed"
    UNCLEAR = "unclear"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """State of a server by Nova's word."""

    up: bool | None
    words: str
    host: str = ""
    """Where it is; empty where it is on no host, or we are not told."""
    host_lost: bool = False
    """Nova does not say that it hears of that host; only administrators are told."""
    kept: str = ""
    """Why nobody may touch it: it is locked; empty where it is not."""
    asked: bool = True
    """False: Nova gave no usable answer, so that nothing is known."""


GONE: Final = Seen(up=False, words="Nova knows no such server")


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A resource of a stack, judged."""

    resource: Resource
    state: State
    why: str
    seen: Seen | None = None
    """Where it is a server."""

    @property
    def words(self) -> str:
        """Return one phrase for a person: which one, and what it has."""
        return f"{self.resource.shown} ({self.why})"


def is_server(resource: Resource) -> bool:
    """Whether Nova can be asked about it."""
    return resource.type == SERVER and bool(resource.physical_id)


def seen_of(server: Listed) -> Seen:
    """Return what Nova says of a server that it knows."""
    return Seen(
        up=row_of(server).up,
        words=f"server {server.id}: {words_of(server)}",
        host=server.host or "",
        # MAINTENANCE comes before any other word: of such a host it does not say whether it is up.
        host_lost=server.host_status not in (None, "UP"),
        kept=lock_of(server),
    )


def judged(resources: Iterable[Resource], servers: Mapping[str, Seen]) -> list[Member]:
    """Return all members, judged; `servers` by id holds what Nova was asked about."""
    return [
        judge(resource, servers.get(resource.physical_id or "") if is_server(resource) else None)
        for resource in resources
    ]


def judge(resource: Resource, seen: Seen | None) -> Member:
    """Return one member, judged; `seen`: where it is a server that Nova was asked about."""

    def member(state: State, why: str) -> Member:
        return Member(resource=resource, state=state, why=why, seen=seen)

    action, _, outcome = resource.status.partition("_")
    words = f"{resource.status}: {resource.reason}" if resource.reason else resource.status
    if outcome == IN_PROGRESS:
        return member(State.UNCLEAR, words)
    if resource.status == CHECK_FAILED:
        # Said by somebody who asked Heat to check, or who marked it: whatever Nova says.
        return member(State.FAILED, words)
    if action == "DELETE" and outcome == COMPLETE:
        return member(State.FINE, words)
    if action in {"DELETE", "INIT", "SUSPEND"}:
        return member(State.UNCLEAR, words)
    if outcome == FAILED and action in NEVER_MADE and not resource.nested:
        return member(State.FAILED, words)
    if seen is not None and seen.up is not None:
        # A server of which an update failed runs on; one that Heat takes for complete may not.
        return member(State.FINE if seen.up else State.FAILED, seen.words)
    if is_server(resource):
        return member(State.UNCLEAR, seen.words if seen else "Nova was not asked about it")
    return member(State.UNCLEAR if outcome == FAILED else State.FINE, words)


def of_state(members: Sequence[Member], state: State) -> list[Member]:
    """Return the members that are so."""
    return [member for member in members if member.state is state]


def named(members: Sequence[Member]) -> str:
    """Return a few of them by name, and how many more there are."""
    shown = ", ".join(member.words for member in members[:_NAMED_MAX])
    more = len(members) - _NAMED_MAX
    return f"{shown} and {more} more" if more > 0 else shown
