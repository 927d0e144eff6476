"""Hosts over HTTP: how they are, say that one failed, see who has been told, retry and discard alerts."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from yaffle.api import examples
from yaffle.api.app_context import AppContext
from yaffle.api.bodies import HostFailureBody, ReasonBody, RedeliverBody
from yaffle.api.dependencies import By, Limit, Word, answers
from yaffle.api.http.reply import Reply
from yaffle.api.middleware.access import WORD_MAX

Seq = Annotated[int, Path(ge=1, le=2**62, description="Number of an alert.")]
State = Annotated[
    Literal["pending", "accepted", "discarded"] | None, Query(description="Only these.")
]
HostStates = Annotated[
    Literal["up", "lost", "fenced", "unfenced", "stopped", "maintenance", "unknown"] | None,
    Query(description="Only these."),
]
Host = Annotated[str | None, Query(max_length=WORD_MAX, description="Only this host's.")]
TOLD = {"failure": examples.ALERT["failure"]["id"], "alerts": [examples.ALERT]}


def hosts(parts: AppContext) -> APIRouter:
    """Return the routes of hosts."""
    router = APIRouter(tags=["hosts"])

    @router.get("/hosts", responses=answers({"hosts": [examples.HOST]}))
    async def list_hosts(state: HostStates = None) -> Response:
        """List the hosts that monitors know of, in order of their names."""
        return Reply({"hosts": await parts.queries.hosts(state=state)})

    @router.get("/hosts/{host}", responses=answers({"host": examples.HOST}))
    async def show_host(host: Word) -> Response:
        """Show one host: how it is, since when, what that means, and its alerts."""
        return Reply({"host": await parts.queries.host(host)})

    @router.post("/hosts/{host}/failures", status_code=201, responses=answers(TOLD, status=201))
    async def host_failed(host: Word, body: HostFailureBody, by: By) -> Response:
        """Say that a host has failed and is off: every endpoint is told until it accepts.

        The same host and second again is the same failure (200).
        """
        ident, new = await parts.commands.host_failed(
            host, by=by.who(body.by), proof=body.proof, failed_s=body.failure_time
        )
        told = await parts.queries.alerts_of(ident)
        return Reply({"failure": ident, "alerts": told}, 201 if new else 200)

    @router.post(
        "/hosts/{host}/fence",
        status_code=202,
        responses=answers({"host": examples.HOST}, status=202),
    )
    async def fence_host(host: Word, body: ReasonBody, by: By) -> Response:
        """Have a lost host switched off by a device of `drivers.HOST`, and read back that it is."""
        await parts.commands.host_fence(host, by=by.who(body.by), reason=body.reason)
        return Reply({"host": await parts.queries.host(host)}, 202)

    @router.post("/hosts/{host}/unfence", responses=answers({"host": examples.HOST}))
    async def unfence_host(host: Word, by: By) -> Response:
        """Take back what was asked for with `fence`."""
        await parts.commands.host_unfence(host, by=by.who(None))
        return Reply({"host": await parts.queries.host(host)})

    return router


def alerts(parts: AppContext) -> APIRouter:
    """Return the routes of the alerts of failed hosts."""
    router = APIRouter(tags=["hosts"])

    @router.get("/alerts", responses=answers({"alerts": [examples.ALERT]}))
    async def list_alerts(state: State = None, host: Host = None, limit: Limit = 100) -> Response:
        """List alerts: those that wait first, then the newest."""
        return Reply({"alerts": await parts.queries.alerts(state=state, host=host, limit=limit)})

    @router.get("/alerts/{alert}", responses=answers({"alert": examples.ALERT}))
    async def show_alert(alert: Seq) -> Response:
        """Show one alert with its failure."""
        return Reply({"alert": await parts.queries.alert(alert)})

    @router.post("/alerts/retry", responses=answers({"retried": 2}))
    async def retry_alerts(by: By, body: RedeliverBody | None = None) -> Response:
        """Offer waiting alerts now instead of when their time comes."""
        wanted = body or RedeliverBody()
        count = await parts.commands.alert_retry(wanted.seqs, by=by.who(wanted.by))
        return Reply({"retried": count})

    @router.post("/alerts/{alert}/discard", responses=answers({"alert": examples.ALERT}))
    async def discard_alert(alert: Seq, body: ReasonBody, by: By) -> Response:
        """Give an alert up: whoever does answers for a failure that nobody takes over."""
        await parts.commands.alert_discard(alert, by=by.who(body.by), reason=body.reason)
        return Reply({"alert": await parts.queries.alert(alert)})

    return router
