"""Switches lost hosts off whose own cluster has not: the engine that saw them last does, by a claim.

A claim is written with the look that it is made of, in one transaction, and ends by itself: whoever dies
leaves the host to the next look. To fence again what is off already only proves it again.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog

from yaffle.core.health.host_fencing import (
    FAILED,
    HEARD_S,
    LONGEST_S,
    HostFleet,
    LostHost,
    choose,
    hears,
    is_heard,
)
from yaffle.core.planning.host_attribution import Word, answers_itself
from yaffle.engine.incidents.host_failure import FENCER, record
from yaffle.engine.runtime.driver_call import Failure, call_driver
from yaffle.model.host_state import HostFence, HostState
from yaffle.model.host_state import Seen as SeenAs
from yaffle.model.ids import ClusterId
from yaffle.model.incident import PauseKind
from yaffle.model.operations import FenceResult, FenceVerdict, Proof
from yaffle.model.timing import CALL_MIN_S
from yaffle.ports import SupportsHostFence
from yaffle.store import events, hosts, pauses

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sqlalchemy import Connection

    from yaffle.core.health.host_verdict import HostVerdict
    from yaffle.engine.runtime.context import EngineContext
    from yaffle.engine.runtime.session import Session
    from yaffle.model.host_state import HostSighting
    from yaffle.store.hosts import HostRow

log = structlog.get_logger()

FENCED: Final = "HOST_FENCE"
"""The action of events about hosts that our own fencers switch off."""
FENCE_S: Final = 120.0
"""How long one host is taken to before the next has its turn."""
AGAIN_S: Final = 60.0
CALL_S: Final = 4.0
PAUSE_S: Final = 1.0
_LOST: Final = frozenset({HostState.LOST, HostState.UNFENCED})
NO_CLUSTER: Final = ClusterId("")


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One host of a look: what was seen, what is made of it, what was stored before."""

    sighting: HostSighting
    verdict: HostVerdict
    row: HostRow | None

    @property
    def fence(self) -> HostFence:
        """Return how far its fencing is; nothing where it is not lost any more."""
        lost = self.verdict.known.state in _LOST
        return HostFence() if self.row is None or not lost else self.row.fencing

    @property
    def lost_us(self) -> int | None:
        """Return since when a host was lost that is proved off now; None of every other one."""
        before = None if self.row is None else self.row.known()
        off = self.verdict.known.state is HostState.FENCED
        return before.since_us if off and before is not None and before.state in _LOST else None


