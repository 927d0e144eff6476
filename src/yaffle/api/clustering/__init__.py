"""The clustering API, Senlin's v1: openstacksdk and `openstack cluster …` work against it unchanged.

From a request to its answer: `table` (who, which version, parameters, body) → a handler in `routes`
→ a verb of the engine or a read → `shapes`. `discovery` is what clients ask before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import HTMLResponse
from starlette.routing import Route as HttpRoute

from yaffle.api.clustering import discovery, document, page
from yaffle.api.clustering.routes import ROUTES
from yaffle.api.clustering.table import http_route
from yaffle.api.reply import Reply

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.requests import Request
    from starlette.responses import Response

    from yaffle.api.parts import Parts

__all__ = ["mount"]


def mount(app: FastAPI, parts: Parts) -> None:
    """Add every route of the clustering API, and what answers where none is."""
    router = app.router
    router.routes.extend(discovery.documents())
    router.routes.extend(_described(app))
    router.routes.extend(http_route(route, parts) for route in ROUTES)
    router.routes.extend(discovery.nowhere())
    router.default = discovery.Elsewhere(router.default)


def _described(app: FastAPI) -> list[HttpRoute]:
    """Return what tells about the API: for programs, and for people."""

    async def show_document(_: Request) -> Response:
        return Reply(document.whole(app.openapi()))

    async def show_page(_: Request) -> Response:
        text = page.page(document.whole(app.openapi()))
        return HTMLResponse(text, headers={"Content-Security-Policy": page.POLICY})

    return [
        HttpRoute("/openapi.json", show_document, methods=["GET"]),
        HttpRoute("/docs", show_page, methods=["GET"]),
    ]
