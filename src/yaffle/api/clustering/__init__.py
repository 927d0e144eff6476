"""The clustering API, Senlin's v1: openstacksdk and `openstack cluster …` work against it unchanged.

From a request to its answer: `table` (who, which version, parameters, body) → a handler in `routes`
→ a verb of the engine or a read → `serializers`. `discovery` is what clients ask before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.routing import Route as HttpRoute

from yaffle.api.clustering import discovery, docs_page, openapi
from yaffle.api.clustering.routes import ROUTES
from yaffle.api.clustering.table import http_route
from yaffle.api.http.fixed_documents import Fixed
from yaffle.api.http.reply import encode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastapi import FastAPI

    from yaffle.api.app_context import AppContext
    from yaffle.api.clustering.openapi import Chapter

__all__ = ["mount"]


def mount(app: FastAPI, parts: AppContext, *, also: Sequence[Chapter]) -> None:
    """Add every route of the clustering API, and what answers where none is.

    `also`: the other APIs that its document and its page tell of.
    """
    router = app.router
    router.routes.extend(discovery.documents())
    router.routes.extend(_described(app, also))
    router.routes.extend(http_route(route, parts) for route in ROUTES)
    router.routes.extend(discovery.nowhere())
    router.default = discovery.Elsewhere(router.default)


def _described(app: FastAPI, also: Sequence[Chapter]) -> list[HttpRoute]:
    """Return what tells about the API: for programs, and for people."""

    def told() -> bytes:
        return encode(openapi.whole(app.openapi(), also))

    def shown() -> bytes:
        return docs_page.page(openapi.whole(app.openapi(), also)).encode()

    for_programs = Fixed(told, media="application/json")
    for_people = Fixed(
        shown, media="text/html", headers={"Content-Security-Policy": docs_page.POLICY}
    )
    return [
        HttpRoute("/openapi.json", for_programs.answer, methods=["GET"]),
        HttpRoute("/docs", for_people.answer, methods=["GET"]),
    ]
