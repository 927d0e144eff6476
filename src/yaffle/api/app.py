"""The ASGI application: middleware first, then routes that call commands, queries and explanations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import Depends, FastAPI

from yaffle import __version__
from yaffle.api import clustering, instance_ha, openapi
from yaffle.api.app_context import PREFIX, AppContext
from yaffle.api.auth import read_identity
from yaffle.api.errors import envelope
from yaffle.api.middleware.access import AccessControl
from yaffle.api.middleware.request_log import RequestLog
from yaffle.api.native import (
    catalogue,
    clusters,
    engines,
    history,
    hosts,
    imports,
    nodes,
    operators,
    sessions,
    system,
)
from yaffle.api.rights import has_row
from yaffle.engine.runtime.clock import SystemClock

if TYPE_CHECKING:
    from starlette.types import ASGIApp

DESCRIPTION = "Watches, decides safely, heals, and can say why. Errors have one shape: `error`."


def create_app(parts: AppContext) -> ASGIApp:
    """Return the application; raise ConfigError where it would be open to strangers."""
    identity = read_identity(parts.server, SystemClock())
    gate = AccessControl(
        build(parts),
        server=parts.server,
        identity=identity,
        trusts=parts.trusts,
        tenancy=parts.tenancy,
    )
    return RequestLog(gate)


def build(parts: AppContext) -> FastAPI:
    """Return the routes alone, without the door: what the OpenAPI document describes."""
    app = FastAPI(
        title="Yaffle",
        version=__version__,
        description=DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
        dependencies=[Depends(has_row)],
    )
    for router in (
        system.entrance(parts),
        catalogue.policies(parts),
        clusters.clusters(parts),
        nodes.nodes(parts),
        history.incidents(parts),
        history.decisions(parts),
        history.history(parts),
        operators.maintenance(parts),
        operators.stop(parts),
        hosts.hosts(parts),
        hosts.told(parts),
        hosts.alerts(parts),
        engines.engines(parts),
        sessions.sessions(),
        imports.imports(parts),
    ):
        app.include_router(router, prefix=PREFIX)
    app.include_router(system.process(parts))
    instance_ha.mount(app, parts)
    clustering.mount(app, parts, also=[instance_ha.CHAPTER])
    envelope.install(app)
    openapi.describe(app)
    return app
