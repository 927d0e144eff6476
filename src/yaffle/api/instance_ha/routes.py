"""The routes of the instance-HA API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from starlette.responses import Response

from yaffle.api.clustering import response_schemas
from yaffle.api.clustering.request import ApiRequest
from yaffle.api.clustering.table import Good, Param, Route
from yaffle.api.clustering.times import us_of
from yaffle.api.http.reply import Reply
from yaffle.api.instance_ha import bodies, views
from yaffle.api.instance_ha.bodies import PAYLOADS, boolean
from yaffle.api.instance_ha.face import DETAILS, OLDEST
from yaffle.api.instance_ha.lists import Noun, listed
from yaffle.engine.commands.instance_ha import Notification, host_of, segment_of
from yaffle.errors import BadRequest, NotFound
from yaffle.model.instance_ha import NotificationOrigin, NotificationType
from yaffle.store import instance_ha
from yaffle.store.tables import failover_hosts, failover_segments, ha_notifications, vm_moves

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from yaffle.api.clustering.validation import Body
    from yaffle.api.instance_ha.views import Shown
    from yaffle.store.instance_ha import NotificationRow

RECORD: Final = {
    "id": "seq",
    "uuid": "id",
    "created_at": "created_us",
    "updated_at": "updated_us",
}
SWITCHES: Final = ("enabled", "reserved", "on_maintenance")


def _segments(conn: Connection, idents: Sequence[str]) -> Mapping[str, Shown]:
    found = instance_ha.segments(conn, idents)
    return {ident: views.segment(row) for ident, row in found.items()}


def _hosts(conn: Connection, idents: Sequence[str]) -> Mapping[str, Shown]:
    found = instance_ha.hosts(conn, idents)
    of = instance_ha.segments(conn, sorted({row.segment_id for row in found.values()}))
    return {
        ident: views.host(row, of[row.segment_id])
        for ident, row in found.items()
        if row.segment_id in of
    }


def _notifications(conn: Connection, idents: Sequence[str]) -> Mapping[str, Shown]:
    found = instance_ha.notifications(conn, idents)
    return {ident: views.notification(row) for ident, row in found.items()}


def _moves(conn: Connection, idents: Sequence[str]) -> Mapping[str, Shown]:
    return {ident: views.move(row) for ident, row in instance_ha.moves(conn, idents).items()}


SEGMENTS: Final = Noun(
    plural="segments",
    table=failover_segments,
    filters={
        "recovery_method": failover_segments.c.recovery_method,
        "service_type": failover_segments.c.service_type,
        "enabled": failover_segments.c.enabled,
    },
    renamed=RECORD,
    shown=_segments,
)
HOSTS: Final = Noun(
    plural="hosts",
    table=failover_hosts,
    filters={
        "name": failover_hosts.c.name,
        "type": failover_hosts.c.type,
        "control_attributes": failover_hosts.c.control_attributes,
        "on_maintenance": failover_hosts.c.on_maintenance,
        "reserved": failover_hosts.c.reserved,
    },
    renamed={**RECORD, "failover_segment_id": "segment_id"},
    shown=_hosts,
)
NOTIFICATIONS: Final = Noun(
    plural="notifications",
    table=ha_notifications,
    filters={
        "status": ha_notifications.c.status,
        "type": ha_notifications.c.type,
        "source_host_uuid": ha_notifications.c.host_id,
    },
    renamed={
        **RECORD,
        "notification_uuid": "id",
        "generated_time": "generated_us",
        "source_host_uuid": "host_id",
        "failover_segment_uuid": "segment_id",
    },
    shown=_notifications,
    extra=(
        Param(
            name="generated-since",
            text="Only those generated then or later.",
            schema={"type": "string", "format": "date-time"},
        ),
    ),
)
MOVES: Final = Noun(
    plural="vmoves",
    table=vm_moves,
    filters={"status": vm_moves.c.status},
    renamed={
        **RECORD,
        "notification_uuid": "notification_id",
        "instance_uuid": "instance_id",
        "start_time": "started_us",
        "end_time": "ended_us",
    },
    shown=_moves,
)


def _values(call: ApiRequest) -> dict[str, object]:
    """Return what the body says, booleans in their own type."""
    return {key: boolean(value) if key in SWITCHES else value for key, value in call.body.items()}


# --- segments -----------------------------------------------------------------------------------


async def list_segments(call: ApiRequest) -> Response:
    """List failover segments."""
    return Reply(await listed(call, SEGMENTS))


async def create_segment(call: ApiRequest) -> Response:
    """Create a failover segment."""
    ident = await call.parts.commands.segment_create(call.who, _values(call))
    return Reply(await _one_segment(call, ident), 201)


async def show_segment(call: ApiRequest) -> Response:
    """Show a failover segment."""
    return Reply(await _one_segment(call, call.path["segment"]))


async def update_segment(call: ApiRequest) -> Response:
    """Change a failover segment; not while a notification of it is under way."""
    ident = call.path["segment"]
    await call.parts.commands.segment_update(call.who, ident, _values(call))
    return Reply(await _one_segment(call, ident))


async def delete_segment(call: ApiRequest) -> Response:
    """Delete a failover segment with its hosts; not while a notification of it is under way."""
    await call.parts.commands.segment_delete(call.who, call.path["segment"])
    return call.gone()


async def _one_segment(call: ApiRequest, ident: str) -> Mapping[str, Shown]:
    return {"segment": views.segment(await call.read(lambda conn: segment_of(conn, ident)))}


# --- hosts --------------------------------------------------------------------------------------


async def list_segment_hosts(call: ApiRequest) -> Response:
    """List the hosts of a failover segment."""
    segment = call.path["segment"]
    await call.read(lambda conn: segment_of(conn, segment))
    return Reply(await listed(call, HOSTS, failover_hosts.c.segment_id == segment))


async def create_segment_host(call: ApiRequest) -> Response:
    """Register a host in a failover segment: one that the cloud knows by this name."""
    segment = call.path["segment"]
    ident = await call.parts.commands.segment_host_create(call.who, segment, _values(call))
    return Reply(await _one_host(call, segment, ident), 201)


async def show_segment_host(call: ApiRequest) -> Response:
    """Show a host of a failover segment."""
    return Reply(await _one_host(call, call.path["segment"], call.path["segment_host"]))


async def update_segment_host(call: ApiRequest) -> Response:
    """Change a host; not while a notification of its segment is under way."""
    segment, ident = call.path["segment"], call.path["segment_host"]
    await call.parts.commands.segment_host_update(call.who, segment, ident, _values(call))
    return Reply(await _one_host(call, segment, ident))


async def delete_segment_host(call: ApiRequest) -> Response:
    """Forget a host; not while a notification of its segment is under way."""
    await call.parts.commands.segment_host_delete(
        call.who, call.path["segment"], call.path["segment_host"]
    )
    return call.gone()


async def _one_host(call: ApiRequest, segment: str, ident: str) -> Mapping[str, Shown]:
    def work(conn: Connection) -> Shown:
        of = segment_of(conn, segment)
        return views.host(host_of(conn, segment, ident), of)

    return {"host": await call.read(work)}


# --- notifications ------------------------------------------------------------------------------


async def list_notifications(call: ApiRequest) -> Response:
    """List what monitors have told."""
    since = call.one("generated-since")
    told = [ha_notifications.c.origin == NotificationOrigin.INSTANCE_HA.value]
    if since is not None:
        try:
            told.append(ha_notifications.c.generated_us >= us_of(since))
        except (ValueError, OverflowError):
            raise BadRequest("Invalid generated-since value") from None
    return Reply(await listed(call, NOTIFICATIONS, *told))


async def create_notification(call: ApiRequest) -> Response:
    """Take in that a host, an instance or a process of a registered host has failed, or is back.

    Nothing is done on this word alone: nodes there are judged by their own checks, and fenced first.
    """
    kind = NotificationType(str(call.body["type"]))
    payload = bodies.check(PAYLOADS[kind], call.body["payload"])
    told = Notification(
        type=kind,
        hostname=str(call.body["hostname"]),
        payload={key: str(value) for key, value in payload.items()},
        generated_us=bodies.time_us(str(call.body["generated_time"])),
    )
    ident = await call.parts.commands.notify(call.who, told)
    row = await call.read(lambda conn: _told(conn, ident))
    return Reply({"notification": views.notification(row)}, 202)


async def show_notification(call: ApiRequest) -> Response:
    """Show a notification; from 1.1 on with what has been done."""
    ident = call.path["notification"]

    def work(conn: Connection) -> Shown:
        row = _told(conn, ident)
        moves = instance_ha.moves_of(conn, ident) if call.version >= DETAILS else None
        return views.notification(row, moves)

    return Reply({"notification": await call.read(work)})


async def list_vmoves(call: ApiRequest) -> Response:
    """List the instances of a failed host, and where each is now."""
    ident = call.path["notification"]
    await call.read(lambda conn: _of_host(conn, ident))
    return Reply(await listed(call, MOVES, vm_moves.c.notification_id == ident))


async def show_vmove(call: ApiRequest) -> Response:
    """Show one instance of a failed host."""
    of, ident = call.path["notification"], call.path["vmove"]

    def work(conn: Connection) -> Shown:
        _of_host(conn, of)
        row = instance_ha.moves(conn, [ident]).get(ident)
        if row is None or row.notification_id != of:
            raise NotFound(f"No vm move with id {ident}.")
        return views.move(row)

    return Reply({"vmove": await call.read(work)})


def _told(conn: Connection, ident: str) -> NotificationRow:
    row = instance_ha.notification(conn, ident)
    if row is None or row.origin != NotificationOrigin.INSTANCE_HA:
        raise NotFound(f"No notification with id {ident}.")
    return row


def _of_host(conn: Connection, ident: str) -> None:
    if _told(conn, ident).type != NotificationType.COMPUTE_HOST:
        raise BadRequest(f"This notification {ident} without vm moves.")


# --- the table ----------------------------------------------------------------------------------


def _route(
    method: str,
    path: str,
    handler: object,
    good: Good,
    *,
    body: Body | None = None,
    noun: Noun | None = None,
) -> Route:
    return Route(
        method=method,
        path=path,
        handler=handler,  # type: ignore[arg-type]
        tag=path.split("/")[-1 if path.count("/") % 2 else -2],
        good=good,
        since=OLDEST,
        params=() if noun is None else noun.params,
        any_params=True,
        body=body,
    )


def _many(noun: Noun, schema: Mapping[str, object]) -> Good:
    return Good(schema=response_schemas.listed(noun.plural, schema))


S, S1 = "/segments", "/segments/{segment}"
H, H1 = f"{S1}/hosts", f"{S1}/hosts/{{segment_host}}"
N, N1 = "/notifications", "/notifications/{notification}"
V, V1 = f"{N1}/vmoves", f"{N1}/vmoves/{{vmove}}"
ONE_SEGMENT: Final = views.one("segment", views.SEGMENT)
ONE_HOST: Final = views.one("host", views.HOST)
ONE_NOTIFICATION: Final = views.one("notification", views.NOTIFICATION)
EXISTS: Final = "It exists."
GONE: Final = Good(status=204, text="It is gone.")
TAKEN_IN: Final = "It is taken in; `status` says how far it is."

ROUTES: Final = (
    _route("GET", S, list_segments, _many(SEGMENTS, views.SEGMENT), noun=SEGMENTS),
    _route(
        "POST",
        S,
        create_segment,
        Good(status=201, text=EXISTS, schema=ONE_SEGMENT),
        body=bodies.NEW_SEGMENT,
    ),
    _route("GET", S1, show_segment, Good(schema=ONE_SEGMENT)),
    _route("PUT", S1, update_segment, Good(schema=ONE_SEGMENT), body=bodies.CHANGED_SEGMENT),
    _route("DELETE", S1, delete_segment, GONE),
    _route("GET", H, list_segment_hosts, _many(HOSTS, views.HOST), noun=HOSTS),
    _route(
        "POST",
        H,
        create_segment_host,
        Good(status=201, text=EXISTS, schema=ONE_HOST),
        body=bodies.NEW_HOST,
    ),
    _route("GET", H1, show_segment_host, Good(schema=ONE_HOST)),
    _route("PUT", H1, update_segment_host, Good(schema=ONE_HOST), body=bodies.CHANGED_HOST),
    _route("DELETE", H1, delete_segment_host, GONE),
    _route(
        "GET",
        N,
        list_notifications,
        _many(NOTIFICATIONS, views.NOTIFICATION),
        noun=NOTIFICATIONS,
    ),
    _route(
        "POST",
        N,
        create_notification,
        Good(status=202, text=TAKEN_IN, schema=ONE_NOTIFICATION),
        body=bodies.NEW_NOTIFICATION,
    ),
    _route("GET", N1, show_notification, Good(schema=ONE_NOTIFICATION)),
    _route("GET", V, list_vmoves, _many(MOVES, views.MOVE), noun=MOVES),
    _route("GET", V1, show_vmove, Good(schema=views.one("vmove", views.MOVE))),
)
