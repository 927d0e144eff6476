"""Commands of the instance-HA API: segments, their hosts, and notifications of failed hosts.

The words of refusals are those that clients of Masakari know.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from yaffle.engine.commands.alerts import AHEAD_S
from yaffle.engine.commands.context import CommandContext, asker
from yaffle.engine.runtime.driver_call import Failure, call_driver
from yaffle.errors import BadRequest, Conflict, DependencyError, InvalidSpec, NotFound
from yaffle.model.authz import Right, need
from yaffle.model.instance_ha import (
    NORMAL,
    STOPPED,
    NotificationOrigin,
    NotificationStatus,
    NotificationType,
)
from yaffle.ports import SupportsHostNames
from yaffle.store import instance_ha
from yaffle.store.instance_ha import Kind

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from yaffle.model.authz import Principal
    from yaffle.model.host_failure import HostFailure
    from yaffle.store.instance_ha import SegmentHostRow, SegmentRow

ASK_S: Final = 10.0
Values = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """What a monitor tells."""

    type: NotificationType
    hostname: str
    payload: Mapping[str, str]
    generated_us: int


class InstanceHa:
    """Keeps segments with their hosts, and takes in what is told of them."""

    def __init__(self, context: CommandContext) -> None:
        self._context = context

    async def segment_create(self, who: Principal, values: Values) -> str:
        """Create a segment; return its id. Conflict for a name that there is."""
        need(who, Right.ADMIN)
        ident, now_us = self._context.ctx.new_id(), self._context.now()

        def work(conn: Connection) -> None:
            _free_segment(conn, values.get("name"))
            row = {"id": ident, "enabled": True, "created_us": now_us, **values}
            instance_ha.add(conn, Kind.SEGMENT, row)
            self._event(conn, who, "SEGMENT", ident, values["name"], "SEGMENT_CREATE")

        await self._context.ctx.store.write(work)
        return ident

    async def segment_update(self, who: Principal, ident: str, values: Values) -> None:
        """Change a segment; Conflict while a notification of it is under way."""
        need(who, Right.ADMIN)

        def work(conn: Connection) -> None:
            row = segment_of(conn, ident)
            _idle(conn, row.id, f"Failover segment {ident} can't be updated")
            _free_segment(conn, values.get("name"), but=ident)
            instance_ha.change(conn, Kind.SEGMENT, ident, self._context.now(), **values)
            self._event(conn, who, "SEGMENT", ident, row.name, "SEGMENT_UPDATE")

        await self._context.ctx.store.write(work)

    async def segment_delete(self, who: Principal, ident: str) -> None:
        """Delete a segment with its hosts; Conflict while a notification of it is under way."""
        need(who, Right.ADMIN)

        def work(conn: Connection) -> None:
            row = segment_of(conn, ident)
            _idle(conn, row.id, f"Failover segment ({ident}) can't be deleted")
            instance_ha.delete_segment(conn, ident)
            self._event(conn, who, "SEGMENT", ident, row.name, "SEGMENT_DELETE")

        await self._context.ctx.store.write(work)

    async def segment_host_create(self, who: Principal, segment: str, values: Values) -> str:
        """Register a host; return its id. BadRequest for one that the cloud does not know."""
        need(who, Right.ADMIN)
        ident, now_us = self._context.ctx.new_id(), self._context.now()
        await self._context.ctx.store.read(lambda conn: segment_of(conn, segment))
        await self._known(str(values["name"]))

        def work(conn: Connection) -> None:
            segment_of(conn, segment)
            _free_host(conn, values["name"])
            row = {"id": ident, "segment_id": segment, "created_us": now_us, **values}
            instance_ha.add(conn, Kind.HOST, row)
            self._event(conn, who, "HOST", ident, values["name"], "SEGMENT_HOST_CREATE")

        await self._context.ctx.store.write(work)
        return ident

    async def segment_host_update(
        self, who: Principal, segment: str, ident: str, values: Values
    ) -> None:
        """Change a host; Conflict while a notification of its segment is under way."""
        need(who, Right.ADMIN)

        def found(conn: Connection) -> SegmentHostRow:
            row = host_of(conn, segment, ident)
            _idle(conn, segment, f"Host {ident} can't be updated")
            return row

        await self._context.ctx.store.read(found)
        if "name" in values:
            await self._known(str(values["name"]))

        def work(conn: Connection) -> None:
            row = found(conn)
            _free_host(conn, values.get("name"), but=ident)
            now_us = self._context.now()
            kept = {"spare_for": ""} if values.get("reserved") else {}
            instance_ha.change(conn, Kind.HOST, ident, now_us, **values, **kept)
            if values.get("on_maintenance") is False:
                instance_ha.give_back(conn, ident, now_us)
            said = ", ".join(f"{key}={value}" for key, value in values.items())
            self._event(conn, who, "HOST", ident, row.name, "SEGMENT_HOST_UPDATE", said)

        await self._context.ctx.store.write(work)

    async def segment_host_delete(self, who: Principal, segment: str, ident: str) -> None:
        """Forget a host; Conflict while a notification of its segment is under way."""
        need(who, Right.ADMIN)

        def work(conn: Connection) -> None:
            row = host_of(conn, segment, ident)
            _idle(conn, segment, f"Host {ident} can't be deleted")
            instance_ha.delete_host(conn, ident)
            self._event(conn, who, "HOST", ident, row.name, "SEGMENT_HOST_DELETE")

        await self._context.ctx.store.write(work)

    async def notify(self, who: Principal, told: Notification) -> str:
        """Take in what a monitor tells; return its id.

        BadRequest for a host that is not registered, Conflict for one on maintenance and for a repeat;
        what is refused of a host is heard all the same, for its latest word counts.
        """
        need(who, Right.ADMIN)
        ident = self._context.ctx.new_id()

        def work(conn: Connection) -> str:
            host = instance_ha.host_named(conn, told.hostname, take=True)
            if host is None:
                raise BadRequest(f"Host with name {told.hostname} could not be found.")
            if host.on_maintenance:
                self._hear(conn, ident, told, who, host, "under maintenance")
                return (
                    f"Notification received from host {told.hostname} of type '{told.type}' is"
                    " ignored as the host is already under maintenance."
                )
            if instance_ha.is_duplicate(conn, host.id, told.type, told.payload, told.generated_us):
                self._hear(conn, ident, told, who, host, "duplicate")
                return (
                    f"Notification received from host {told.hostname} of type {told.type} is"
                    " duplicate."
                )
            self._add(conn, ident, told, NotificationOrigin.INSTANCE_HA, who, host)
            return ""

        if refused := await self._context.ctx.store.write(work):
            raise Conflict(refused)
        self._context.changed()
        return ident

    async def host_failure_told(self, failure: HostFailure, *, sender: str) -> bool:
        """Take in a failure that another alerter tells of (seed 3); return whether it is new.

        Conflict where that id has told another thing.
        """
        if failure.failure_s > self._context.now() / 1e6 + AHEAD_S:
            raise InvalidSpec(f"failure_time: {failure.failure_s} lies in the future")
        told = Notification(
            type=NotificationType.COMPUTE_HOST,
            hostname=failure.hostname,
            payload={"event": STOPPED, "host_status": NORMAL},
            generated_us=failure.failure_s * 1_000_000,
        )

        def work(conn: Connection) -> bool:
            present = instance_ha.notification(conn, failure.id)
            if present is None:
                self._add(
                    conn, failure.id, told, NotificationOrigin.HOST_FAILURES, asker(sender), None
                )
                return True
            if (present.host, present.generated_us) != (told.hostname, told.generated_us):
                raise Conflict(
                    f"id {failure.id} has told of the failure of host {present.host} before"
                )
            other = str(uuid.uuid5(uuid.UUID(failure.id), sender))
            if sender != present.sender and instance_ha.notification(conn, other) is None:
                # The first to pass it on need not be one whose word counts.
                self._hear(conn, other, told, asker(sender), None, f"known as {failure.id}")
            return False

        new = await self._context.ctx.store.write(work)
        self._context.changed()
        return new

    def _hear(
        self,
        conn: Connection,
        ident: str,
        told: Notification,
        who: Principal,
        host: SegmentHostRow | None,
        why: str,
    ) -> None:
        """Keep what is said of a host, of which nothing follows; once, however often it is sent."""
        if told.type is not NotificationType.COMPUTE_HOST or instance_ha.is_heard(
            conn, told.hostname, who.user, told.generated_us, told.payload
        ):
            return
        self._add(conn, ident, told, NotificationOrigin.REFUSED, who, host)
        instance_ha.end(conn, ident, NotificationStatus.IGNORED, why, self._context.now())

    def _add(
        self,
        conn: Connection,
        ident: str,
        told: Notification,
        origin: NotificationOrigin,
        who: Principal,
        host: SegmentHostRow | None,
    ) -> None:
        now_us = self._context.now()
        row = {
            "id": ident,
            "type": told.type.value,
            "host": told.hostname,
            "host_id": "" if host is None else host.id,
            "segment_id": "" if host is None else host.segment_id,
            "origin": origin.value,
            "sender": who.user,
            "payload": dict(told.payload),
            "generated_us": told.generated_us,
            "status": NotificationStatus.NEW.value,
            "created_us": now_us,
        }
        instance_ha.add(conn, Kind.NOTIFICATION, row)
        said = f"{told.type} {' '.join(told.payload.values())}, by way of {origin}"
        self._event(conn, who, "HOST", ident, told.hostname, "HOST_NOTIFICATION", said)

    def _event(
        self,
        conn: Connection,
        who: Principal,
        otype: str,
        ident: str,
        name: object,
        action: str,
        reason: str = "",
    ) -> None:
        self._context.event(conn, otype, ident, str(name), action, who, reason[:4000])

    async def _known(self, name: str) -> None:
        """Raise BadRequest for a host that no cloud knows; where there is none, every name is right."""
        clouds = [
            driver
            for driver in self._context.ctx.drivers.profiles.values()
            if isinstance(driver, SupportsHostNames)
        ]
        faults = []
        for cloud in clouds:
            known = await call_driver(
                lambda cloud=cloud: cloud.has_host(name, deadline_s=ASK_S),  # type: ignore[misc]
                object,
                within_s=ASK_S + 1,
                what="the cloud, whether it knows that host,",
            )
            if known is True:
                return
            if known is not False:
                faults.append(known.why if isinstance(known, Failure) else str(known))
        if faults:
            raise DependencyError(f"whether there is a host {name} could not be asked: {faults[0]}")
        if clouds:
            raise BadRequest(f"Compute service with name {name} could not be found.")


def segment_of(conn: Connection, ident: str) -> SegmentRow:
    """Return a segment; raise NotFound."""
    row = instance_ha.segment(conn, ident)
    if row is None:
        raise NotFound(f"No failover segment with id {ident}.")
    return row


def host_of(conn: Connection, segment: str, ident: str) -> SegmentHostRow:
    """Return a host of a segment; raise NotFound."""
    row = instance_ha.host(conn, segment, ident)
    if row is None:
        raise NotFound(f"Host '{ident}' under failover_segment '{segment}' could not be found.")
    return row


def _idle(conn: Connection, segment: str, what: str) -> None:
    if instance_ha.in_use(conn, segment):
        raise Conflict(f"{what} as it is in-use to process notifications.")


def _free_segment(conn: Connection, name: object, but: str = "") -> None:
    if name is not None and instance_ha.is_named(conn, Kind.SEGMENT, name, but):
        raise Conflict(f"Failover segment with name {name} already exists.")


def _free_host(conn: Connection, name: object, but: str = "") -> None:
    if name is not None and instance_ha.is_named(conn, Kind.HOST, name, but):
        raise Conflict(f"Host with name {name} already exists.")
