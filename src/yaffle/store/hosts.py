"""Monitored hosts: what is known of each, and when each monitor last saw anything.

Every engine that can see saves what it sees, so that no hand-over is needed when one cannot. A look that
began before the one that was saved last changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec
from sqlalchemy import delete, insert, select, update

from yaffle.core.health.host_verdict import KnownHost
from yaffle.model.host_state import UNKNOWN, HostFence, HostState
from yaffle.store.rows import load
from yaffle.store.tables import host_monitors, monitored_hosts

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection

FORGET_US: Final = 7 * 86_400_000_000
"""A host that its monitor has not known of for so long has left."""
NO_FENCE: Final = HostFence()
"""What stands for a host about which nothing is done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorRow:
    """A monitor, as it was asked last."""

    name: str
    seen_us: int
    fault: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HostRow:
    """A monitored host."""

    monitor: str
    host: str
    state: str
    since_us: int
    why: str
    unseen_us: int | None
    told: Sequence[int]
    fence: Mapping[str, object] | None = None

    @property
    def fencing(self) -> HostFence:
        """Return how far our own fencers are with it."""
        return msgspec.convert(self.fence, HostFence) if self.fence else NO_FENCE

    def known(self) -> KnownHost:
        """Return what the next look is judged by."""
        return KnownHost(state=HostState(self.state), since_us=self.since_us, told=tuple(self.told))


def begin(conn: Connection, monitor: str, asked_us: int, now_us: int, *, fault: str = "") -> bool:
    """Note a look that saw something; False where a later one is saved, which is then not overwritten.

    One that was saved by a clock that was far ahead is not later.
    """
    present = conn.execute(
        select(host_monitors.c.seen_us).where(host_monitors.c.name == monitor)
    ).scalar_one_or_none()
    if present is None:
        conn.execute(insert(host_monitors).values(name=monitor, seen_us=asked_us, fault=fault))
        return True
    if asked_us <= present <= now_us:
        return False
    changed = update(host_monitors).where(
        host_monitors.c.name == monitor, host_monitors.c.seen_us == present
    )
    return conn.execute(changed.values(seen_us=asked_us, fault=fault)).rowcount == 1


def blind(conn: Connection, monitor: str, fault: str, *, silent_since_us: int) -> None:
    """Note why a monitor sees nothing, unless another engine has seen something since then."""
    present = conn.execute(
        select(host_monitors).where(host_monitors.c.name == monitor)
    ).one_or_none()
    if present is None:
        conn.execute(insert(host_monitors).values(name=monitor, seen_us=0, fault=fault))
    elif present.seen_us <= silent_since_us and present.fault != fault:
        conn.execute(
            update(host_monitors).where(host_monitors.c.name == monitor).values(fault=fault)
        )


def known(conn: Connection, monitor: str) -> Mapping[str, HostRow]:
    """Return a monitor's hosts by name."""
    rows = conn.execute(select(monitored_hosts).where(monitored_hosts.c.monitor == monitor))
    return {row.host: load(HostRow, row) for row in rows}


def save(
    conn: Connection,
    monitor: str,
    host: str,
    before: HostRow | None,
    known: KnownHost,
    why: str,
    *,
    unseen_us: int | None = None,
    fence: HostFence | None = None,
) -> None:
    """Store what a look has found, where it is another thing than before.

    `unseen_us`: when the look was, where it has not found how the host is.
    """
    if unseen_us is not None and before is not None and before.unseen_us is not None:
        unseen_us = before.unseen_us
    values = {
        "state": known.state.value,
        "since_us": known.since_us,
        "why": why,
        "unseen_us": unseen_us,
        "told": list(known.told),
        "fence": None if fence is None or fence == NO_FENCE else msgspec.to_builtins(fence),
    }
    if before is None:
        conn.execute(insert(monitored_hosts).values(monitor=monitor, host=host, **values))
    elif any(getattr(before, name) != value for name, value in values.items()):
        conn.execute(update(monitored_hosts).where(*_is(monitor, host)).values(**values))