class LostHostFencer:
    """Fences lost hosts of one monitor."""

    def __init__(self, ctx: EngineContext, session: Session, monitor: str) -> None:
        self._ctx = ctx
        self._session = session
        self._monitor = monitor
        self._lost: frozenset[str] = frozenset()
        """Those that were lost and missed when the hosts were looked at last."""

    def claim(
        self, conn: Connection, looks: Sequence[Seen], now_us: int
    ) -> tuple[Mapping[str, HostFence], list[str]]:
        """Return how far each host's fencing is now, and the hosts that are ours to fence.

        What the first says has to be stored in the transaction of this look, before any is fenced.
        """
        states = {seen.sighting.host: seen.verdict.known.state for seen in looks}
        lost_now = [seen for seen in looks if seen.verdict.known.state in _LOST]
        missed = (seen for seen in lost_now if seen.sighting.seen is SeenAs.LOST)
        self._lost = frozenset(seen.sighting.host for seen in missed)
        elsewhere = self._elsewhere(conn, now_us) if lost_now else {}
        fleet = HostFleet(
            hosts=len(states),
            failed=sum(state in FAILED for state in states.values()),
            domains=self._domains(states, elsewhere) if lost_now else {},
            policy=self._ctx.hosts.fencing,
            now_us=now_us,
            stopped=bool(lost_now) and self._stopped(conn),
        )
        up = frozenset(name for name, seen in elsewhere.items() if HostState.UP in seen)
        lost = [self._candidate(seen, up) for seen in lost_now]
        chosen, kept = choose(lost, fleet)
        fences = {one.host: one.fence for one in lost}
        for host, why in kept.items():
            held = fences[host].held
            if why.rule.recorded and why.rule.name not in held:
                held = (*held, why.rule.name)
                said = f"host {host} is lost, and it is left as it is: {why.says}"
                self._event(conn, host, "held", said, events.WARNING)
            fences[host] = replace(fences[host], said=why.says, held=held)
        for host in chosen:
            fences[host] = replace(
                fences[host],
                running=True,
                until_us=now_us + int(FENCE_S * 1_000_000),
                tries=fences[host].tries + 1,
                said="it is being fenced",
            )
        return fences, chosen

    def blind(self) -> None:
        """Note that nobody knows now which hosts are lost: what is under way is not begun again."""
        self._lost = frozenset()

    def _elsewhere(self, conn: Connection, now_us: int) -> Mapping[str, set[str]]:
        """Return how other monitors see hosts, by their full names: a device or a rack may be theirs.

        What was seen before a monitor went blind is no sight.
        """
        others = tuple(name for name in self._ctx.drivers.host_monitors if name != self._monitor)
        found: dict[str, set[str]] = {}
        asked, stale_us = hosts.monitors(conn, others), self._ctx.hosts.stale_us
        for row in hosts.listed(conn, others) if others else ():
            state = hosts.state_of(row, asked.get(row.monitor), now_us=now_us, stale_us=stale_us)
            found.setdefault(self._ctx.hosts.hostname(row.host), set()).add(state)
        return found

    def _domains(
        self, states: Mapping[str, HostState], elsewhere: Mapping[str, set[str]]
    ) -> Mapping[str, tuple[int, int]]:
        """Return the hosts of each failure domain, and how many of them have failed, by all monitors."""
        all_states = {name: set(seen) for name, seen in elsewhere.items()}
        for host, state in states.items():
            all_states.setdefault(self._ctx.hosts.hostname(host), set()).add(state)
        sizes, failed = Counter[str](), Counter[str]()
        for name, seen in all_states.items():
            domain = self._ctx.hosts.domain_of(name)
            sizes[domain] += 1
            failed[domain] += bool(seen & FAILED) and HostState.UP not in seen
        return {domain: (size, failed[domain]) for domain, size in sizes.items() if domain}

    async def say_heard(self) -> None:
        """Store what this engine hears of lost hosts: no other does, and each may claim them.

        At every turn, also where the monitor is blind here, or another engine's look is saved.
        """
        rows = await self._ctx.store.read(
            lambda conn: hosts.in_states(conn, self._monitor, sorted(_LOST))
        )
        if any(self._hears(row) for row in rows) and self._session.may_act():
            await self._ctx.store.write(self._save_heard)

    def _save_heard(self, conn: Connection) -> None:
        for lost in hosts.in_states(conn, self._monitor, sorted(_LOST)):
            # As it is once no look changes it any more: another engine may just have claimed it.
            row = hosts.take(conn, self._monitor, lost.host)
            if row is not None and row.state in _LOST and (said := self._hears(row)):
                until_us = self._ctx.clock.now_us() + int(self._heard_s() * 1_000_000)
                fence = replace(row.fencing, heard=said, heard_until_us=until_us)
                hosts.fenced(conn, self._monitor, row.host, fence)

    def _heard_s(self) -> float:
        return min(LONGEST_S, max(HEARD_S, 4 * self._ctx.hosts.poll_s))

    def _hears(self, row: HostRow) -> str:
        """Return what this engine hears of a lost host; empty where nothing, or where that is stored."""
        half_us = int(self._heard_s() * 500_000)
        if is_heard(row.fencing, self._ctx.clock.now_us() + half_us):
            return ""
        answering, said_up = self._signs(row.host, row.since_us)
        return hears(answering=answering, said_up=said_up)

    def _signs(self, host: str, since_us: int) -> tuple[int, bool]:
        """Return how many nodes on a host have answered since, and if their backend says it is up."""
        tally = self._ctx.tally
        names = {host, self._ctx.hosts.hostname(host)}
        # A cloud's name may stand behind a host's; of two hosts with one name either is reason enough.
        places = {place for place in tally.places() if place.partition("@")[0] in names}
        answering = sum(
            answers_itself(memory, since_us=since_us)
            for place in places
            for memory in tally.on_host(place, NO_CLUSTER)
        )
        words = (tally.words.get(place) for place in places)
        said_up = any(
            said is not None and said.word is Word.UP and said.at_us >= since_us for said in words
        )
        return answering, said_up

    def _candidate(self, seen: Seen, up_elsewhere: frozenset[str]) -> LostHost:
        host, known = seen.sighting.host, seen.verdict.known
        fencer = self._fencer(host)
        answering, said_up = self._signs(host, known.since_us)
        return LostHost(
            host=host,
            state=known.state,
            since_us=known.since_us,
            domain=self._ctx.hosts.domain_of(host),
            device="" if fencer is None else self._device_of(*fencer),
            busy=seen.sighting.busy,
            missed=seen.sighting.seen is SeenAs.LOST,
            answering=answering,
            said_up=said_up or self._ctx.hosts.hostname(host) in up_elsewhere,
            fence=seen.fence,
        )

    def _fencer(self, host: str) -> tuple[SupportsHostFence, str] | None:
        """Return the fencer that switches a host, and its name for it."""
        found: Iterator[tuple[SupportsHostFence, str]] = (
            (fencer, name)
            for fencer in self._ctx.drivers.fencers.values()
            if isinstance(fencer, SupportsHostFence)
            for name in (host, self._ctx.hosts.hostname(host))
            if self._device_of(fencer, name)
        )
        return next(found, None)

    def _device_of(self, fencer: SupportsHostFence, name: str) -> str:
        """Return a host's device; a fencer's bug is no device, and must not end the looks at hosts."""
        try:
            return str(fencer.device_of(name))
        except Exception:
            log.exception("driver failed", what="the fencer's devices", host=name)
            return ""

    async def fence(self, host: str) -> None:
        """Fence a claimed host until that is proved, refused, or its time is over."""
        found = self._fencer(host)
        until_s = self._ctx.clock.monotonic_s() + FENCE_S
        said = "no device switches it any more"
        if found is None:
            until_s = 0.0
        while found is not None and (left_s := until_s - self._ctx.clock.monotonic_s()) > 0:
            call_s = max(CALL_MIN_S, min(self._session.call_s(CALL_S), left_s))
            within_s = call_s + self._session.grace_s()
            await self._session.until_may_act(within_s)
            if barred := await self._session.write(lambda conn: self._barred(conn, host)):
                said = barred
                break
            if host not in self._lost:
                said = "it is not lost any more, or nobody sees it"
                break
            done = await call_driver(
                lambda within_s=call_s: found[0].fence_host(found[1], deadline_s=within_s),  # type: ignore[misc]
                FenceResult,
                within_s=within_s,
                what="the fencer",
            )
            said = done.why if isinstance(done, Failure) else str(done.detail)
            if isinstance(done, FenceResult):
                if done.verdict is FenceVerdict.CONFIRMED and isinstance(done.proof, Proof):
                    proved = partial(self._proved, host=host, proof=done.proof)
                    lost_us = await self._session.write(proved)
                    if lost_us is not None:
                        took_s = (self._ctx.clock.now_us() - lost_us) / 1e6
                        self._ctx.metrics.host_fence.observe(max(0.0, took_s))
                    self._ctx.signals.alerts.ring()
                    return
                if done.verdict is FenceVerdict.REFUSED:
                    break
            await self._ctx.clock.sleep(PAUSE_S)
        await self._session.write(lambda conn: self._unproved(conn, host, said))

    def _barred(self, conn: Connection, host: str) -> str:
        """Return why a claimed host must not be switched off any more; empty where it may."""
        if self._stopped(conn):
            return "everything was stopped"
        row = hosts.listed(conn, (self._monitor,), host=host)
        if any(is_heard(one.fencing, self._ctx.clock.now_us()) for one in row):
            return f"an engine hears of it: {row[0].fencing.heard}"
        return ""

    def _stopped(self, conn: Connection) -> bool:
        now_us = self._ctx.clock.now_us()
        found = pauses.in_force(conn, now_us)
        return any(p.kind is PauseKind.STOP and p.starts_us <= now_us for p in found)

    def _proved(self, conn: Connection, *, host: str, proof: Proof) -> int | None:
        """Store the proof; return since when the host was lost, None where it is not any more."""
        now_us, at_s = self._ctx.clock.now_us(), proof.at_us // 1_000_000
        evidence = f"{proof.method}: {proof.evidence}"
        row = hosts.take(conn, self._monitor, host)
        if row is not None and row.state in _LOST:
            hosts.proved_off(conn, row, at_s=at_s, now_us=now_us, why=f"fenced by us, {evidence}")
        # One that is fenced by now has been told, by its cluster's proof or another engine's.
        if self._ctx.drivers.alerts and (row is None or row.state != HostState.FENCED):
            record(
                self._ctx,
                conn,
                host,
                failure_us=proof.at_us,
                proof=evidence,
                source=FENCER,
                now_us=now_us,
            )
        self._event(conn, host, "proved", f"host {host} is off: {evidence}", events.WARNING)
        return None if row is None or row.state not in _LOST else row.since_us

    def _unproved(self, conn: Connection, host: str, said: str) -> None:
        row = hosts.take(conn, self._monitor, host)
        if row is None or row.state not in _LOST:
            return
        tries = max(1, row.fencing.tries)
        wait_s = min(AGAIN_S * 2 ** min(tries - 1, 8), LONGEST_S)
        until_us = self._ctx.clock.now_us() + int(wait_s * 1_000_000)
        said = f"not proved off by us in {tries} tries: {said}"[:4000]
        fence = replace(row.fencing, running=False, until_us=until_us, tries=tries, said=said)
        hosts.fenced(conn, self._monitor, host, fence)
        self._event(conn, host, "failed", f"host {host} is {said}", events.ERROR)

    def begun(self, conn: Connection, host: str, fence: HostFence) -> None:
        """Write down that a host is about to be switched off, and why."""
        asked = f", as {fence.asked_by} asks: {fence.why}" if fence.asked_by else ""
        why = f"host {host} is lost and nobody has fenced it: it is switched off{asked}"
        self._event(conn, host, "begun", why, events.WARNING)

    def _event(self, conn: Connection, host: str, status: str, reason: str, level: int) -> None:
        events.append(
            conn,
            events.Subject(otype="HOST", oid="", oname=self._ctx.hosts.hostname(host)),
            at_us=self._ctx.clock.now_us(),
            action=FENCED,
            status=status,
            reason=reason[:4000],
            level=level,
            data={"monitor": self._monitor, "host": host},
        )
