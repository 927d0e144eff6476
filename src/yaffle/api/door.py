"""The outermost layer: every request gets an id and a log line, every answer its headers.

Here too ends what nobody expected: the caller gets a 500 with the id, the log gets the traceback.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Final

import structlog
from starlette.datastructures import MutableHeaders

from yaffle.api.envelope import refusal
from yaffle.api.masking import masked_path

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

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


class Door:
    """Wraps an ASGI application."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; anything but HTTP is turned away."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            return
        await _Visit(scope, send).serve(self._app, receive)


class _Visit:
    """One request on its way through."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self._scope = scope
        self._send = send
        self._ident = f"req-{uuid.uuid4()}"
        self._status = 0
        scope["yaffle.request_id"] = self._ident

    async def serve(self, app: ASGIApp, receive: Receive) -> None:
        """Call the application and answer for whatever it raises."""
        with structlog.contextvars.bound_contextvars(request=self._ident):
            try:
                await app(self._scope, receive, self._answer)
            except Exception:  # the one door: nothing of ours leaves by it, and all is logged
                # Starlette has answered most of them (`envelope`) and raises them again for servers.
                if not self._status:
                    log.exception("request failed")
                    await self._sorry(receive)
            # Programs poll; what changes something, or fails, is worth a line in any log.
            quiet = self._scope["method"] in {"GET", "HEAD"} and self._status < 400
            (log.debug if quiet else log.info)(
                "request",
                method=self._scope["method"],
                path=masked_path(self._scope["path"]),
                status=self._status,
                user=self._scope.get("yaffle.user") or "",
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
            self._status = message["status"]
            headers = MutableHeaders(scope=message)
            headers["X-Request-Id"] = self._ident
            headers["X-Openstack-Request-Id"] = self._ident
            headers.setdefault("Cache-Control", CACHE)
            headers.setdefault("Content-Security-Policy", CONTENT)
            for name, value in HEADERS.items():
                headers[name] = value
        await self._send(message)
