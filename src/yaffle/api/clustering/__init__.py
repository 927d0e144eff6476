"""The clustering API, Senlin's v1: openstacksdk and `openstack cluster …` work against it unchanged.

From a request to its answer: `table` (who, which version, parameters, body) → a handler in `routes`
→ a verb of the engine or a read → `shapes`. `discovery` is what clients ask before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yaffle.api.clustering import discovery
from yaffle.api.clustering.routes import ROUTES
from yaffle.api.clustering.table import http_route

if TYPE_CHECKING:
    from fastapi import FastAPI

    from yaffle.api.parts import Parts

__all__ = ["mount"]


def mount(app: FastAPI, parts: Parts) -> None:
    """Add every route of the clustering API, and what answers where none is."""
    router = app.router
    router.routes.extend(discovery.documents())
    router.routes.extend(http_route(route, parts) for route in ROUTES)
    router.routes.extend(discovery.nowhere())
    router.default = discovery.Elsewhere(router.default)
