"""Clean-up after evacuations: Nova's record of the moves says when a host is free of old copies.

A nova-compute that starts destroys every guest that was evacuated from its host meanwhile, forced down
or not, and only then turns those evacuations from `done` into `completed`. That is the one proof that
Nova's API gives: that the service is up, or that the server runs elsewhere, proves nothing, and what
is said of a host's hypervisor comes from Nova's database. A server that was deleted since has taken
the record along; then its acts may tell, and if they do not, nobody can but a person on the host.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from yaffle.integrations.openstack.servers.termination_proof import (
    ENDED,
    SUCCESS,
    proof,
    with_events,
)
from yaffle.model.operations import OldCopy, Vacated

if TYPE_CHECKING:
    from yaffle.drivers.profiles.nova_server.api.nova import Nova
    from yaffle.integrations.openstack.servers.documents import Action, Migration
    from yaffle.model.operations import Target

COMPLETED: Final = "completed"
NOT_MOVED: Final = frozenset({"failed", "error", "cancelled"})
"""Evacuations that left the server where it was."""


def vacated(nova: Nova, host: str, targets: Sequence[Target]) -> Vacated:
    """Return how the host is, and what is known of the copy of each target there."""
    services = nova.services()
    moves = nova.evacuations(host) if services is not None else None
    if services is None or moves is None:
        return unclear(host, "our credentials may not see hosts and moves")
    newest = newest_of(moves)
    copies = {t.physical_id: _copy(nova, host, t.physical_id, newest) for t in targets}
    service = services.get(host)
    return Vacated(
        name=host,
        up=service is not None and service.up,
        barred=service is not None and service.forced_down,
        reported="" if service is None else service.updated_at or "",
        copies=copies,
        detail="no such nova-compute" if service is None else f"nova-compute {service.state}",
        admit=command(host),
    )


def unclear(host: str, why: str) -> Vacated:
    """Return what is said of a host when Nova tells nothing."""
    return Vacated(
        name=host, up=None, barred=False, reported="", copies={}, detail=why, admit=command(host)
    )


def command(host: str) -> str:
    """Return what an administrator says to Nova when the host may carry servers again."""
    return f"openstack compute service set --up {host} nova-compute"


def admit(nova: Nova, host: str) -> str:
    """Take back that the host is forced down."""
    service = (nova.services() or {}).get(host)
    if service is None or not service.forced_down:
        return ""
    nova.force_down(service, down=False)
    return f"nova-compute on {host} is forced down no more"


def newest_of(moves: Iterable[Migration]) -> Mapping[str, Migration]:
    """Return the newest move of each server that took it away, or may yet."""
    found: dict[str, Migration] = {}
    for move in sorted(moves, key=lambda m: m.id):
        if move.status not in NOT_MOVED:
            found[move.instance_uuid] = move
    return found


def _copy(nova: Nova, host: str, ident: str, newest: Mapping[str, Migration]) -> OldCopy:
    move = newest.get(ident)
    if move is not None:
        return OldCopy.GONE if move.status == COMPLETED else OldCopy.LEFT
    server = nova.show(ident)
    if server is not None and server.status != "DELETED":
        return OldCopy.PRESENT if server.host == host else OldCopy.UNTOLD
    acts = nova.acts(ident)
    if not acts:
        return OldCopy.UNTOLD
    looked = with_events(acts, lambda request: nova.act(ident, request))
    ended = proof(looked)[0] is True and _ended_on(host, looked)
    return OldCopy.GONE if ended else OldCopy.UNTOLD


def _ended_on(host: str, acts: Sequence[Action]) -> bool:
    """Whether that very host has ended the guest: another one's word is about another copy."""
    events = [event for act in acts for event in act.events or ()]
    return any(e.event in ENDED and e.result == SUCCESS and e.host == host for e in events)
