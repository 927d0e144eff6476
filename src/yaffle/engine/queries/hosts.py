"""Reads of monitored hosts: how each is, since when, why, and what that means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from yaffle.engine.queries.presentation import iso, times
from yaffle.errors import NotFound
from yaffle.model.host_state import UNKNOWN, HostState
from yaffle.store import alerts, hosts, instance_ha

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Connection

    from yaffle.engine.queries.presentation import Shown
    from yaffle.engine.runtime.context import EngineContext
    from yaffle.store.alerts import AlertRow
    from yaffle.store.hosts import HostRow, MonitorRow
    from yaffle.store.instance_ha import MoveRow, NotificationRow

_MEANS: Final[Mapping[str, str]] = {
    HostState.UP: "nothing is wrong with it",
    HostState.LOST: "that is no proof that it is off, so nobody is told and its instances are started"
    " nowhere; it is waited for somebody to fence it",
    HostState.FENCED: "it was proved off, and recovery controllers are told until they accept: `yaffle"
    " alert list --host {hostname}`",
    HostState.UNFENCED: "nobody has proved it off, so its instances are started nowhere. Fence it:"
    " {by_hand}by a device of `drivers.HOST`: `yaffle"
    " host fence {host} --reason TEXT`; or make sure that its power is off and say so: `yaffle host mark"
    " {host} --proof TEXT`",
    HostState.STOPPED: "it was taken out of service on purpose, which is no failure",
    HostState.MAINTENANCE: "whatever it does, it is no failure",
    UNKNOWN: "that is neither well nor a failure",
}
"""By state, what it means and what is to be done."""
_NOBODY_IS_TOLD: Final = "it was proved off, and nobody is told, for no [alerts.NAME] is configured"
_BY_WORD: Final = (
    "its nodes are recovered on that word where their policy says `fencing: [HOST]` and their backend has"
    " not heard of the host since; whoever notified us of it tells others"
)


class Hosts:
    """The reads of monitored hosts; a host belongs to no project, so only administrators come here."""

    def __init__(self, ctx: EngineContext) -> None:
        self._ctx = ctx

    async def hosts(self, *, state: str | None = None) -> Sequence[Shown]:
        """Return the hosts that monitors know of, all or those in `state`, in order of their names."""
        shown = await self._ctx.store.read(self._shown)
        return [host for host in shown if state is None or host["state"] == state]

    async def host(self, name: str) -> Shown:
        """Return one host; of several monitors, what the first says that knows how it is."""
        found = await self._ctx.store.read(lambda conn: self._shown(conn, name))
        if not found:
            raise NotFound(f"host {name}: no monitor knows of it; see `yaffle host list`")
        return min(found, key=lambda host: host["state"] == UNKNOWN)

    async def notifications(self, *, host: str | None = None, limit: int = 100) -> Sequence[Shown]:
        """Return what other monitors have told of hosts, all or one, the newest first."""

        def work(conn: Connection) -> Sequence[Shown]:
            found = instance_ha.newest(conn, host=host, limit=limit)
            return [_notification(row, instance_ha.moves_of(conn, row.id)) for row in found]

        return await self._ctx.store.read(work)

    def _shown(self, conn: Connection, name: str | None = None) -> list[Shown]:
        names = tuple(self._ctx.drivers.host_monitors)
        monitors = hosts.monitors(conn, names)
        return [
            self._host(
                row, monitors.get(row.monitor), self._alerts(conn, row, one=name is not None)
            )
            for row in hosts.listed(conn, names, host=name)
        ]

    def _alerts(self, conn: Connection, row: HostRow, *, one: bool) -> Sequence[AlertRow]:
        hostname = self._ctx.hosts.hostname(row.host)
        return alerts.listed(conn, hostname=hostname, limit=20) if one else ()

    def _host(self, row: HostRow, monitor: MonitorRow | None, told: Sequence[AlertRow]) -> Shown:
        state, why = self._state(row, monitor)
        hostname = self._ctx.hosts.hostname(row.host)
        by_hand = self._ctx.drivers.host_monitors[row.monitor].by_hand.format(host=row.host)
        means = _MEANS[state].format(host=row.host, hostname=hostname, by_hand=by_hand)
        if state == HostState.FENCED and not row.told:
            means = _BY_WORD
        elif state == HostState.FENCED and not self._ctx.drivers.alerts:
            means = _NOBODY_IS_TOLD
        fence = row.fencing
        if fence.said:
            means = f"{means}. Our own fencers: {fence.said}"
        if fence.asked_by:
            means = f"{means}. {fence.asked_by} asks for its fence: {fence.why}"
        return {
            "host": row.host,
            "hostname": hostname,
            "monitor": row.monitor,
            "domain": self._ctx.hosts.domain_of(row.host),
            "state": state,
            "last_state": row.state,
            "why": f"{row.host} is {state} since {iso(row.since_us)}: {why}; {means}."
            if state != UNKNOWN
            else f"{row.host} is unknown: {why}; it was {row.state} then, and {means}.",
            "said": row.why,
            "fencing": fence.said,
            "fence_asked_by": fence.asked_by,
            "alerts": [alert.seq for alert in told],
            **times(
                since=row.since_us,
                seen=None if monitor is None else monitor.seen_us,
                fenced=max(row.told) * 1_000_000 if row.told else None,
            ),
        }

    def _state(self, row: HostRow, monitor: MonitorRow | None) -> tuple[str, str]:
        """Return how a host is, and why; unknown where that is an old story."""
        now_us, stale_us = self._ctx.clock.now_us(), self._ctx.hosts.stale_us
        state = hosts.state_of(row, monitor, now_us=now_us, stale_us=stale_us)
        if state != UNKNOWN:
            return state, row.why
        if monitor is not None and now_us - monitor.seen_us <= stale_us:
            return (
                state,
                f"monitor {row.monitor} does not know since {iso(row.unseen_us)}: {row.why}",
            )
        since = "" if monitor is None else f" since {iso(monitor.seen_us)}"
        fault = (monitor and monitor.fault) or "no engine asks it"
        return state, f"monitor {row.monitor} has seen nothing{since}: {fault}"


def _notification(row: NotificationRow, moves: Sequence[MoveRow]) -> Shown:
    return {
        "id": row.id,
        "host": row.host,
        "type": row.type,
        "event": row.payload.get("event", ""),
        "origin": row.origin,
        "sender": row.sender,
        "status": row.status,
        "message": row.message or "",
        "nodes": [
            {
                "node": move.node_id,
                "name": move.instance_name,
                "status": move.status,
                "why": move.message or "",
                "host": move.source_host,
                "moved_to": move.dest_host or "",
            }
            for move in moves
        ],
        **times(generated=row.generated_us, created=row.created_us, ended=row.ended_us),
    }
