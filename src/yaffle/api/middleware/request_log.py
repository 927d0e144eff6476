"""The request log, the outermost middleware: request ids, log lines, response headers.

Here too ends what nobody expected: the caller gets a 500 with the id, the log gets the traceback.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import structlog
from starlette.datastructures import MutableHeaders

from yaffle.api.errors.envelope import refusal
from yaffle.api.masking import masked_path
from yaffle.engine.runtime.clock import SystemClock

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from yaffle.api.audit import Audit

log = structlog.get_logger()

HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
CONTENT: Final = "default-src 'none'; frame-ancestors 'none'"
"""What pages may do that say nothing else: nothing."""
CACHE: Final = "no-store"
REFUSED: Final = frozenset({400, 401, 403, 404, 405, 408, 413, 415, 421, 429, 503})


STRANGERS_MAX: Final = 20
"""Lines a second about refusals of those whom nobody knows; the rest of them is counted."""


class Strangers:
    """Bounds the lines of the log that anybody at all can have written."""

    def __init__(self, clock_s: Callable[[], float]) -> None:
        self._clock_s = clock_s
        self._second = 0
        self._told = 0
        self._left_out = 0

    def admit(self) -> bool:
        """Whether there is room for one more line; says first how many have been left out."""
        second = int(self._clock_s())
        if second != self._second:
            if self._left_out:
                log.warning("refusals not logged", count=self._left_out)
            self._second, self._told, self._left_out = second, 0, 0
        self._told += 1
        self._left_out += self._told > STRANGERS_MAX
        return self._told <= STRANGERS_MAX


class RequestLog:
    """Wraps an ASGI application."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.audit: Audit | None = None
        """Known only once the state directory is ours."""
        self._strangers = Strangers(SystemClock().monotonic_s)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; anything but HTTP is turned away."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            return
        visit = _Visit(scope, send, self._strangers)
        try:
            await visit.serve(self._app, receive)
        finally:
            # Also where its caller did not wait for the answer: what was asked for may be done.
            if self.audit is not None:
                self.audit.visited(scope, visit.status)


class _Visit:
    """The handling of one request."""

    def __init__(self, scope: Scope, send: Send, strangers: Strangers) -> None:
        self._strangers = strangers
        self._scope = scope
        self._send = send
        self._ident = f"req-{uuid.uuid4()}"
        self.status = 0
        scope["yaffle.request_id"] = self._ident

    async def serve(self, app: ASGIApp, receive: Receive) -> None:
        """Call the application and answer for whatever it raises."""
        with structlog.contextvars.bound_contextvars(request=self._ident):
            try:
                await app(self._scope, receive, self._answer)
            except Exception:  # the one door: nothing of ours leaves by it, and all is logged
                # Starlette has answered most of them (`envelope`) and raises them again for servers.
                if not self.status:
                    log.exception("request failed")
                    await self._sorry(receive)
            # Programs poll; what changes something, or fails, is worth a line in any log.
            quiet = self._scope["method"] in {"GET", "HEAD"} and self.status < 400
            user = str(self._scope.get("yaffle.user") or "")
            if self.status in REFUSED and not user and not self._strangers.admit():
                return
            (log.debug if quiet else log.info)(
                "request",
                method=self._scope["method"],
                path=masked_path(self._scope["path"]),
                status=self.status,
                user=user,
            )

    async def _sorry(self, receive: Receive) -> None:
        answer = refusal(
            500,
            f"something went wrong here; the log of the server knows {self._ident}",
            request_id=self._ident,
        )
        await answer(self._scope, receive, self._answer)

    async def _answer(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            headers["X-Request-Id"] = self._ident
            headers["X-Openstack-Request-Id"] = self._ident
            headers.setdefault("Cache-Control", CACHE)
            headers.setdefault("Content-Security-Policy", CONTENT)
            for name, value in HEADERS.items():
                headers[name] = value
        await self._send(message)
