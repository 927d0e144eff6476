"""Whether the guest of a server that Nova has forgotten has ended: read from Nova's record of its acts.

A server whose host does not report is deleted by Nova in its own records alone, at once, while the
guest may run on; "not found" is then no proof of anything. Nova's record of the acts tells the two
apart, also after the server is gone: the host leaves an event in it, a deletion without a host none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from yaffle.clouds.openstack.servers.documents import Action

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


def proof(acts: Sequence[Action]) -> tuple[bool | None, str]:
    """Say whether the record of a deleted server proves that its guest has ended; None: not yet.

    `acts`: the newest first, with their events as far as they were asked for.
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
    if _never_ran(acts):
        return True, "no host had ever built it"
    shelved = next((act.action for act in acts if act.action in SHELVING), "")
    if shelved == "shelveOffload":
        return True, "it was shelved, on no host"
    return False, "its host has never confirmed that the guest has ended"


def _never_ran(acts: Sequence[Action]) -> bool:
    """Whether a server was only ever made and deleted, and each host that tried to build it failed."""
    if acts[-1].action != "create" or any(act.action not in HARMLESS for act in acts):
        return False
    tries = [event for event in acts[-1].events or () if event.event == BUILT]
    return acts[-1].events is not None and all(event.result == ERROR for event in tries)