def unseen(conn: Connection, row: HostRow, why: str, now_us: int) -> None:
    """Note that a monitor does not know how a host is now, and forget one that has left for good."""
    which = _is(row.monitor, row.host)
    if row.unseen_us is None or row.why != why:
        since_us = now_us if row.unseen_us is None else row.unseen_us
        values = {"unseen_us": since_us, "why": why}
        conn.execute(update(monitored_hosts).where(*which).values(**values))
    elif now_us - row.unseen_us > FORGET_US:
        conn.execute(delete(monitored_hosts).where(*which))


def _is(monitor: str, host: str) -> tuple[ColumnElement[bool], ...]:
    return (monitored_hosts.c.monitor == monitor, monitored_hosts.c.host == host)


def monitors(conn: Connection, names: Sequence[str]) -> Mapping[str, MonitorRow]:
    """Return monitors by name; one that nobody has asked yet is not there."""
    rows = conn.execute(select(host_monitors).where(host_monitors.c.name.in_(names)))
    return {row.name: load(MonitorRow, row) for row in rows}


def listed(conn: Connection, names: Sequence[str], *, host: str | None = None) -> Sequence[HostRow]:
    """Return the hosts of these monitors in order of their names, or one host of each."""
    wanted = select(monitored_hosts).where(monitored_hosts.c.monitor.in_(names))
    if host is not None:
        wanted = wanted.where(monitored_hosts.c.host == host)
    rows = conn.execute(wanted.order_by(monitored_hosts.c.host, monitored_hosts.c.monitor))
    return [load(HostRow, row) for row in rows]


def in_states(conn: Connection, monitor: str, states: Collection[str]) -> Sequence[HostRow]:
    """Return a monitor's hosts that are stored as in one of these states."""
    table = monitored_hosts.c
    wanted = select(monitored_hosts).where(table.monitor == monitor, table.state.in_(states))
    return [load(HostRow, row) for row in conn.execute(wanted)]


def state_of(row: HostRow, monitor: MonitorRow | None, *, now_us: int, stale_us: int) -> str:
    """Return how a host is; unknown where its monitor does not know of it, or has seen nothing lately."""
    silent = monitor is None or now_us - monitor.seen_us > stale_us
    return UNKNOWN if silent or row.unseen_us is not None else row.state


def by_state(
    conn: Connection,
    names: Sequence[str],
    *,
    hostname: Callable[[str], str],
    now_us: int,
    stale_us: int,
) -> Mapping[str, Sequence[str]]:
    """Return the names of the hosts in each state; unknown are those that are so to every monitor."""
    asked = monitors(conn, names)
    found: dict[str, list[str]] = {state: [] for state in (*HostState, UNKNOWN)}
    for row in listed(conn, names):
        state = state_of(row, asked.get(row.monitor), now_us=now_us, stale_us=stale_us)
        found[state].append(row.host)
    known = {hostname(host) for state in HostState for host in found[state]}
    found[UNKNOWN] = [host for host in found[UNKNOWN] if hostname(host) not in known]
    return found


def fenced(conn: Connection, monitor: str, host: str, fence: HostFence) -> None:
    """Store how far our own fencers are with a host."""
    given = None if fence == NO_FENCE else msgspec.to_builtins(fence)
    conn.execute(update(monitored_hosts).where(*_is(monitor, host)).values(fence=given))


def take(conn: Connection, monitor: str, host: str) -> HostRow | None:
    """Return a host for a change of it; a look that read it before then saves nothing."""
    seen = host_monitors.c.seen_us
    conn.execute(
        update(host_monitors).where(host_monitors.c.name == monitor).values(seen_us=seen + 1)
    )
    found = conn.execute(select(monitored_hosts).where(*_is(monitor, host))).one_or_none()
    return None if found is None else load(HostRow, found)


def proved_off(conn: Connection, row: HostRow, *, at_s: int, now_us: int, why: str) -> None:
    """Store that a lost host was proved off by a fencer of ours: that fencing is judged by this."""
    conn.execute(
        update(monitored_hosts)
        .where(*_is(row.monitor, row.host))
        .values(
            state=HostState.FENCED.value,
            since_us=now_us,
            why=why,
            told=sorted({*row.told, at_s}),
            fence=None,
        )
    )
