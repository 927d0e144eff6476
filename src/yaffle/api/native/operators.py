"""Maintenance and the global stop over HTTP."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from yaffle.api import examples
from yaffle.api.app_context import AppContext
from yaffle.api.bodies import MaintenanceBody, StopBody
from yaffle.api.dependencies import By, Word, answers, location
from yaffle.api.http.reply import Reply
from yaffle.model.incident import PauseKind, PauseScope

All = Annotated[bool, Query(alias="all", description="Also those lifted or expired.")]
STOP = {**examples.PAUSE, "kind": "stop", "scope": "all", "target": "", "target_id": ""}


def maintenance(parts: AppContext) -> APIRouter:
    """Return the routes of maintenance."""
    router = APIRouter(prefix="/maintenance", tags=["operators"])

    @router.get("", responses=answers({"maintenance": [examples.PAUSE]}))
    async def list_maintenance(by: By, history: All = False) -> Response:
        """List maintenance in force, or all that ever was."""
        found = await parts.queries.pauses(by.who(), PauseKind.MAINTENANCE, history=history)
        return Reply({"maintenance": found})

    @router.post(
        "", status_code=201, responses=answers({"maintenance": examples.PAUSE}, status=201)
    )
    async def begin_maintenance(body: MaintenanceBody, by: By) -> Response:
        """Begin planned work: what it covers is watched, and left alone."""
        ident = await parts.commands.pause(
            PauseKind.MAINTENANCE,
            PauseScope(body.scope),
            body.target,
            owner=by.who(body.by),
            reason=body.reason,
            for_s=body.for_s,
        )
        found = await parts.queries.pause(by.who(), ident)
        return Reply({"maintenance": found}, 201, location("maintenance", ident))

    @router.delete("/{pause}", status_code=204)
    async def end_maintenance(pause: Word, by: By) -> Response:
        """End planned work before its time."""
        await parts.commands.lift(pause, by=by.who())
        return Response(status_code=204)

    return router


def stop(parts: AppContext) -> APIRouter:
    """Return the routes of the global stop."""
    router = APIRouter(prefix="/stop", tags=["operators"])

    @router.get("", responses=answers({"stopped": True, "stops": [STOP]}))
    async def show_stop(by: By, history: All = False) -> Response:
        """Say whether everything is stopped, by whom and why."""
        found = await parts.queries.pauses(by.who(), PauseKind.STOP, history=history)
        return Reply({"stopped": any(p["in_force"] for p in found), "stops": found})

    @router.post("", status_code=201, responses=answers({"stop": STOP}, status=201))
    async def stop_all(body: StopBody, by: By) -> Response:
        """Stop all healing; watching goes on."""
        ident = await parts.commands.pause(
            PauseKind.STOP,
            PauseScope.ALL,
            "",
            owner=by.who(body.by),
            reason=body.reason,
            for_s=body.for_s,
        )
        return Reply({"stop": await parts.queries.pause(by.who(), ident)}, 201)

    @router.delete("", responses=answers({"lifted": 1}))
    async def lift_stop(by: By) -> Response:
        """Lift every global stop."""
        return Reply({"lifted": await parts.commands.lift_stop(by=by.who())})

    return router
