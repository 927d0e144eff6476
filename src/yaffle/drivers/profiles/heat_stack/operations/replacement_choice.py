"""Choice of the members that an update replaces, and of what Heat has to be told first.

Heat replaces a member that is CHECK_FAILED, and no other that it takes for complete (seed 5). Some it
cannot be told of: it says yes, and nothing comes of it, or more than was meant.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from yaffle.drivers.profiles.heat_stack.status.members import (
    CHECK_FAILED,
    Member,
    State,
    named,
    of_state,
)
from yaffle.drivers.profiles.heat_stack.status.status_mapping import IN_PROGRESS

if TYPE_CHECKING:
    from yaffle.drivers.profiles.heat_stack.api.documents import Resource

_KNOWN_MAX: Final = 20


class Refusal(Exception):
    """Says in a sentence why what was asked for cannot or must not be done."""


def chosen(members: Sequence[Member], names: Sequence[str]) -> list[Member]:
    """Return the members to replace: those that are named, else all that are known to have failed.

    A name is one that Heat knows: `group/0`, `0` where there is one of it, or a physical id. Raises
    Refusal for what no member has, or several have.
    """
    if names:
        return list({id(m): m for m in (_named(members, name) for name in names)}.values())
    return of_state(members, State.FAILED)


def _named(members: Sequence[Member], name: str) -> Member:
    for known in (_shown, _physical, _plain):
        found = [member for member in members if known(member.resource) == name]
        if len(found) == 1:
            return found[0]
        if found:
            several = ", ".join(member.resource.shown for member in found)
            raise Refusal(f"{len(found)} members are called {name!r}: {several}")
    have = ", ".join(member.resource.shown for member in members[:_KNOWN_MAX])
    raise Refusal(f"the stack has no member {name!r}; it has {have or 'none'}")


def _shown(resource: Resource) -> str:
    return resource.shown


def _plain(resource: Resource) -> str:
    return resource.name


def _physical(resource: Resource) -> str:
    return resource.physical_id or ""


def to_mark(members: Sequence[Member]) -> list[Resource]:
    """Return those of which Heat has to be told; raises Refusal for what it must not be told."""
    found: list[Resource] = []
    for member in members:
        if why := unmarkable(member.resource):
            raise Refusal(f"{member.resource.shown} cannot be marked unhealthy: {why}")
        if member.resource.status != CHECK_FAILED:
            found.append(member.resource)
    return found


def unmarkable(resource: Resource) -> str:
    """Say why Heat must not be told that a member is unhealthy; empty when it can be."""
    action, _, outcome = resource.status.partition("_")
    if action == "DELETE":
        return f"it is {resource.status}, and Heat ignores the mark"
    if action == "INIT":
        return "it was never made, and Heat would skip it for ever"
    if outcome == IN_PROGRESS:
        return f"it is {resource.status}, and Heat holds it"
    if resource.nested and resource.status != CHECK_FAILED:
        return "it is a stack, of which Heat would replace every member; name the members"
    return ""


def lost(members: Sequence[Member]) -> str:
    """Say which servers must not be replaced; empty where none is on a host that may be lost.

    Nova would only forget such a server while its guest may run on beside the new one.
    """
    stuck = [m for m in members if m.seen is not None and m.seen.host_lost and m.seen.host]
    if not stuck:
        return ""
    hosts = ", ".join(sorted({m.seen.host for m in stuck if m.seen is not None}))
    return (
        f"Nova does not say that the host {hosts} of {named(stuck)} is up: its guest may still run"
        " there; fence the host and force it down in Nova, or evacuate the server"
    )
