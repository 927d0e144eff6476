"""Nodes as operators see them over HTTP: how they are, why, and marks."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from yaffle.api import examples
from yaffle.api.app_context import AppContext
from yaffle.api.bodies import OptionalReasonBody, ReasonBody
from yaffle.api.dependencies import By, Word, answers
from yaffle.api.http.reply import Reply
from yaffle.api.middleware.access import WORD_MAX

ClusterWord = Annotated[
    str | None, Query(max_length=WORD_MAX, description="Name or id of a cluster.")
]
Attention = Annotated[
    bool,
    Query(description="Only those that are not active and healthy, or that something is done to."),
]
ReasonWord = Annotated[str, Query(max_length=1000, description="As the body's `reason`.")]
NODE = {"node": examples.NODE}


def nodes(parts: AppContext) -> APIRouter:
    """Return the routes of nodes."""
    router = APIRouter(prefix="/nodes", tags=["nodes"])

    @router.get("", responses=answers({"nodes": [examples.NODE], "total": 1}))
    async def list_nodes(
        by: By, cluster: ClusterWord = None, attention: Attention = False
    ) -> Response:
        """List nodes, all or those of a cluster; `total` says how many there are at all."""
        found = await parts.queries.nodes(by.who(), cluster, attention=attention)
        return Reply({"nodes": found, "total": await parts.queries.count(by.who())})

    @router.get("/{node}", responses=answers(NODE))
    async def show_node(node: Word, by: By) -> Response:
        """Show one node."""
        return Reply({"node": await parts.queries.node(by.who(), node)})

    @router.get("/{node}/why", responses=answers({"why": examples.WHY}))
    async def explain_node(node: Word, by: By) -> Response:
        """Explain how the node is, what was decided with every number, and what you can do."""
        return Reply({"why": (await parts.why.why(by.who(), node)).as_json()})

    @router.post("/{node}/mark", responses=answers(NODE))
    async def mark_node(node: Word, body: ReasonBody, by: By) -> Response:
        """Mark a node unhealthy; no check erases the mark."""
        await parts.commands.node_mark(by.who(body.by), node, reason=body.reason)
        return Reply({"node": await parts.queries.node(by.who(), node)})

    @router.delete("/{node}/mark", responses=answers(NODE))
    async def unmark_node(
        node: Word, by: By, body: OptionalReasonBody | None = None, reason: ReasonWord = ""
    ) -> Response:
        """Lift a mark; what the checks say counts again."""
        said = body or OptionalReasonBody()
        await parts.commands.node_unmark(by.who(said.by), node, reason=said.reason or reason)
        return Reply({"node": await parts.queries.node(by.who(), node)})

    return router
