"""The ASGI application: the door first, then routes that call commands, queries and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import Depends, FastAPI

from yaffle import __version__
from yaffle.api import clustering, envelope, openapi
from yaffle.api.door import Door
from yaffle.api.gate import Gate
from yaffle.api.identity import read_identity
from yaffle.api.parts import PREFIX, Parts
from yaffle.api.rights import has_row
from yaffle.api.routes import (
    catalogue,
    clusters,
    engines,
    history,
    imports,
    nodes,
    operators,
    sessions,
    system,
)
from yaffle.engine.clock import SystemClock

if TYPE_CHECKING:
    from starlette.types import ASGIApp

DESCRIPTION = "Watches, decides safely, heals, and can say why. Errors have one shape: `error`."


def create_app(parts: Parts) -> ASGIApp:
    """Return the application; raise ConfigError where it would be open to strangers."""
    identity = read_identity(parts.server, SystemClock())
    gate = Gate(
        build(parts),
        server=parts.server,
        identity=identity,
        trusts=parts.trusts,
        tenancy=parts.tenancy,
    )
    return Door(gate)


def build(parts: Parts) -> FastAPI:
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
        engines.engines(parts),
        sessions.sessions(),
        imports.imports(parts),
    ):
        app.include_router(router, prefix=PREFIX)
    app.include_router(system.process(parts))
    clustering.mount(app, parts)
    envelope.install(app)
    openapi.describe(app)
    return app
