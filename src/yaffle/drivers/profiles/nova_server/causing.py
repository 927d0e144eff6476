"""Who brought a server into the state it is in: Nova's record of acts names the user of each.

A guest that goes off by itself is switched off in Nova by Nova, which records that act as nobody's:
no user and no project. A user's own act bears the user. Ours are those that a mark has announced.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from yaffle.clouds.openstack.servers.mapping import words_of
from yaffle.drivers.profiles.nova_server.judging import act_after
from yaffle.drivers.profiles.nova_server.marks import mark_of
from yaffle.drivers.profiles.nova_server.verbs import VERBS
from yaffle.model.operations import Actor, Cause

if TYPE_CHECKING:
    from yaffle.clouds.openstack.memory import Memory
    from yaffle.clouds.openstack.servers.documents import Action
    from yaffle.drivers.profiles.nova_server.documents import Server
    from yaffle.drivers.profiles.nova_server.nova import Nova
    from yaffle.model.operations import Target

EXPLAINS: Final[Mapping[str, str]] = {
    "SHUTOFF": "stop",
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
        "shelveOffload",
        "swap_volume",
        "unlock",
    }
)
"""Acts that leave a guest as it is."""


def cause(nova: Nova, memory: Memory, target: Target) -> Cause:
    """Return who it was; two or three requests."""
    ident = target.physical_id
    server = nova.show(ident) if ident else None
    acts = nova.acts(ident) if ident else None
    if acts is None:
        return Cause(actor=Actor.UNKNOWN, detail=f"Nova tells nothing of what was done to {ident}")
    return traced(server, acts, us=nova.client.user_id, sent=memory.sent)


def traced(
    server: Server | None, acts: Sequence[Action], *, us: str, sent: Callable[[str], bool]
) -> Cause:
    """Return who it was, by the acts, the newest first; `sent`: whether a request id is ours."""
    wanted = EXPLAINS.get(server.status, "") if server is not None else GONE
    newest = next((act for act in acts if act.action not in BESIDE), None)
    if newest is None or newest.action != wanted:
        last = f"the last act was {newest.action}" if newest else "nothing was ever done to it"
        how = words_of(server) if server is not None else "it is gone"
        return Cause(actor=Actor.NOBODY, detail=f"nobody asked for that ({how}); {last}")
    told = f"{newest.action} at {newest.start_time} ({newest.request_id})"
    if newest.user_id is None:
        return Cause(actor=Actor.NOBODY, detail=f"{told}, by Nova itself")
    if newest.user_id != us:
        return Cause(actor=Actor.USER, detail=f"{told}, asked for by user {newest.user_id}")
    if (newest.request_id and sent(newest.request_id)) or _announced(server, acts, newest, us):
        return Cause(actor=Actor.OURSELVES, detail=told)
    if server is None:
        # Its mark is gone with it: ours in an earlier life, or a person with our credentials.
        return Cause(actor=Actor.UNKNOWN, detail=f"{told}, with our own credentials")
    return Cause(actor=Actor.USER, detail=f"{told}, by somebody with our own credentials")


def _announced(server: Server | None, acts: Sequence[Action], act: Action, us: str) -> bool:
    mark = mark_of(server.metadata) if server is not None else None
    verb = VERBS.get(mark.kind) if mark is not None else None
    if mark is None or verb is None or verb.act != act.action:
        return False
    return act_after(acts, verb.act, mark.before, us) is act
