"""Whether the guest of a server that Nova has forgotten has ended: read from Nova's record of its acts.

A server whose host does not report is deleted by Nova in its own records alone, at once, while the
guest may run on; "not found" is then no proof of anything. Nova's record of the acts tells the two
apart, also after the server is gone: the host leaves an event in it, a deletion without a host none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from yaffle.integrations.openstack.servers.documents import Action, Listed

SUCCESS: Final = "Success"
ERROR: Final = "Error"
ENDED: Final = frozenset({"compute_terminate_instance", "compute_soft_delete_instance"})
"""What a host writes when it has destroyed a guest, or switched it off to be destroyed later."""
BUILT: Final = "compute__do_build_and_run_instance"
"""What a host writes when it makes one."""
REVIVING: Final = frozenset({"restore"})
"""After these, what a host did before counts no more."""
SHELVING: Final = frozenset({"shelveOffload", "unshelve"})
HARMLESS: Final = frozenset({"create", "delete", "lock", "resetState", "unlock"})
"""Acts that make no guest run, the building itself apart."""
GIVEN_UP: Final[Mapping[str, frozenset[str | None]]] = MappingProxyType(
    {
        "Failure prepping block device": frozenset({SUCCESS, ERROR}),
        "Exceeded maximum number of retries": frozenset({SUCCESS, ERROR, None}),
        "aborted: Failed to allocate the network(s)": frozenset({SUCCESS, ERROR}),
        "aborted: VolumeLimitExceeded: ": frozenset({SUCCESS, ERROR}),
        "aborted: VolumeSizeExceedsAvailableQuota: ": frozenset({SUCCESS, ERROR}),
        "aborted: Resource conflict: duplicate connectors": frozenset({SUCCESS, ERROR}),
        "did not finish being created even after we waited": frozenset({SUCCESS, ERROR}),
    }
)
"""Nova's faults of builds that left no guest, and how the hosts' events of them may have ended.

The first comes before a guest is begun. The second is told when every attempt was cleaned up; of several
tries Nova writes down one end only. That of networks, which may come while a guest is made, is told
only where that was cleaned up; those of volumes come before a guest. A guest that a host has begun
and could not remove has another fault, the one for which it failed, and nothing in that tells it
from one that was removed.
"""
_ACTS_MAX: Final = 3
"""The acts of a deleted server whose events are read, the newest ones."""


def with_events(acts: Sequence[Action], act_of: Callable[[str], Action | None]) -> list[Action]:
    """Return the acts as `proof` wants them, the newest first; `act_of` reads one by its request id."""
    last = len(acts) - 1
    return [
        (act.request_id and act_of(act.request_id)) or act
        if place < _ACTS_MAX or place == last
        else act
        for place, act in enumerate(acts)
    ]


def given_up(server: Listed) -> str:
    """Return the row of `GIVEN_UP` by which no guest is left of a build that has failed; empty if none.

    A host that has failed lets go of a server before Nova says so, and its event says Success all the
    same. A deletion of such a server asks no host, and leaves no event.
    """
    if server.status != "ERROR" or server.launched_at or server.host or server.fault is None:
        return ""
    return next((fault for fault in GIVEN_UP if fault in server.fault.message), "")


def proof(acts: Sequence[Action], *, given_up: str = "") -> tuple[bool | None, str]:
    """Say whether the record of a deleted server proves that its guest has ended; None: not yet.

    `acts`: the newest first, with their events as far as they were asked for. `given_up`: what the
    function of that name said of it when its deletion was asked for.
    """
    if all(act.events is None for act in acts):
        # A record of every server begins with its creation: an empty one is none.
        return False, "what its host did is not shown to us (os-instance-actions and its events)"
    for act in acts:
        if act.action in REVIVING:
            break
        for event in act.events or ():
            if event.event in ENDED and event.result == SUCCESS:
                return True, f"{event.event} succeeded on {event.host or 'its host'}"
            if event.event in ENDED and event.result is None:
                return None, "its host has not finished yet"
    if _never_ran(acts, given_up=given_up):
        return True, "no host had ever built it"
    shelved = next((act.action for act in acts if act.action in SHELVING), "")
    if shelved == "shelveOffload":
        return True, "it was shelved, on no host"
    return False, "its host has never confirmed that the guest has ended"


def _never_ran(acts: Sequence[Action], *, given_up: str) -> bool:
    """Whether a server was only ever made and deleted, and no host has tried to build it, or in vain.

    That an attempt ended in an error says little: a host may fail at its records after the guest runs.
    """
    if acts[-1].action != "create" or any(act.action not in HARMLESS for act in acts):
        return False
    seen = [event for act in acts for event in act.events or ()]
    if acts[-1].events is None or any(event.event in ENDED for event in seen):
        return False
    vain = GIVEN_UP.get(given_up, frozenset())
    return all(event.result in vain for event in seen if event.event == BUILT)
