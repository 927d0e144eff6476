"""Commands of operators: maintenance, global stop, release, acknowledge, redeliver."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from yaffle.engine.commands.context import CommandContext, asker
from yaffle.engine.steps import host_quarantine
from yaffle.errors import InvalidSpec, NotFound
from yaffle.model.authz import Right, need
from yaffle.model.ids import PauseId
from yaffle.model.incident import Pause, PauseKind, PauseScope
from yaffle.store import catalog, hosts, incidents, instance_ha, outbox, pauses

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from yaffle.model.authz import Principal

PAUSE_MAX_S = 366 * 86_400.0
RELEASE_MAX_S = 86_400.0


class Operators:
    """Stops, lifts, releases and acknowledges."""

    def __init__(self, context: CommandContext) -> None:
        self._context = context

    async def pause(
        self,
        kind: PauseKind,
        scope: PauseScope,
        target: str,
        *,
        owner: str | Principal,
        reason: str,
        for_s: float | None,
    ) -> PauseId:
        """Begin maintenance or the global stop; return its id.

        What covers everything concerns every project, so it needs the right to administer; the
        stop needs the right to override as well.
        """
        who = asker(owner)
        _may_pause(who, kind, scope)
        if not reason.strip():
            raise InvalidSpec("reason: say why, for whoever finds this at three in the morning")
        if for_s is not None and not 0 < for_s <= PAUSE_MAX_S:
            raise InvalidSpec(f"duration: {for_s:g} s is not between 0 and {PAUSE_MAX_S:g} s")
        ident = PauseId(self._context.ctx.new_id())
        if scope is PauseScope.HOST:
            # All nodes that there are, so not while others wait to write.
            target = " ".join(
                await self._context.ctx.store.read(lambda conn: self._names(conn, target))
            )

        def work(conn: Connection) -> None:
            now_us = self._context.now()
            target_id = _pause_target(conn, scope, target, who)
            pauses.add(
                conn,
                Pause(
                    id=ident,
                    kind=kind,
                    scope=scope,
                    target_id=target_id,
                    owner=who.user,
                    reason=reason,
                    starts_us=now_us,
                    expires_us=None if for_s is None else now_us + int(for_s * 1e6),
                ),
            )
            self._context.event(
                conn, "PAUSE", ident, kind.value, f"{kind.value.upper()}_BEGIN", who, reason
            )

        await self._context.ctx.store.write(work)
        self._context.changed()
        return ident

    async def lift(self, pause: str, *, by: str | Principal) -> None:
        """End one pause before its time; raise NotFound also for one of another project."""
        who = asker(by)

        def work(conn: Connection) -> None:
            now_us = self._context.now()
            found = [
                p
                for p in pauses.in_force(conn, now_us)
                if p.id.startswith(pause) and _concerns(conn, p, who)
            ]
            if len(found) != 1 or len(pause) < catalog.MIN_PREFIX:
                raise NotFound(f"pause {pause!r}: none in force; see `yaffle maintenance list`")
            _may_pause(who, found[0].kind, found[0].scope)
            pauses.lift(conn, found[0].id, who.user, now_us)
            self._context.event(conn, "PAUSE", found[0].id, found[0].kind.value, "PAUSE_LIFT", who)

        await self._context.ctx.store.write(work)
        self._context.changed()

    async def lift_stop(self, *, by: str | Principal) -> int:
        """Lift every global stop; return how many there were."""
        who = asker(by)
        _may_pause(who, PauseKind.STOP, PauseScope.ALL)

        def work(conn: Connection) -> int:
            count = pauses.lift_kind(conn, PauseKind.STOP, who.user, self._context.now())
            if count:
                self._context.event(conn, "PAUSE", "", "stop", "STOP_LIFT", who)
            return count

        count = await self._context.ctx.store.write(work)
        self._context.changed()
        return count

    async def release(
        self, cluster: str, *, by: str | Principal, reason: str, for_s: float
    ) -> None:
        """Release a cluster's storm limit for a while."""
        who = asker(by)
        need(who, Right.OVERRIDE)
        if not 0 < for_s <= RELEASE_MAX_S:
            raise InvalidSpec(f"duration: {for_s:g} s is not between 0 and {RELEASE_MAX_S:g} s")

        def work(conn: Connection) -> None:
            found = catalog.find_cluster(conn, cluster, who.scope)
            now_us = self._context.now()
            pauses.add_release(
                conn,
                ident=self._context.ctx.new_id(),
                cluster_id=found.id,
                by=who.user,
                reason=reason,
                now_us=now_us,
                expires_us=now_us + int(for_s * 1e6),
            )
            self._context.event(
                conn, "CLUSTER", found.id, found.name, "CLUSTER_RELEASE", who, reason
            )

        await self._context.ctx.store.write(work)
        self._context.changed()

    async def acknowledge(self, incident: str, *, by: str | Principal) -> None:
        """A person has seen it: the node's retry budget is full again, a host's quarantine over."""
        who = asker(by)

        def work(conn: Connection) -> None:
            row = incidents.get(conn, incident, who.scope)
            now_us = self._context.now()
            incidents.set_values(conn, row.id, acknowledged_us=now_us, acknowledged_by=who.user)
            host_quarantine.acknowledged(self._context.ctx, conn, row, who.user, now_us)
            node = catalog.node(conn, row.node_id)
            if node is not None:
                catalog.set_node(
                    conn, node.id, now_us, attempts=0, next_attempt_us=None, exhausted_us=None
                )
            self._context.event(
                conn, "INCIDENT", row.id, row.node_name, "INCIDENT_ACKNOWLEDGE", who
            )

        await self._context.ctx.store.write(work)
        self._context.changed()

    def _names(self, conn: Connection, host: str) -> Sequence[str]:
        """Return all names of a host, the given one first; raise NotFound where nobody knows any."""
        names = self._context.ctx.hosts.names_of(host)
        if any(len(name.split()) != 1 for name in names):
            raise InvalidSpec(f"target: {host!r} is no host's name")
        known = {
            row.host for row in hosts.listed(conn, tuple(self._context.ctx.drivers.host_monitors))
        }
        known |= {str(node.attributes.get("host")) for node in instance_ha.placed_nodes(conn)}
        if known.isdisjoint(names):
            raise NotFound(
                f"host {host!r}: no monitor knows of it, and no node is on it; see `yaffle host list`"
            )
        return names

    async def redeliver(
        self, seqs: Sequence[int] | None = None, *, by: str | Principal = ""
    ) -> int:
        """Send parked messages again, all of them or those named; return how many."""
        who = asker(by)
        need(who, Right.ADMIN)

        def work(conn: Connection) -> int:
            count = outbox.redeliver(conn, now_us=self._context.now(), seqs=seqs)
            if count:
                self._context.event(conn, "OUTBOX", "", "outbox", "OUTBOX_REDELIVER", who)
            return count

        count = await self._context.ctx.store.write(work)
        self._context.changed()
        return count


def _may_pause(who: Principal, kind: PauseKind, scope: PauseScope) -> None:
    if kind is PauseKind.STOP:
        need(who, Right.OVERRIDE)
    if kind is PauseKind.STOP or scope in {PauseScope.ALL, PauseScope.HOST}:
        need(who, Right.ADMIN)


def _concerns(conn: Connection, pause: Pause, who: Principal) -> bool:
    """Whether somebody sees a pause: everything's, and what is in their project."""
    if who.scope is None or pause.scope is PauseScope.ALL:
        return True
    if pause.scope is PauseScope.HOST:
        return Right.ADMIN in who.rights
    try:
        return bool(_pause_target(conn, pause.scope, pause.target_id, who))
    except NotFound:
        return False


def _pause_target(conn: Connection, scope: PauseScope, target: str, who: Principal) -> str:
    match scope:
        case PauseScope.ALL:
            return ""
        case PauseScope.CLUSTER:
            return catalog.find_cluster(conn, target, who.scope).id
        case PauseScope.NODE:
            return catalog.find_node(conn, target, who.scope).id
        case PauseScope.HOST:
            return target
