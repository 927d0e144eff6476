"""Diagnostics: facts about everything that healing depends on, each with a verdict and advice.

`examine` asks everything, the database included; `self_health` is for probes that come every second and
looks at this process alone, without waiting for anything. Where no engine runs in this process, what
the engines do is told from what they have written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from yaffle.api.diagnostics import disk, fleet, stored
from yaffle.api.diagnostics.process import access, certificates, notifiers, state_dir
from yaffle.api.diagnostics.report import Check, Report, Status, judged, unheard
from yaffle.engine.commands.receivers import acting
from yaffle.engine.runtime.context import how_to_have
from yaffle.errors import EngineUnavailable, StoreUnavailable, YaffleError
from yaffle.model.counts import count
from yaffle.model.host_state import UNKNOWN, HostState
from yaffle.ports import (
    SteeredClock,
    SupportsDeviceCheck,
    SupportsHostFence,
    SupportsOrphanLookup,
)
from yaffle.store import hosts
from yaffle.store.catalog import ids_of_nodes
from yaffle.store.fleet import Fleet, sighted
from yaffle.store.installation_facts import Facts, gather, names_of, unseen_of
from yaffle.store.receivers import end_of, shown_id

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from yaffle.api.auth.owners import Owners
    from yaffle.api.diagnostics.engine_facts import EngineFacts
    from yaffle.config import Settings
    from yaffle.engine.runtime.context import EngineContext
    from yaffle.store.hosts import MonitorRow

__all__ = ["Check", "Doctor", "Report", "Status"]

SLOW_S: Final = 1.0
STRAYS_S: Final = 5.0
DEVICES_S: Final = 10.0
SLACK_S: Final = 5.0
_REFUSED: Final = (
    "Their URLs are refused: `yaffle receiver delete NAME`, and make others if they are needed."
)
_RECEIVERS: Final = {
    "whose owner or cluster is gone": _REFUSED,
    "that ended": _REFUSED,
    "with the id in the database as it is": "`yaffle db migrate` hides it, once every process is new.",
    "whose URL cannot be shown here": "They work. Give every machine the same"
    " `receivers.keys_file`, the lost key among its lines.",
}
"""What to do about each kind of receiver that is not as it should be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stored:
    """The content of one snapshot of the database."""

    facts: Facts
    fleet: Fleet
    unseen: Sequence[str]
    """Names of nodes without a single observation, one more than are listed at most."""
    unseen_count: int
    monitors: Mapping[str, MonitorRow]
    hosts: Mapping[str, Sequence[str]]
    """The names of monitored hosts, by state."""
    fencing: frozenset[str]
    """Hosts that a fencer of ours switches off now, by all of their names."""


