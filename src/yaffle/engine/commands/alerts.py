"""Commands about failed hosts: say that one failed, have one fenced, hand alerts over or give them up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from yaffle.engine.commands.context import CommandContext, asker
from yaffle.engine.incidents.host_failure import OPERATOR, RECORDED, record
from yaffle.engine.queries.presentation import iso
from yaffle.errors import Conflict, InvalidSpec, NotFound
from yaffle.model.authz import Right, need
from yaffle.model.host_state import HostFence, HostState
from yaffle.store import alerts, hosts

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from yaffle.model.authz import Principal

LOST: Final = frozenset({HostState.LOST.value, HostState.UNFENCED.value})
AHEAD_S: Final = 60.0
"""So far may the clock of whoever reports a failure be ahead of ours."""


class Alerts:
    """Marks hosts, retries and discards alerts."""

    def __init__(self, context: CommandContext) -> None:
        self._context = context

    async def host_failed(
        self, host: str, *, by: str | Principal, proof: str, failed_s: float | None = None
    ) -> tuple[str, bool]:
        """Record that a host has failed and is off, by a person's word; return its id, and if new.

        Whoever is told starts the host's instances elsewhere. So `proof` has to say why it is known
        to be off; a host that was only slow would then run them twice.
        """
        who, ctx = asker(by), self._context.ctx
        need(who, Right.ADMIN)
        need(who, Right.OVERRIDE)
        now_us = self._context.now()
        failure_us = now_us if failed_s is None else int(failed_s * 1_000_000)
        if not proof.strip():
            raise InvalidSpec("proof: say why the host is known to be off, e.g. who cut its power")
        if not (1 <= len(host) <= 255 and host.isprintable() and host == host.strip()):
            raise InvalidSpec("host: it must be a name of 1 to 255 printable characters")
        if not 0 <= failure_us <= now_us + int(AHEAD_S * 1_000_000):
            raise InvalidSpec(f"failure_time: {iso(failure_us)} lies in the future")
        if not ctx.drivers.alerts:
            raise Conflict(
                "no endpoint is told of failed hosts, so nobody would hear of it",
                hint="configure one: [alerts.NAME] in the configuration",
            )

        def work(conn: Connection) -> tuple[str, bool]:
            ident, new = record(
                ctx,
                conn,
                host,
                failure_us=failure_us,
                proof=f"{who.user}: {proof.strip()}",
                source=OPERATOR,
                now_us=now_us,
            )
            if new:
                self._context.event(conn, "HOST", ident, host, "HOST_MARK", who, proof)
            return ident, new

        done = await ctx.store.write(work)
        self._context.changed()
        return done

    async def host_fence(self, host: str, *, by: str | Principal, reason: str) -> None:
        """Ask for a lost host to be switched off now by a device of ours, whatever the settings allow.

        What is seen of it stays a reason not to: a host that is up, or on which anything answers, is
        no lost one. It is asked for until it is proved off, up again, or the asking is taken back.
        """
        who = asker(by)
        need(who, Right.ADMIN)
        need(who, Right.OVERRIDE)
        if not reason.strip():
            raise InvalidSpec("reason: say why this host has to be switched off")
        await self._fencing(
            host, who, "asked", HostFence(asked_by=who.user, why=reason.strip()[:1000]), reason
        )

    async def host_unfence(self, host: str, *, by: str | Principal) -> None:
        """Take back what was asked for with `host_fence`; a switch that is asked now is asked on."""
        who = asker(by)
        need(who, Right.ADMIN)
        await self._fencing(host, who, "taken back", HostFence(), "")

    async def _fencing(
        self, host: str, who: Principal, done: str, fence: HostFence, reason: str
    ) -> None:
        ctx = self._context.ctx
        now_us, stale_us = self._context.now(), ctx.hosts.stale_us

        def work(conn: Connection) -> None:
            names = tuple(ctx.drivers.host_monitors)
            asked = hosts.monitors(conn, names)
            found = hosts.listed(conn, names, host=host)
            if not found:
                raise NotFound(f"host {host}: no monitor knows of it; see `yaffle host list`")
            states = {
                row.monitor: hosts.state_of(
                    row, asked.get(row.monitor), now_us=now_us, stale_us=stale_us
                )
                for row in found
            }
            lost = [m for m, state in states.items() if state in LOST]
            if not lost:
                state = next(iter(states.values()))
                raise Conflict(f"host {host} is {state}: only one that is lost is switched off")
            for monitor in lost:
                row = hosts.take(conn, monitor, host)
                if row is None:
                    continue
                kept = replace(row.fencing, asked_by=fence.asked_by, why=fence.why)
                if not (kept.running and kept.until_us > now_us):
                    # Anew; but what engines hear of the host no person lifts.
                    kept = replace(kept, running=False, until_us=0, tries=0, said="")
                hosts.fenced(conn, monitor, host, kept)
            self._context.event(conn, "HOST", "", host, "HOST_FENCE", who, f"{done}: {reason}")

        await ctx.store.write(work)
        self._context.changed()

    async def alert_retry(
        self, seqs: Sequence[int] | None = None, *, by: str | Principal = ""
    ) -> int:
        """Offer waiting alerts now, all of them or those named; return how many."""
        who = asker(by)
        need(who, Right.ADMIN)

        def work(conn: Connection) -> int:
            count = alerts.retry(conn, now_us=self._context.now(), seqs=seqs)
            if count:
                self._context.event(conn, "ALERT", "", "alerts", "ALERT_RETRY", who)
            return count

        count = await self._context.ctx.store.write(work)
        self._context.changed()
        return count

    async def alert_discard(self, seq: int, *, by: str | Principal, reason: str) -> None:
        """Give an alert up: a named person answers for a failure that nobody takes over."""
        who = asker(by)
        need(who, Right.ADMIN)
        if not reason.strip():
            raise InvalidSpec("reason: say why nobody has to take this failure over")
        responsible = self._context.ctx.hosts.responsible

        def work(conn: Connection) -> None:
            found = next(iter(alerts.listed(conn, seq=seq)), None)
            if found is None:
                raise NotFound(f"alert {seq}: there is none; see `yaffle alert list`")
            now_us = self._context.now()
            if not alerts.discard(
                conn, seq, now_us=now_us, by=who.user, why=reason, responsible=responsible
            ):
                raise Conflict(f"alert {seq} is {found.state}: only one that waits is discarded")
            self._context.event(
                conn, "HOST", found.failure_id, found.hostname, f"{RECORDED}_DISCARD", who, reason
            )

        await self._context.ctx.store.write(work)
        self._context.changed()
