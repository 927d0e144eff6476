"""Hosts over HTTP: how they are, say that one failed, see who has been told, retry and discard alerts."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query
from starlette.requests import Request
from starlette.responses import Response

from yaffle.api import examples
from yaffle.api.app_context import AppContext
from yaffle.api.bodies import HostFailureBody, ReasonBody, RedeliverBody, ToldFailureBody
from yaffle.api.dependencies import By, HostWord, Limit, Word, answers
from yaffle.api.http.reply import Reply
from yaffle.errors import BadRequest, Forbidden
from yaffle.model.host_failure import HostFailure

Seq = Annotated[int, Path(ge=1, le=2**62, description="Number of an alert.")]
State = Annotated[
    Literal["pending", "accepted", "discarded"] | None, Query(description="Only these.")
]
HostStates = Annotated[
    Literal["up", "lost", "fenced", "unfenced", "stopped", "maintenance", "unknown"] | None,
    Query(description="Only these."),
]
TAKEN_IN = {"accepted": examples.ALERT["failure"]["id"]}
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


def told(parts: AppContext) -> APIRouter:
    """Return the routes of what others tell of hosts."""
    router = APIRouter(tags=["hosts"])

    @router.post("/host-failures", status_code=202, responses=answers(TAKEN_IN, status=202))
    async def tell_host_failure(body: ToldFailureBody, request: Request) -> Response:
        """Take in that a host has failed, in the JSON of OpenStack's host monitoring specification.

        Signed as Yaffle's own `http_json` alerts are, by a sender of `[host_senders]`. A repeat is one by
        its id, and harmless (200). What the word is worth, the settings of host monitors say.
        """
        if parts.senders is None:
            raise Forbidden("nobody may tell of failed hosts here")
        raw = await request.body()
        sender, signed = parts.senders.sender_of(request.headers, raw)
        if signed != body.id:
            raise BadRequest(f"id: {body.id} is not what was signed, which is {signed}")
        payload = body.payload
        failure = HostFailure(
            id=body.id,
            hostname=payload.hostname,
            failure_s=payload.failure_time,
            generated_s=body.generated_time,
            on_shared_storage=payload.on_shared_storage,
            proof="",
        )
        new = await parts.commands.host_failure_told(failure, sender=sender)
        return Reply({"accepted": failure.id}, 202 if new else 200)

    @router.get(
        "/host-notifications",
        responses=answers({"notifications": [examples.HOST_NOTIFICATION]}),
    )
    async def list_host_notifications(host: HostWord = None, limit: Limit = 100) -> Response:
        """List what other monitors have told of hosts, the newest first, and how far that is."""
        found = await parts.queries.host_notifications(host=host, limit=limit)
        return Reply({"notifications": found})

    return router


def alerts(parts: AppContext) -> APIRouter:
    """Return the routes of the alerts of failed hosts."""
    router = APIRouter(tags=["hosts"])

    @router.get("/alerts", responses=answers({"alerts": [examples.ALERT]}))
    async def list_alerts(
        state: State = None, host: HostWord = None, limit: Limit = 100
    ) -> Response:
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