class Doctor:
    """Examines one process with the engine it belongs to, and through the database the whole."""

    def __init__(
        self,
        *,
        ctx: EngineContext,
        settings: Settings,
        facts: EngineFacts,
        owners: Owners | None = None,
    ) -> None:
        self._ctx = ctx
        self._settings = settings
        self._owners = owners
        self._facts = facts

    async def examine(self) -> Report:
        """Return every check; never raises, for what is broken is its answer."""
        folder = self._settings.state_dir
        # The folder of the database: a full disk is noticed there first.
        path = self._ctx.store.place.path
        room = await asyncio.to_thread(disk.look, path.parent if path else folder)
        found, engines = await self._database()
        causes = [c for c in (room, *found) if c.status is Status.FAIL]
        checks = [*found, room, *await self._engine(causes)]
        checks.append(await asyncio.to_thread(state_dir, folder))
        checks += await asyncio.to_thread(lambda: list(certificates(self._settings.server)))
        checks += [*access(self._settings), notifiers(self._ctx)]
        return Report(checks=checks, engines=engines)

    def vital(self) -> Iterable[Check]:
        """Return what a probe that comes every second wants to know; asks nobody."""
        return self._facts.vital()

    async def _engine(self, causes: Sequence[Check]) -> Sequence[Check]:
        try:
            return await self._facts.checks(causes)
        except EngineUnavailable as error:
            return [unheard(str(error))]

    # --- the database ------------------------------------------------------------------------

    async def _database(self) -> tuple[Sequence[Check], Sequence[dict[str, object]]]:
        clock, store = self._ctx.clock, self._ctx.store
        began_s = clock.monotonic_s()
        unseen = await self._unseen()
        try:
            # Reads go on from a file that was taken away; only the writer notices.
            await store.write(lambda _: None)
            asked_s, asked_us = clock.monotonic_s(), clock.now_us()
            seen = await store.read(lambda conn: self._snapshot(conn, unseen))
        except StoreUnavailable as error:
            return [
                Check(
                    name="database",
                    status=Status.FAIL,
                    detail=str(error),
                    advice="Look at the disk and the rights of the file, or at the server; nothing"
                    " is healed meanwhile.",
                )
            ], ()
        now_s = clock.monotonic_s()
        # Ours is kept with the database's; what may be wrong is the machine's.
        apart_us = clock.offset_us() if isinstance(clock, SteeredClock) else 0
        took_s, read_s = now_s - began_s, now_s - asked_s
        checks = [
            judged(
                "database",
                took_s > SLOW_S,
                f"{store.place}: writes and reads within {took_s * 1000:.1f} ms",
                "It is slow: look at the disk and at what else uses it.",
            ),
            *fleet.checks_of(
                seen.fleet, host_us=asked_us - apart_us + int(read_s * 5e5), took_s=read_s
            ),
            *stored.checks_of(seen.facts),
            self._drivers(seen.facts),
            *self._hosts(seen),
            *await self._devices(seen),
            await self._strays(),
            await self._receivers(seen.facts),
            judged(
                "never seen",
                seen.unseen_count > 0,
                f"{seen.unseen_count} watched nodes without a single observation"
                f"{stored.listed(seen.unseen)}",
                "Ask `yaffle why NODE` for one of them: address, port, detection modes.",
            ),
        ]
        return checks, seen.fleet.as_json()

    def _hosts(self, seen: _Stored) -> Sequence[Check]:
        """Return whether monitors see their hosts, and whether each that is lost is proved off."""
        names, stale_us = tuple(self._ctx.drivers.host_monitors), self._ctx.hosts.stale_us
        if not names:
            return ()
        now_us, asked, found = self._ctx.clock.now_us(), seen.monitors, seen.hosts
        silent = [
            f"{name} ({(row and row.fault) or 'no engine asks it'})"
            for name in names
            if (row := asked.get(name)) is None or now_us - row.seen_us > stale_us
        ]
        weak = [
            f"{name} ({row.fault})"
            for name, row in asked.items()
            if row.fault and now_us - row.seen_us <= stale_us
        ]
        unfenced, unknown = found[HostState.UNFENCED], found[UNKNOWN]
        total = sum(map(len, found.values()))
        domains = self._ctx.hosts.fencing.domains
        of = {host: self._ctx.hosts.domain_of(host) for some in found.values() for host in some}
        empty = [domain for domain in domains if total and domain not in of.values()]
        stray = [host for host, domain in of.items() if domains and not domain]
        return (
            judged(
                "host monitors",
                bool(silent or weak or empty or stray),
                f"{count(len(names), 'monitor')}, {count(total, 'host')}"
                + (f"; seeing nothing{stored.listed(silent)}" if silent else "")
                + (f"; not finding every failure{stored.listed(weak)}" if weak else "")
                + (f"; in hosts.domains, without a host{stored.listed(empty)}" if empty else "")
                + (f"; in no domain of hosts.domains{stored.listed(stray)}" if stray else "")
                + ("" if silent or weak else ", all seen lately"),
                "Where hosts are unknown no failure is found; see `yaffle explain host-unfenced`."
                " hosts.domains protects the hosts that its patterns name: correct them.",
            ),
            judged(
                "lost hosts",
                bool(unfenced),
                f"{count(len(found[HostState.LOST]), 'host')} lost, {len(found[HostState.FENCED])}"
                f" fenced, {len(unknown)} unknown, {len(unfenced)} lost without a proof"
                f"{stored.listed(unfenced)}",
                "Their instances are started nowhere: `yaffle host why HOST` says what to do.",
            ),
        )

    async def _devices(self, seen: _Stored) -> Sequence[Check]:
        """Return whether each power device tells the power of its host now, and lost hosts have one."""
        fencers = self._ctx.drivers.fencers.values()
        asked: dict[str, str | None] = {}
        # What runs may be about to fence a host, in whichever process.
        within_s = 0.0 if seen.facts.under_way else DEVICES_S
        try:
            for fencer in fencers:
                if isinstance(fencer, SupportsDeviceCheck):
                    async with asyncio.timeout(DEVICES_S + SLACK_S):
                        asked |= await fencer.device_faults(leave=seen.fencing, deadline_s=within_s)
            bare = self._without_device(
                seen, [f for f in fencers if isinstance(f, SupportsHostFence)]
            )
        except Exception as error:  # noqa: BLE001 - a driver's bug must not end the report
            why = f"cannot be told: {type(error).__name__}: {error}"
            return (judged("power devices", True, why, "Ask again later; the log may say more."),)
        silent = [f"{host} ({why})" for host, why in sorted(asked.items()) if why]
        left = sum(why is None for why in asked.values())
        fine = not (silent or bare or left == len(asked))
        if not (asked or bare):
            return ()
        return (
            judged(
                "power devices",
                bool(silent or bare),
                f"asked for {count(len(asked) - left, 'host')}"
                + (f"; not telling the power{stored.listed(silent)}" if silent else "")
                + (f"; none switches{stored.listed(bare)}" if bare else "")
                + (f"; not asked for {left}: too little time, or used to fence" if left else "")
                + (", each tells the power" if fine else ""),
                "A host whose device cannot be asked is never proved off. Try its agent by hand, as"
                " docs/howto/fence-a-host.md shows.",
            ),
        )

    def _without_device(self, seen: _Stored, fencers: Sequence[SupportsHostFence]) -> list[str]:
        """Return the hosts that would be switched off when they are lost, and that no device switches."""
        terms = self._ctx.hosts
        if not terms.fencing.fence_lost:
            return []
        known = sorted({host for some in seen.hosts.values() for host in some})
        return [
            host
            for host in known
            if not any(f.device_of(n) for f in fencers for n in (host, terms.hostname(host)))
        ]

    def _drivers(self, facts: Facts) -> Check:
        """Return whether this process can look at, and heal, every node that there is."""
        lacking = {k: n for k, n in facts.types.items() if k not in self._ctx.drivers.profiles}
        if not lacking:
            return Check(
                name="drivers",
                status=Status.OK,
                detail=f"for the nodes of all {len(facts.types)} profile types in use",
            )
        return Check(
            name="drivers",
            status=Status.FAIL,
            detail="; ".join(
                f"{count(n, 'node')} of type {k}, which is not here" for k, n in lacking.items()
            ),
            advice="They are unknown, and not healed. "
            + " ".join(f"For {kind}: {how_to_have(kind)}." for kind in lacking),
        )

    async def _strays(self) -> Check:
        """Return whether something runs here that was started for a node of which nobody knows."""
        found: list[str] = []
        try:
            known = frozenset(await self._ctx.store.read(ids_of_nodes))
            for driver in self._ctx.drivers.profiles.values():
                if isinstance(driver, SupportsOrphanLookup):
                    found += await driver.strays(known, deadline_s=STRAYS_S)
        except (TimeoutError, YaffleError) as error:
            why = f"cannot be told: {error}" if str(error) else "no answer in time"
            return judged("strays", True, why, "Ask again later.")
        return judged(
            "strays",
            bool(found),
            f"{count(len(found), 'process')} here of nodes that no row knows{stored.listed(found)}",
            "Nobody watches them: made after the copy that was restored, or for another database."
            " End them: `kill PID`.",
        )

    async def _receivers(self, facts: Facts) -> Check:
        """Return whether every webhook may still be called, and its id is hidden, and can be shown."""
        orphans: list[str] = []
        try:
            for row, has_cluster in facts.receivers:
                gone = "" if self._owners is None else await self._owners.gone(acting(row))
                if not has_cluster or gone:
                    orphans.append(f"{row.name} ({gone or 'its cluster is gone'})")
        except YaffleError as error:
            return judged("receivers", True, f"owners cannot be asked: {error}", "Ask again later.")
        now_us, terms = self._ctx.clock.now_us(), self._ctx.receivers
        rows = [row for row, _ in facts.receivers]
        ends = [(row, end_of(row.created_us, row.expires_us, terms.age_us)) for row in rows]
        found = {
            "whose owner or cluster is gone": orphans,
            "that ended": [row.name for row, end_us in ends if end_us and end_us <= now_us],
            "with the id in the database as it is": [r.name for r in rows if r.hidden is None],
            "whose URL cannot be shown here": [
                row.name for row in rows if shown_id(terms.keys, row.id, row.hidden) is None
            ],
        }
        said = [
            f"{len(names)} {what}{stored.listed(names)}"
            for what, names in found.items()
            if names or names is orphans
        ]
        advice = " ".join(_RECEIVERS[what] for what, names in found.items() if names)
        detail = f"{len(rows)}; {'; '.join(said)}"
        return judged("receivers", bool(advice), detail, advice)

    def _snapshot(self, conn: Connection, unseen: Sequence[str] | None) -> _Stored:
        most = stored.NAMES_MAX + 1
        ids = unseen_of(conn) if unseen is None else unseen
        names, now_us = tuple(self._ctx.drivers.host_monitors), self._ctx.clock.now_us()
        return _Stored(
            facts=gather(conn, now_us),
            fleet=sighted(conn, lease_s=self._settings.engine.lease),
            unseen=names_of(conn, ids[:most]),
            unseen_count=len(ids),
            monitors=hosts.monitors(conn, names),
            hosts=hosts.by_state(
                conn,
                names,
                hostname=self._ctx.hosts.hostname,
                now_us=now_us,
                stale_us=self._ctx.hosts.stale_us,
            ),
            fencing=frozenset(
                name
                for row in hosts.listed(conn, names)
                if row.fencing.running and row.fencing.until_us > now_us
                for name in self._ctx.hosts.names_of(row.host)
            ),
        )

    async def _unseen(self) -> Sequence[str] | None:
        """Return what our engine knows; None where it is other engines' to know, or it says nothing."""
        try:
            return await self._facts.unseen()
        except EngineUnavailable:
            return None
