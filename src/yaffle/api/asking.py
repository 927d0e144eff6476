"""Who asks, how much, and what every route's documentation shares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import Depends, Path, Query
from starlette.requests import Request

LOCAL_USER = "local user"
WORD_MAX = 255


class Asker:
    """Who asks: the token's name; where none is needed, what the body or the header says."""

    def __init__(self, request: Request) -> None:
        token = request.scope.get("yaffle.user")
        self._token = token if isinstance(token, str) else ""
        header = request.headers.get("x-yaffle-user", "").strip()[:WORD_MAX]
        self._header = header if header.isprintable() else ""

    def name(self, said: str | None = None) -> str:
        """Return the name that events carry; `said` is the body's word."""
        return self._token or said or self._header or LOCAL_USER


By = Annotated[Asker, Depends(Asker)]
Limit = Annotated[int, Query(ge=1, le=1000, description="At most so many.")]
NodeWord = Annotated[str | None, Query(max_length=WORD_MAX, description="Name or id of a node.")]
Word = Annotated[str, Path(max_length=WORD_MAX, description="Name, id, or the beginning of an id.")]


def answers(
    example: object, *, status: int = 200, text: str = "As asked."
) -> dict[int | str, dict[str, Any]]:
    """Return the documentation of a route's good answer."""
    return {status: {"description": text, "content": {"application/json": {"example": example}}}}


def location(kind: str, ident: object) -> Mapping[str, str]:
    """Return the header that says where a new object is."""
    return {"Location": f"/yaffle/v1/{kind}/{ident}"}
