"""Whether the guest of a server that Nova has forgotten has ended: read from Nova's record of its acts.

A server whose host does not report is deleted by Nova in its own records alone, at once, while the
guest may run on; "not found" is then no proof of anything. Nova's record of the acts tells the two
apart, also after the server is gone: the host leaves an event in it, a deletion without a host none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from yaffle.clouds.openstack.servers.documents import Action, Listed

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
_UNCLEAN: Final = "Could not clean up failed build"
"""Nova's fault where a host could not remove what it had begun to build."""
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


def given_up(server: Listed) -> bool:
    """Whether Nova has given up a build, and the host that tried it has removed what it had begun.

    A host lets go of a server only then (`_nil_out_instance_obj_host_and_node`), and its event says
    Success all the same. A forced deletion of such a server asks no host, and leaves no event.
    """
    # That it is on no host is told by an empty status; where we may not see hosts there is none at all.
    nowhere = server.host_status == "" and not server.host
    unclean = server.fault is not None and _UNCLEAN in server.fault.message
    return nowhere and server.status == "ERROR" and not server.launched_at and not unclean


def proof(acts: Sequence[Action], *, given_up: bool = False) -> tuple[bool | None, str]:
    """Say whether the record of a deleted server proves that its guest has ended; None: not yet.

    `acts`: the newest first, with their events as far as they were asked for. `given_up`: Nova had
    given up building it when its deletion was asked for.
    """
    if all(act.events is None for act in acts):
        return True, "Nova knows it no more (what its host did is not shown to us)"
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


def _never_ran(acts: Sequence[Action], *, given_up: bool) -> bool:
    """Whether a server was only ever made and deleted, and each host that tried to build it failed."""
    if acts[-1].action != "create" or any(act.action not in HARMLESS for act in acts):
        return False
    tries = [event for event in acts[-1].events or () if event.event == BUILT]
    failed = {ERROR, SUCCESS} if given_up else {ERROR}
    return acts[-1].events is not None and all(event.result in failed for event in tries)
