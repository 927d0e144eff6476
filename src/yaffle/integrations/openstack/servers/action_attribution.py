"""Attribution of a server's state: Nova's record of acts names the user of each.

A guest that goes off by itself is switched off in Nova by Nova, which records that act as nobody's:
no user and no project. A user's own act bears the user.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from yaffle.integrations.openstack.servers.status_mapping import words_of
from yaffle.integrations.openstack.servers.stuck_tasks import task_of
from yaffle.model.operations import Actor, Cause

if TYPE_CHECKING:
    from yaffle.integrations.openstack.servers.documents import Action, Listed

STOP: Final = "stop"
EXPLAINS: Final[Mapping[str, str]] = {
    "SHUTOFF": STOP,
    "PAUSED": "pause",
    "SUSPENDED": "suspend",
    "SOFT_DELETED": "delete",
    "RESCUE": "rescue",
    "SHELVED": "shelve",
    "SHELVED_OFFLOADED": "shelve",
}
"""The act that leads to a status, where one does; ERROR is nobody's wish."""
GONE: Final = "delete"
BESIDE: Final = frozenset(
    {
        "attach_interface",
        "attach_volume",
        "changePassword",
        "createBackup",
        "createImage",
        "detach_interface",
        "detach_volume",
        "extend_volume",
        "lock",
        "resetState",
        "shelveOffload",
        "swap_volume",
        "unlock",
    }
)
"""Acts that leave a guest as it is."""
MOVES: Final = frozenset({"confirmResize", "migrate", "resize", "revertResize"})
"""Acts that start a guest anew, and leave one that was off switched off: the stop before explains it."""


def newest_of(acts: Sequence[Action]) -> Action | None:
    """Return the newest act that has changed how the guest is; the newest come first."""
    return next((act for act in acts if act.action not in BESIDE), None)


def traced(
    server: Listed | None, acts: Sequence[Action], *, us: str, ours: Callable[[Action], bool]
) -> Cause:
    """Return who it was, by the acts, the newest first; `ours`: whether we have asked for one of them.

    `server` is None where Nova has none any more.
    """
    wanted = _explanation(server)
    newest = newest_of([act for act in acts if wanted != STOP or act.action not in MOVES])
    if newest is None:
        # Of every server there is at least its creation.
        return untold(server, "Nova's record of what was done to it is empty, or not all of it")
    keeps = _keeps(server)
    if newest.action != wanted:
        last = f"the last act was {newest.action}"
        how = words_of(server) if server is not None else "it is gone"
        if wanted == GONE and server is not None and server.task_state:
            # Only a request brings that about; Nova has lost it before it wrote down whose it was.
            detail = f"Nova has no record of who asked for its deletion ({how}); {last}"
            return Cause(actor=Actor.UNKNOWN, detail=detail, keeps=keeps)
        return Cause(actor=Actor.NOBODY, detail=f"nobody asked for that ({how}); {last}")
    told = told_of(newest)
    if newest.user_id is None:
        return Cause(actor=Actor.NOBODY, detail=f"{told}, by Nova itself")
    if newest.user_id != us:
        detail = f"{told}, requested by user {newest.user_id}"
        return Cause(actor=Actor.USER, detail=detail, keeps=keeps)
    if ours(newest):
        return Cause(actor=Actor.OURSELVES, detail=told, keeps=keeps)
    if server is None or (wanted == GONE and server.task_state):
        # A deletion bears no mark: ours in an earlier life, or a person with our credentials.
        detail = f"{told}, with our own credentials"
        return Cause(actor=Actor.UNKNOWN, detail=detail, keeps=keeps)
    return Cause(actor=Actor.USER, detail=f"{told}, by somebody with our own credentials")


def untold(server: Listed | None, why: str) -> Cause:
    """Return the cause where Nova has answered, and does not tell whose it was."""
    return Cause(actor=Actor.UNKNOWN, detail=why, keeps=_keeps(server))


def _keeps(server: Listed | None) -> bool:
    """Whether a request that led to this state wants to have the server again: no deletion does."""
    if server is None:
        return False
    wanted = _explanation(server)
    # What is deleted softly can be restored, until something else is done to it.
    return bool(wanted) and (wanted != GONE or server.task_state is None)


def _explanation(server: Listed | None) -> str:
    """Return the act that would explain how a server is; empty where none does.

    What is being done to it goes before what was done: nobody else may have had a hand in it since.
    """
    if server is None:
        return GONE
    task = task_of(server)
    return (task.ends if task is not None else "") or EXPLAINS.get(server.status, "")


def told_of(act: Action) -> str:
    """Return an act in words."""
    return f"{act.action} at {act.start_time} ({act.request_id})"
