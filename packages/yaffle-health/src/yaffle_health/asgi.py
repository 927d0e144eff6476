"""/health inside an ASGI service (FastAPI, Starlette, Quart): an app, or a middleware around one.

It is answered by the event loop that also does the service's work, so a blocked loop cannot answer:
right for a readiness probe. The endpoint of its own (`serve`) answers even then, and says so.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from yaffle_health.http import Response
from yaffle_health.manager import Manager
from yaffle_health.owned import Owned, Source, headers
from yaffle_health.views import Shape

# ASGI's own words: a message is a dict with whatever its type asks for.
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]


class HealthApp:
    """Answer /health; pass everything else to `app`, or say 404 where there is none.

    A manager is asked at once, in memory; any other source in a thread, since it may read sockets.
    """

    def __init__(
        self,
        app: App | None = None,
        *,
        source: Source,
        path: str = "/health",
        ttl_s: int | None = None,
        cache_control: int | None = None,
        format: str = Shape.NOVA,  # noqa: A002 - the option's name
        group: str | None = None,
    ) -> None:
        """Take the endpoint's options; BadOption for a value or a path that cannot be ours."""
        self._app = app
        self._in_memory = isinstance(source, Manager)
        self._owned = Owned(
            source,
            path=path,
            ttl_s=ttl_s,
            cache_control=cache_control,
            format=format,
            group=group,
        )

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Be an ASGI application."""
        if scope["type"] == "http" and self._is_ours(scope):
            await _reply(await self._respond(scope), send)
        elif self._app is not None:
            await self._app(scope, receive, send)
        elif scope["type"] == "lifespan":
            await _live(receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})
        else:
            await _not_found(send)

    def _is_ours(self, scope: Message) -> bool:
        path, root = scope["path"], scope.get("root_path", "")
        if self._app is None:
            # Mounted at its own path, it sees that path in full; under a prefix, prefix and path.
            return self._owned.path in {path, path.removeprefix(root)}
        return bool(path.removeprefix(root) == self._owned.path)

    async def _respond(self, scope: Message) -> Response:
        accept = ", ".join(
            value.decode("latin-1") for name, value in scope["headers"] if name == b"accept"
        )
        query = scope.get("query_string", b"").decode("latin-1")
        if self._in_memory:
            return self._owned.respond(scope["method"], query, accept)
        import asyncio

        return await asyncio.to_thread(self._owned.respond, scope["method"], query, accept)


async def _reply(response: Response, send: Send) -> None:
    raw = [
        (name.lower().encode("latin-1"), value.encode("latin-1"))
        for name, value in headers(response)
    ]
    await send({"type": "http.response.start", "status": response.status, "headers": raw})
    body = b"" if response.head_only else response.body
    await send({"type": "http.response.body", "body": body})


async def _not_found(send: Send) -> None:
    text = [(b"content-type", b"text/plain; charset=utf-8")]
    await send({"type": "http.response.start", "status": 404, "headers": text})
    await send({"type": "http.response.body", "body": b"only the health endpoint is here\n"})


async def _live(receive: Receive, send: Send) -> None:
    """Follow the server through its life, which an app of one page has nothing to do with."""
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
