"""Clusters, the policies attached to them, and the release of their storm brake over HTTP."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from yaffle.api import examples
from yaffle.api.asking import By, Word, answers, location
from yaffle.api.bodies import AttachBody, ClusterBody, EnabledBody, ReleaseBody
from yaffle.api.parts import Parts
from yaffle.api.reply import Reply

FULL = {"cluster": {**examples.CLUSTER, "nodes": [examples.NODE]}}


def clusters(parts: Parts) -> APIRouter:
    """Return the routes of clusters."""
    router = APIRouter(prefix="/clusters", tags=["clusters"])

    @router.get("", responses=answers({"clusters": [examples.CLUSTER]}))
    async def list_clusters(by: By) -> Response:
        """List every cluster, the oldest first."""
        return Reply({"clusters": await parts.queries.clusters(by.who())})

    @router.post("", status_code=202, responses=answers(FULL, status=202))
    async def create_cluster(body: ClusterBody, by: By) -> Response:
        """Create a cluster; its nodes are being built when this is answered."""
        who = by.who(body.by)
        ident = await parts.commands.create_cluster(
            body.name, body.profile, body.size, by=who, policy=body.policy
        )
        found = await parts.queries.cluster(by.who(), ident)
        return Reply({"cluster": found}, 202, location("clusters", ident))

    @router.get("/{cluster}", responses=answers(FULL))
    async def show_cluster(cluster: Word, by: By) -> Response:
        """Show one cluster with its nodes, policies and holds."""
        return Reply({"cluster": await parts.queries.cluster(by.who(), cluster)})

    @router.delete("/{cluster}", status_code=202, responses=answers(FULL, status=202))
    async def delete_cluster(cluster: Word, by: By) -> Response:
        """Delete a cluster with its nodes; they are being deleted when this is answered."""
        before = await parts.queries.cluster(by.who(), cluster)
        await parts.commands.delete_cluster(str(before["id"]), by=by.who())
        return Reply({"cluster": {**before, "status": "DELETING"}}, 202)

    @router.post("/{cluster}/policies", responses=answers(FULL))
    async def attach_policy(cluster: Word, body: AttachBody, by: By) -> Response:
        """Attach a health policy; a cluster has at most one."""
        who = by.who(body.by)
        await parts.commands.attach(cluster, body.policy, by=who, enabled=body.enabled)
        return Reply({"cluster": await parts.queries.cluster(by.who(), cluster)})

    @router.patch("/{cluster}/policies/{policy}", responses=answers(FULL))
    async def switch_policy(cluster: Word, policy: Word, body: EnabledBody, by: By) -> Response:
        """Switch an attached policy on or off."""
        who = by.who(body.by)
        await parts.commands.set_policy_enabled(cluster, policy, enabled=body.enabled, by=who)
        return Reply({"cluster": await parts.queries.cluster(by.who(), cluster)})

    @router.delete("/{cluster}/policies/{policy}", responses=answers(FULL))
    async def detach_policy(cluster: Word, policy: Word, by: By) -> Response:
        """Detach a policy; recoveries that run go on with the policy they began with."""
        await parts.commands.detach(cluster, policy, by=by.who())
        return Reply({"cluster": await parts.queries.cluster(by.who(), cluster)})

    @router.post("/{cluster}/release", responses=answers(FULL))
    async def release_cluster(cluster: Word, body: ReleaseBody, by: By) -> Response:
        """Release the storm brake for a while: heal although many are sick."""
        await parts.commands.release(
            cluster, by=by.who(body.by), reason=body.reason, for_s=body.for_s
        )
        return Reply({"cluster": await parts.queries.cluster(by.who(), cluster)})

    return router
