"""Routes of what happened: incidents, decisions, events, actions and notifications."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query
from starlette.responses import Response

from yaffle.api import examples
from yaffle.api.app_context import AppContext
from yaffle.api.bodies import ByBody, RedeliverBody
from yaffle.api.dependencies import By, HostWord, Limit, NodeWord, Word, answers
from yaffle.api.http.reply import Reply
from yaffle.engine.queries.decisions import Which

OpenOnly = Annotated[bool, Query(alias="open", description="Only those that have not ended.")]
After = Annotated[int, Query(ge=0, le=2**62, description="Only those with a larger `seq`.")]
Within = Annotated[
    float | None, Query(gt=0, le=1e9, description="Only those of the last so many seconds.")
]
Waiting = Annotated[
    bool, Query(description="Only recoveries that were asked for and are held; each has its end.")
]
State = Annotated[
    Literal["pending", "parked", "accepted"] | None, Query(description="Only messages so far.")
]


def incidents(parts: AppContext) -> APIRouter:
    """Return the routes of incidents."""
    router = APIRouter(prefix="/incidents", tags=["incidents"])

    @router.get("", responses=answers({"incidents": [examples.INCIDENT]}))
    async def list_incidents(
        by: By, open_only: OpenOnly = False, node: NodeWord = None, limit: Limit = 100
    ) -> Response:
        """List incidents, the latest first; that of a host before those of its nodes."""
        found = await parts.queries.incidents(by.who(), open_only=open_only, node=node, limit=limit)
        return Reply({"incidents": found})

    @router.get("/{incident}", responses=answers({"incident": examples.INCIDENT_FULL}))
    async def show_incident(incident: Word, by: By) -> Response:
        """Show one incident with every step of every attempt (the newest 500), its timings and proofs."""
        return Reply({"incident": await parts.queries.incident(by.who(), incident)})

    @router.post("/{incident}/acknowledge", responses=answers({"incident": examples.INCIDENT_FULL}))
    async def acknowledge_incident(incident: Word, by: By, body: ByBody | None = None) -> Response:
        """Say that a person has seen it: the node's retry budget is full again."""
        who = by.who(body.by if body else None)
        await parts.commands.acknowledge(incident, by=who)
        return Reply({"incident": await parts.queries.incident(by.who(), incident)})

    return router


def decisions(parts: AppContext) -> APIRouter:
    """Return the routes of decisions."""
    router = APIRouter(prefix="/decisions", tags=["decisions"])

    @router.get("", responses=answers({"decisions": [examples.DECISION], "last": 31}))
    async def list_decisions(
        by: By,
        after: After = 0,
        within_s: Within = None,
        node: NodeWord = None,
        limit: Limit = 100,
    ) -> Response:
        """List decisions in their order, with all they were made from and whether that agrees."""
        which = Which(after=after, within_s=within_s, node=node, limit=limit)
        found = await parts.queries.decisions(by.who(), which)
        return Reply({"decisions": found, "last": found[-1]["seq"] if found else after})

    @router.get("/check", responses=answers({"check": examples.RECHECK}))
    async def check_decisions(
        by: By,
        after: After = 0,
        within_s: Within = None,
        node: NodeWord = None,
        limit: Limit = 100,
    ) -> Response:
        """Decide so many once more from what is stored; `last` is where to go on."""
        which = Which(after=after, within_s=within_s, node=node, limit=limit)
        return Reply({"check": await parts.queries.check(by.who(), which)})

    return router


def history(parts: AppContext) -> APIRouter:
    """Return the routes of events, actions and the outbox."""
    router = APIRouter(tags=["history"])

    @router.get("/events", responses=answers({"events": [examples.EVENT], "last": 17}))
    async def list_events(
        by: By, after: After = 0, node: NodeWord = None, host: HostWord = None, limit: Limit = 100
    ) -> Response:
        """List events in their order; ask again with `after` = `last` for what is new."""
        found = await parts.queries.events(by.who(), after=after, node=node, host=host, limit=limit)
        return Reply({"events": found, "last": found[-1]["seq"] if found else after})

    @router.get("/actions", responses=answers({"actions": [examples.ACTION]}))
    async def list_actions(
        by: By, node: NodeWord = None, waiting: Waiting = False, limit: Limit = 100
    ) -> Response:
        """List actions, the latest first."""
        found = await parts.queries.actions(by.who(), node=node, waiting=waiting, limit=limit)
        return Reply({"actions": found})

    @router.get("/outbox", responses=answers({"messages": [examples.MESSAGE]}))
    async def list_outbox(by: By, state: State = None, limit: Limit = 100) -> Response:
        """List notifications: pending and parked ones before those that were accepted."""
        return Reply({"messages": await parts.queries.outbox(by.who(), state=state, limit=limit)})

    @router.post("/outbox/redeliver", responses=answers({"redelivered": 2}))
    async def redeliver(by: By, body: RedeliverBody | None = None) -> Response:
        """Send parked messages again."""
        wanted = body or RedeliverBody()
        count = await parts.commands.redeliver(wanted.seqs, by=by.who(wanted.by))
        return Reply({"redelivered": count})

    return router
