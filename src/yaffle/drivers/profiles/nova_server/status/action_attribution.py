"""Attribution of the acts that Nova has recorded: ours are those that a mark on the server announces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from yaffle.drivers.profiles.nova_server.tracking.action_progress import act_after
from yaffle.drivers.profiles.nova_server.tracking.ownership_tags import mark_of
from yaffle.drivers.profiles.nova_server.tracking.verbs import VERBS
from yaffle.integrations.openstack.servers import action_attribution
from yaffle.model.operations import Actor, Cause

if TYPE_CHECKING:
    from yaffle.drivers.profiles.nova_server.api.documents import Server
    from yaffle.drivers.profiles.nova_server.api.nova import Nova
    from yaffle.integrations.openstack.sent_requests import SentRequests
    from yaffle.integrations.openstack.servers.documents import Action
    from yaffle.model.operations import Target


def cause(nova: Nova, memory: SentRequests, target: Target) -> Cause:
    """Return who it was; two or three requests."""
    ident = target.physical_id
    server = nova.show(ident) if ident else None
    acts = nova.acts(ident) if ident else None
    if acts is None:
        return action_attribution.untold(server, f"Nova tells nothing of what was done to {ident}")
    return traced(server, acts, us=nova.client.user_id, sent=memory.sent)


def unasked(why: str) -> Cause:
    """Return the cause of what Nova did not say."""
    return Cause(actor=Actor.UNASKED, detail=f"who asked for that could not be found out: {why}")


def traced(
    server: Server | None, acts: Sequence[Action], *, us: str, sent: Callable[[str], bool]
) -> Cause:
    """Return who it was, by the acts, the newest first; `sent`: whether a request id is ours."""

    def ours(act: Action) -> bool:
        request = act.request_id
        return bool(request and sent(request)) or _announced(server, acts, act, us)

    return action_attribution.traced(server, acts, us=us, ours=ours)


def _announced(server: Server | None, acts: Sequence[Action], act: Action, us: str) -> bool:
    mark = mark_of(server.metadata) if server is not None else None
    verb = VERBS.get(mark.kind) if mark is not None else None
    if mark is None or verb is None or verb.act != act.action:
        return False
    return act_after(acts, verb.act, mark.before, us) is act
