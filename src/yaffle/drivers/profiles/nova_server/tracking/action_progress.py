"""Progress of an act, by the server and Nova's record of its acts: pure, a table for tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from yaffle.drivers.profiles.nova_server.api.documents import Server
from yaffle.drivers.profiles.nova_server.tracking.operation import (
    ABSENT,
    SETTLE_S,
    done,
    failed,
    running,
)
from yaffle.drivers.profiles.nova_server.tracking.verbs import idle
from yaffle.integrations.openstack.servers.documents import Action, Event
from yaffle.integrations.openstack.servers.status_mapping import words_of
from yaffle.integrations.openstack.servers.termination_proof import ERROR

if TYPE_CHECKING:
    from yaffle.drivers.profiles.nova_server.tracking.verbs import Verb
    from yaffle.model.operations import Progress


def act_after(acts: Sequence[Action], name: str, before: str, user_id: str) -> Action | None:
    """Return our newest act of that name that is newer than the act `before`; newest come first."""
    for act in acts:
        if before and act.request_id == before:
            return None
        if act.action == name and act.user_id == user_id:
            return act
    return None


def wrong_with(act: Action) -> str:
    """Say what failed in an act; empty while nothing has."""
    bad = [event for event in act.events or () if event.result == ERROR]
    if bad:
        return "; ".join(_told(event) for event in bad)
    return "Nova recorded an error" if act.message == ERROR else ""


def _told(event: Event) -> str:
    where = f" on {event.host}" if event.host else ""
    return f"{event.event}{where}: {event.details or 'no details'}"


def over(act: Action) -> bool:
    """Whether every part of an act that we may see has ended, and there was one."""
    return bool(act.events) and all(event.result for event in act.events or ())


def judge(verb: Verb, server: Server, act: Action | None, *, waited_s: float) -> Progress:
    """Return how far the act is that was begun `waited_s` ago; ABSENT when it never came to be."""
    words = words_of(server)
    if act is None:
        if waited_s < SETTLE_S:
            return running(f"begun, and nothing to be seen of it yet; {words}")
        return ABSENT
    if not idle(server):
        return running(words)
    wrong = wrong_with(act)
    if wrong:
        return failed(f"{act.action} failed: {wrong}; {words}")
    if act.events is not None and not over(act):
        # Recorded, and no host has taken it up or ended it yet.
        return running(f"{act.action} is not over; {words}")
    if server.status == "ERROR":
        return failed(f"{act.action} ended in {words}")
    if act.events is None and not verb.reached(server):
        return running(words)
    return done(f"{act.action} is over; {words}")


def build_failed(server: Server, *, waited_s: float) -> Progress:
    """Return how far a build is that Nova says has failed: its reason comes a moment after that."""
    words = words_of(server)
    if server.fault is None and waited_s < SETTLE_S:
        return running(f"failed, and Nova has not said why yet; {words}", physical_id=server.id)
    return failed(f"CREATE: server {server.id} failed: {words}", physical_id=server.id)
