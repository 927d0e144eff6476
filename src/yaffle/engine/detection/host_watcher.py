"""Host watchers look at hosts through their monitors and have every proved failure told.

Each engine runs its own: one that cannot ask a monitor is no reason that nobody does. What two of them
see at once is one failure, for the database knows which fencings have been judged.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import structlog

from yaffle.core.health.host_verdict import is_judged, judge
from yaffle.core.planning.pauses import in_force, is_of_host
from yaffle.engine.detection.lost_host_fencer import LostHostFencer
from yaffle.engine.detection.lost_host_fencer import Seen as SeenHost
from yaffle.engine.incidents.host_failure import record
from yaffle.engine.runtime.driver_call import Failure, call_driver
from yaffle.errors import StoreUnavailable
from yaffle.model.host_state import HostFencing, HostReport, HostState, MonitorBlind, Seen
from yaffle.ports import SupportsMarks, SupportsWakeUp
from yaffle.store import alerts, events, hosts, pauses

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Connection

    from yaffle.engine.runtime.context import EngineContext
    from yaffle.engine.runtime.session import Session
    from yaffle.model.host_state import HostFence, HostMark, HostSighting
    from yaffle.model.incident import Pause
    from yaffle.ports import HostMonitor

log = structlog.get_logger()

LOOK_S: Final = 30.0
CLEAR_S: Final = 10.0
WAKE_S: Final = 1.0
"""Looks are at least so far apart, however often somebody says that something has happened."""
CHANGED: Final = "HOST_STATE"
"""The action of events about a monitored host."""
UNNAMED: Final = "it does not name the host any more"
_LEVELS: Final = {HostState.LOST: events.WARNING, HostState.UNFENCED: events.ERROR}


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """What is to be done now that a look is saved."""

    told: bool = False
    """Whether there are new failures to be told."""
    claimed: tuple[str, ...] = ()
    """The hosts that this engine has to fence."""
    fenced_s: tuple[float, ...] = ()
    """Of hosts that were lost and are proved off now, how long that took."""


class HostWatcher:
    """Looks through one monitor for as long as a session lasts."""

    def __init__(
        self, ctx: EngineContext, session: Session, name: str, monitor: HostMonitor
    ) -> None:
        self._ctx = ctx
        self._session = session
        self._name = name
        self._monitor = monitor
        self._fault = ""
        self._fencer = LostHostFencer(ctx, session, name)

    async def run(self) -> None:
        """Look again and again; what cannot be saved is seen at the next look."""
        async with asyncio.TaskGroup() as group:
            while True:
                try:
                    await self._fencer.say_heard()
                    await self._look(group)
                except StoreUnavailable as error:
                    log.warning("hosts not saved", monitor=self._name, error=str(error))
                await self._rest()

    async def _rest(self) -> None:
        """Wait for the next look: for its time, or until the monitor is told that something happened."""
        poll_s, monitor = self._ctx.hosts.poll_s, self._monitor
        await self._ctx.clock.sleep(min(poll_s, WAKE_S))
        left_s = poll_s - WAKE_S
        if left_s <= 0:
            return
        began_s = self._ctx.clock.monotonic_s()
        if isinstance(monitor, SupportsWakeUp):
            what = f"host monitor {self._name}"
            told = await call_driver(monitor.changed, object, within_s=left_s, what=what)
            if not isinstance(told, Failure):
                return
            left_s -= self._ctx.clock.monotonic_s() - began_s
        await self._ctx.clock.sleep(max(0.0, left_s))

    async def _look(self, group: asyncio.TaskGroup) -> None:
        asked_us = self._ctx.clock.now_us()
        answer = await call_driver(
            lambda: self._monitor.look(deadline_s=LOOK_S),
            object,
            within_s=LOOK_S + 1,
            what=f"host monitor {self._name}",
        )
        if not self._session.may_act():
            return
        match answer:
            case HostReport() as report:
                self._say("")
                saved = await self._ctx.store.write(lambda conn: self.save(conn, report, asked_us))
                if saved.told:
                    self._ctx.signals.alerts.ring()
                for took_s in saved.fenced_s:
                    self._ctx.metrics.host_fence.observe(max(0.0, took_s))
                for host in saved.claimed:
                    group.create_task(self._fencer.fence(host), name=f"fence {host}")
                await self._clear_marks(report)
            case Failure(why=why) | MonitorBlind(why=why):
                await self._blind(why)
            case _:
                await self._blind(f"it answered with a {type(answer).__name__}")

    async def _blind(self, why: str) -> None:
        self._say(why)
        self._fencer.blind()
        silent_us = self._ctx.clock.now_us() - self._ctx.hosts.stale_us
        await self._ctx.store.write(
            lambda conn: hosts.blind(conn, self._name, why, silent_since_us=silent_us)
        )

    def _say(self, fault: str) -> None:
        if fault != self._fault:
            log.warning("host monitor", monitor=self._name, sees=not fault, fault=fault or None)
        self._fault = fault

    def save(self, conn: Connection, report: HostReport, asked_us: int) -> Saved:
        """Save a whole look in one transaction; return whether there is anything to be done now."""
        now_us = self._ctx.clock.now_us()
        if not hosts.begin(conn, self._name, asked_us, now_us, fault=report.fault):
            return Saved()
        before = dict(hosts.known(conn, self._name))
        fencings = _by_host(report)
        looks = []
        planned = [p for p in pauses.in_force(conn, now_us) if in_force(p, now_us)]
        for seen in report.sightings:
            sighting = _planned(seen, planned)
            row = before.pop(sighting.host, None)
            if row is None and sighting.seen is Seen.STARTING:
                # Nothing is known of it yet, and that is no beginning.
                continue
            known = None if row is None else row.known()
            own = fencings.get(sighting.host, ())
            verdict = judge(known, sighting, own, now_us, self._ctx.hosts.patience)
            looks.append(SeenHost(sighting=sighting, verdict=verdict, row=row))
        fences, chosen = self._fencer.claim(conn, looks, now_us)
        told = sum(self._save(conn, look, fences, now_us) for look in looks)
        for host in chosen:
            self._fencer.begun(conn, host, fences[host])
        for row in before.values():
            hosts.unseen(conn, row, report.unknown.get(row.host, UNNAMED), now_us)
        return Saved(
            told=told > 0,
            claimed=tuple(chosen),
            fenced_s=tuple((now_us - lost_us) / 1e6 for look in looks if (lost_us := look.lost_us)),
        )

    def _save(
        self, conn: Connection, look: SeenHost, fences: Mapping[str, HostFence], now_us: int
    ) -> int:
        """Save one host, and return how many failures of it there are to be told."""
        host, verdict = look.sighting.host, look.verdict
        hosts.save(
            conn,
            self._name,
            host,
            look.row,
            verdict.known,
            look.sighting.why,
            unseen_us=now_us if verdict.unknown else None,
            fence=fences.get(host),
        )
        self._note(conn, look, now_us)
        return sum(self._tell(conn, fencing, now_us) for fencing in verdict.tell)

    async def _clear_marks(self, report: HostReport) -> None:
        """Have the marks removed whose failures the responsible recovery controller has (seed 3)."""
        monitor: object = self._monitor
        # Where nobody is told, nobody takes anything over.
        if not (report.marks and self._ctx.drivers.alerts and isinstance(monitor, SupportsMarks)):
            return
        settled = await self._ctx.store.read(
            lambda conn: [mark for mark in report.marks if self._settled(conn, mark, report)]
        )
        for mark in settled:
            if not self._session.may_act():
                return
            why = await call_driver(
                lambda mark=mark: monitor.clear(mark, deadline_s=CLEAR_S),  # type: ignore[misc]
                str,
                within_s=CLEAR_S + 1,
                what=f"host monitor {self._name}",
            )
            if why != "":
                # It is seen again at the next look.
                said = why.why if isinstance(why, Failure) else why
                log.warning("mark not cleared", monitor=self._name, host=mark.host, why=said)

    def _settled(self, conn: Connection, mark: HostMark, report: HostReport) -> bool:
        """Whether all that a mark says has been judged, and no failure of its host waits any more."""
        row = hosts.known(conn, self._name).get(mark.host)
        if row is None or alerts.uncleared(conn, self._ctx.hosts.hostname(mark.host)) is not None:
            return False
        if not mark.at_s:
            # It says no time: it is about the failure that the host is off by now.
            return mark.timeless and row.state == HostState.FENCED
        # While a fencing goes on, nothing is owed yet.
        owed = [f for f in report.fencings if f.host == mark.host and f.owed]
        return bool(owed) and all(is_judged(f, row.told) for f in owed)

    def _tell(self, conn: Connection, fencing: HostFencing, now_us: int) -> bool:
        """Record the failure, unless it is one that a proof of ours has recorded."""
        if not self._ctx.drivers.alerts and not fencing.owed:
            self._event(conn, fencing.host, "fenced", f"{fencing.proof}; nobody is told", now_us)
            return False
        _, new = record(
            self._ctx,
            conn,
            fencing.host,
            failure_us=fencing.at_s * 1_000_000,
            proof=fencing.proof,
            source=f"monitor {self._name}",
            now_us=now_us,
        )
        return new

    def _note(self, conn: Connection, look: SeenHost, now_us: int) -> None:
        row, sighting, verdict = look.row, look.sighting, look.verdict
        state = verdict.known.state
        for fencing in verdict.pass_over:
            said = f"not told as a failure, for {verdict.because}: {fencing.proof}"
            self._event(conn, sighting.host, "passed_over", said, now_us)
        was = "unknown" if row is None or row.unseen_us is not None else str(row.state)
        first_and_well = row is None and state is HostState.UP
        if was != state and not first_and_well and not verdict.unknown:
            level = _LEVELS.get(state, events.INFO)
            said = f"host {sighting.host} was {was} and is {state}: {sighting.why}"
            self._event(conn, sighting.host, state.value, said, now_us, level)

    def _event(
        self,
        conn: Connection,
        host: str,
        status: str,
        reason: str,
        now_us: int,
        level: int = events.WARNING,
    ) -> None:
        events.append(
            conn,
            events.Subject(otype="HOST", oid="", oname=self._ctx.hosts.hostname(host)),
            at_us=now_us,
            action=CHANGED,
            status=status,
            reason=reason[:4000],
            level=level,
            data={"monitor": self._name, "host": host},
        )


def _planned(sighting: HostSighting, pauses_now: Sequence[Pause]) -> HostSighting:
    """Return a sighting as that of a host under maintenance, where somebody has said so to us."""
    by = next((pause for pause in pauses_now if is_of_host(pause, sighting.host)), None)
    if by is None:
        return sighting
    said = f"maintenance by {by.owner}: {by.reason}; {sighting.why}"
    return replace(sighting, seen=Seen.MAINTENANCE, why=said)


def _by_host(report: HostReport) -> Mapping[str, tuple[HostFencing, ...]]:
    found: dict[str, tuple[HostFencing, ...]] = {}
    for fencing in report.fencings:
        found[fencing.host] = (*found.get(fencing.host, ()), fencing)
    return found
