"""Door and gate from the first moment of a process; what is behind them comes when the database does.

A process that starts while the database is away must live, say so, and go on by itself when it is
back. Until then everything is answered with 503, `Retry-After` and the reason, in the shape of
whichever API was asked, and `/health` with a document that says what is waited for.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Final

from fastapi import FastAPI

from yaffle import __version__
from yaffle.api import envelope
from yaffle.api.app import build
from yaffle.api.doctor import Check, Status, vital
from yaffle.api.door import Door
from yaffle.api.gate import Gate
from yaffle.api.identity import read_identity
from yaffle.api.refusing import Refused, answer
from yaffle.api.reply import HealthReply
from yaffle.api.routes import system

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from yaffle.api.parts import Parts
    from yaffle.config import ServerSettings
    from yaffle.ports import Clock

RETRY_S: Final = 2
"""When to ask again: about as long as a server takes to take over from another."""


class Entrance:
    """An ASGI application whose inside is given to it later, once."""

    def __init__(self, server: ServerSettings, *, clock: Clock, host: str) -> None:
        """Raise ConfigError where it would be open to strangers; `server` says where it listens."""
        self._clock = clock
        self._host = host
        self._service_id = str(uuid.uuid4())
        self._inside: ASGIApp = self._wait
        self._app = Door(Gate(self._pass_on, server=server, identity=read_identity(server, clock)))
        self.fault = "it is being opened"
        """What the database says as long as it cannot be opened."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        await self._app(scope, receive, send)

    def admit(self, parts: Parts) -> None:
        """From now on the whole API is behind the gate."""
        self._inside = build(parts)

    def admit_probes(self, told: system.Told) -> None:
        """From now on `/health` and `/metrics` are, and nothing else."""
        self._inside = probes(told)

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._inside(scope, receive, send)

    async def _wait(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/health" and scope["method"] in {"GET", "HEAD"}:
            await self._health()(scope, receive, send)
            return
        away = Refused(
            503,
            f"the database is away: {self.fault}",
            hint="It is asked again every second; so may you.",
            headers=[("Retry-After", str(RETRY_S))],
        )
        await answer(scope, away)(scope, receive, send)

    def _health(self) -> HealthReply:
        check = Check(
            name="database",
            status=Status.FAIL,
            # Anybody may ask for this page: what the database said is in the log.
            detail="it has not been reached since the start; see the log",
        )
        body, _ = vital.document(
            [check], now_us=self._clock.now_us(), service_id=self._service_id, host=self._host
        )
        headers = {"Cache-Control": "no-cache", "Retry-After": str(RETRY_S)}
        return HealthReply(body, 503, headers)


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
