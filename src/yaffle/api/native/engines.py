"""The engines over HTTP: which live, what each watches, and how much of everything is watched."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from yaffle.api import examples
from yaffle.api.app_context import AppContext
from yaffle.api.dependencies import answers
from yaffle.api.http.reply import Reply

All = Annotated[bool, Query(alias="all", description="Also those that have ended.")]


def engines(parts: AppContext) -> APIRouter:
    """Return the routes of engines."""
    router = APIRouter(prefix="/engines", tags=["service"])

    @router.get("", responses=answers({"engines": [examples.ENGINE], "coverage": examples.COVERED}))
    async def list_engines(ended: All = False) -> Response:
        """List the engines of the last day, and say how much is watched, by the database's clock."""
        return Reply(await parts.queries.engines(stopped=ended))

    return router
