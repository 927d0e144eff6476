"""Static documents with ETags: bytes made once, and 304 for whoever has them."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response


class Fixed:
    """A document that never changes; `make` is called at the first request, off the event loop."""

    def __init__(
        self, make: Callable[[], bytes], *, media: str, headers: Mapping[str, str] | None = None
    ) -> None:
        self._make = make
        self._media = media
        self._headers = dict(headers or {})
        self._making = asyncio.Lock()
        self._made: tuple[bytes, str] | None = None

    async def answer(self, request: Request) -> Response:
        """Return the document, or that it has not changed."""
        body, tag = self._made or await self._first()
        headers = {**self._headers, "ETag": tag, "Cache-Control": "no-cache"}
        known = {
            word.strip().removeprefix("W/")
            for value in request.headers.getlist("if-none-match")
            for word in value.split(",")
        }
        if known & {tag, "*"}:
            return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
        return Response(body, media_type=self._media, headers=headers)

    async def _first(self) -> tuple[bytes, str]:
        async with self._making:
            if self._made is None:
                body = await asyncio.to_thread(self._make)
                self._made = body, f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        return self._made
