"""The host alerter: a host that failed and is proved off is told to every endpoint until it accepts.

Alerts are written with the failure (`incidents/host_failure.py`): whoever dies after that leaves them to
the next engine. Ids, times and contents never change (seed 3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from yaffle.engine.incidents.host_failure import RECORDED
from yaffle.engine.notifications.dispatcher import SEND_S, Dispatcher
from yaffle.model.operations import Delivery
from yaffle.ports import SupportsResolution
from yaffle.store import alerts, events
from yaffle.store.singleton_leases import SingletonRole

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from sqlalchemy import Connection

    from yaffle.engine.runtime.context import EngineContext, Wakeup
    from yaffle.engine.runtime.session import Session
    from yaffle.store.alerts import Due

log = structlog.get_logger()


class HostAlerter(Dispatcher["Due"]):
    """Delivers alerts; several engines may run one, and the holder of the lease acts."""

    role = SingletonRole.ALERTS
    noun = "alert"

    def __init__(self, ctx: EngineContext, session: Session) -> None:
        super().__init__(ctx, session)
        self._begun = False

    async def _is_ours(self) -> bool:
        ours = await super()._is_ours()
        if ours and not self._begun:
            names, now_us = tuple(self._ctx.drivers.alerts), self._ctx.clock.now_us()
            responsible = self._ctx.hosts.responsible
            added = await self._ctx.store.write(
                lambda conn: alerts.complete(conn, names, responsible, now_us)
            )
            if added:
                log.warning("failures told to endpoints that are new", alerts=added)
        self._begun = ours
        return ours

    def _bell(self) -> Wakeup:
        return self._ctx.signals.alerts

    def _receivers(self, conn: Connection, now_us: int) -> Sequence[str]:
        return alerts.endpoints(conn, now_us=now_us, resolvers=self._resolvers())

    def _resolvers(self) -> Sequence[str]:
        """Return the endpoints that are told when the responsible one has taken a failure over."""
        found: Mapping[str, object] = self._ctx.drivers.alerts
        return [
            name
            for name, driver in found.items()
            if isinstance(driver, SupportsResolution) and name != self._ctx.hosts.responsible
        ]

    def _due_for(
        self, conn: Connection, receiver: str, now_us: int, limit: int, skip: Sequence[int]
    ) -> Sequence[Due]:
        which = {"now_us": now_us, "limit": limit, "skip": skip, "endpoint": receiver}
        found = alerts.due(conn, **which)  # type: ignore[arg-type]
        if found or receiver not in self._resolvers():
            return found
        return alerts.due_resolutions(conn, **which)  # type: ignore[arg-type]

    def _receiver(self, item: Due) -> str:
        return item.endpoint

    def _sender(self, item: Due) -> Callable[[], Awaitable[object]] | None:
        driver = self._ctx.drivers.alerts.get(item.endpoint)
        other: object = driver
        if item.resolves and isinstance(other, SupportsResolution):
            return lambda: other.resolve(item.failure, deadline_s=SEND_S)
        return None if driver is None else lambda: driver.send(item.failure, deadline_s=SEND_S)

    async def _note(self, item: Due, delivery: Delivery, said: str) -> None:
        await super()._note(item, delivery, said)
        if delivery is Delivery.ACCEPTED and not item.resolves:
            took_s = self._ctx.clock.now_us() / 1e6 - item.failure.failure_s
            self._ctx.metrics.alert_delivery.labels(item.endpoint).observe(max(0.0, took_s))

    def _settle(
        self, conn: Connection, item: Due, delivery: Delivery, said: str, chance: float
    ) -> None:
        now_us = self._ctx.clock.now_us()
        if item.resolves:
            if delivery is Delivery.ACCEPTED:
                alerts.resolved(conn, item.seq, now_us=now_us)
            else:
                alerts.unresolved(conn, item.seq, now_us=now_us, said=said, chance=chance)
            return
        match delivery:
            case Delivery.ACCEPTED:
                responsible = self._ctx.hosts.responsible
                if alerts.accepted(
                    conn, item.seq, now_us=now_us, said=said, responsible=responsible
                ):
                    self._told(conn, item, said, now_us)
            case Delivery.RETRY:
                alerts.failed(conn, item.seq, now_us=now_us, said=said, chance=chance)
            case Delivery.REFUSED:
                alerts.refused(conn, item.seq, now_us=now_us, said=said)

    def _told(self, conn: Connection, item: Due, said: str, now_us: int) -> None:
        failure = item.failure
        events.append(
            conn,
            events.Subject(otype="HOST", oid=failure.id, oname=failure.hostname),
            at_us=now_us,
            action=RECORDED,
            status="accepted",
            reason=f"{item.endpoint} has accepted the failure of host {failure.hostname}: {said}",
            data={"failure": failure.id, "endpoint": item.endpoint, "alert": item.seq},
        )
