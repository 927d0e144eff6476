"""The application during start-up: it answers at once, and gives way when the database is there.

A process that starts while the database is away must live, say so, and go on by itself when it is
back. Until then everything is answered with 503, `Retry-After` and the reason, in the shape of
whichever API was asked, and `/health` with a document that says what is waited for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import PlainTextResponse

from yaffle import __version__
from yaffle.api.app import build
from yaffle.api.auth import read_identity
from yaffle.api.errors import envelope
from yaffle.api.errors.refusals import Refused, answer
from yaffle.api.middleware.access import AccessControl
from yaffle.api.middleware.request_log import RequestLog
from yaffle.api.native import system
from yaffle.api.self_health import Vitals

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

    from yaffle.api.app_context import AppContext
    from yaffle.api.audit import Audit
    from yaffle.config import ServerSettings
    from yaffle.ports import Clock

RETRY_S: Final = 2
"""When to ask again: about as long as a server takes to take over from another."""


class StartupApp:
    """An ASGI application whose inside is given to it later, once."""

    def __init__(self, server: ServerSettings, *, clock: Clock, vitals: Vitals) -> None:
        """Raise ConfigError where it would be open to strangers; `server` says where it listens."""
        self._vitals = vitals
        self._inside: ASGIApp = self._wait
        self._gate = AccessControl(
            self._pass_on, server=server, identity=read_identity(server, clock)
        )
        self._app = RequestLog(self._gate)
        self.fault = "it is being opened"
        """What the database says as long as it cannot be opened."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        await self._app(scope, receive, send)

    def record(self, audit: Audit) -> None:
        """Write down changes and refusals from now on."""
        self._app.audit = audit

    def admit(self, parts: AppContext) -> None:
        """Serve the whole API from now on, behind access control."""
        self._measure(parts)
        self._gate.trusts = parts.trusts
        self._gate.tenancy = parts.tenancy
        self._inside = build(parts)

    def admit_probes(self, told: system.Told) -> None:
        """Serve `/health` and `/metrics` from now on, and nothing else."""
        self._measure(told)
        self._inside = probes(told)

    def _measure(self, told: system.Told) -> None:
        if self._app.audit is not None:
            self._app.audit.count_in(told.counted.audit_lost)

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._inside(scope, receive, send)

    async def _wait(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"] if scope["method"] in {"GET", "HEAD"} else ""
        if path in system.READY:
            await self._unwell(scope)(scope, receive, send)
            return
        if path == system.LIVE:
            await PlainTextResponse("ok\n")(scope, receive, send)
            return
        away = Refused(
            503,
            f"the database is away: {self.fault}",
            hint="It is asked again every second; so may you.",
            headers=[("Retry-After", str(RETRY_S))],
        )
        await answer(scope, away)(scope, receive, send)

    def _unwell(self, scope: Scope) -> Response:
        said = self._vitals.answer(Request(scope))
        said.headers["Retry-After"] = str(RETRY_S)
        return said


def probes(told: system.Told) -> FastAPI:
    """Return `/health` and `/metrics` alone: what an engine shows of itself."""
    app = FastAPI(
        title="Yaffle engine",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
    )
    app.include_router(system.process(told))
    envelope.install(app)
    return app
