"""Clusters as operators see them, and the release of their storm limit over HTTP."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from yaffle.api import examples
from yaffle.api.app_context import AppContext
from yaffle.api.bodies import ReleaseBody
from yaffle.api.dependencies import By, Word, answers
from yaffle.api.http.reply import Reply

FULL = {"cluster": {**examples.CLUSTER, "nodes": [examples.NODE]}}


def clusters(parts: AppContext) -> APIRouter:
    """Return the routes of clusters."""
    router = APIRouter(prefix="/clusters", tags=["clusters"])

    @router.get("", responses=answers({"clusters": [examples.CLUSTER]}))
    async def list_clusters(by: By) -> Response:
        """List every cluster, the oldest first."""
        return Reply({"clusters": await parts.queries.clusters(by.who())})

    @router.get("/{cluster}", responses=answers(FULL))
    async def show_cluster(cluster: Word, by: By) -> Response:
        """Show one cluster with its nodes, policies and holds."""
        return Reply({"cluster": await parts.queries.cluster(by.who(), cluster)})

    @router.post("/{cluster}/release", responses=answers(FULL))
    async def release_cluster(cluster: Word, body: ReleaseBody, by: By) -> Response:
        """Release the storm limit for a while: heal although many are unhealthy."""
        await parts.commands.release(
            cluster, by=by.who(body.by), reason=body.reason, for_s=body.for_s
        )
        return Reply({"cluster": await parts.queries.cluster(by.who(), cluster)})

    return router
