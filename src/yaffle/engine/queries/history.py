"""Reads events, actions, pauses and pending notifications."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import or_, select, true

from yaffle.core.planning.pauses import in_force
from yaffle.engine.queries import presentation
from yaffle.engine.queries.presentation import Shown
from yaffle.errors import NotFound
from yaffle.model.incident import Pause, PauseKind, PauseScope
from yaffle.store import catalog
from yaffle.store.actions import get as get_action
from yaffle.store.actions import is_waiting_request
from yaffle.store.outbox import OutboxState
from yaffle.store.pauses import pause_of
from yaffle.store.rows import ActionRow, load
from yaffle.store.tables import actions, clusters, events, incidents, nodes, outbox, pauses

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import ColumnElement, Connection, RowMapping

    from yaffle.engine.runtime.context import EngineContext
    from yaffle.model.authz import Principal
    from yaffle.model.ids import ActionId

PAUSES_MAX = 1000
HOST = "HOST"


class History:
    """Reads what is only ever added to."""

    def __init__(self, ctx: EngineContext) -> None:
        self._ctx = ctx

    async def events(
        self,
        who: Principal,
        *,
        after: int = 0,
        node: str | None = None,
        host: str | None = None,
        limit: int = 100,
    ) -> Sequence[Shown]:
        """Return events later than number `after`, in their order.

        `host`: those about this host, by any of its names, and about the nodes that failed with it.
        """

        def work(conn: Connection) -> Sequence[Shown]:
            query = select(events).where(events.c.seq > after).order_by(events.c.seq).limit(limit)
            if host is not None:
                query = query.where(_about_host(self._ctx.hosts.names_of(host)))
            if who.scope is not None:
                query = query.where(events.c.project == who.scope)
            if node is not None:
                query = query.where(events.c.node_id == catalog.find_node(conn, node, who.scope).id)
            return [_event(row) for row in conn.execute(query).mappings()]

        return await self._ctx.store.read(work)

    async def actions(
        self, who: Principal, *, node: str | None = None, waiting: bool = False, limit: int = 100
    ) -> Sequence[Shown]:
        """Return actions, the latest first; `waiting`: only requests that something holds."""

        def work(conn: Connection) -> Sequence[Shown]:
            query = select(actions).order_by(actions.c.created_us.desc(), actions.c.id).limit(limit)
            if waiting:
                query = query.where(is_waiting_request())
            if who.scope is not None:
                query = query.where(actions.c.project == who.scope)
            if node is not None:
                found = catalog.find_node(conn, node, who.scope)
                query = query.where(actions.c.node_id == found.id)
            return _named(conn, [load(ActionRow, row) for row in conn.execute(query)])

        return await self._ctx.store.read(work)

    async def action(self, who: Principal, ident: ActionId) -> Shown:
        """Return one action; raise NotFound once it was pruned."""

        def work(conn: Connection) -> Shown:
            row = get_action(conn, ident)
            if row is None or who.scope not in {None, row.project}:
                raise NotFound(f"action {ident!r}: there is none")
            return _named(conn, [row])[0]

        return await self._ctx.store.read(work)

    async def pauses(
        self, who: Principal, kind: PauseKind, *, history: bool = False
    ) -> Sequence[Shown]:
        """Return pauses of a kind: those that hold or will, or all that ever were."""
        now_us = self._ctx.clock.now_us()

        def work(conn: Connection) -> Sequence[Shown]:
            query = select(pauses).where(pauses.c.kind == kind.value, _seen_by(who))
            if not history:
                over = pauses.c.expires_us.is_not(None) & (pauses.c.expires_us <= now_us)
                query = query.where(pauses.c.lifted_us.is_(None), ~over)
            ordered = query.order_by(pauses.c.starts_us.desc(), pauses.c.id).limit(PAUSES_MAX)
            return [_pause(conn, row, now_us) for row in conn.execute(ordered).mappings()]

        return await self._ctx.store.read(work)

    async def pause(self, who: Principal, ident: str) -> Shown:
        """Return one pause; raise NotFound."""
        now_us = self._ctx.clock.now_us()

        def work(conn: Connection) -> Shown:
            query = select(pauses).where(pauses.c.id == ident, _seen_by(who))
            row = conn.execute(query).mappings().one_or_none()
            if row is None:
                raise NotFound(f"pause {ident!r}: there is none")
            return _pause(conn, row, now_us)

        return await self._ctx.store.read(work)

    async def outbox(
        self, who: Principal, *, state: str | None = None, limit: int = 100
    ) -> Sequence[Shown]:
        """Return messages, all or those in `state`: what was not accepted first, then the oldest."""

        def work(conn: Connection) -> Sequence[Shown]:
            accepted = outbox.c.state == OutboxState.ACCEPTED
            query = select(outbox).order_by(accepted, outbox.c.seq).limit(limit)
            if who.scope is not None:
                told = select(events.c.seq).where(events.c.project == who.scope)
                query = query.where(outbox.c.event_seq.in_(told))
            if state is not None:
                query = query.where(outbox.c.state == state)
            return [_message(row) for row in conn.execute(query).mappings()]

        return await self._ctx.store.read(work)


def _about_host(names: Sequence[str]) -> ColumnElement[bool]:
    """Return which events are about a host and the nodes that failed with it."""

    # As incidents call it, too; with the cloud behind it, where a node's host says which.
    spelt = [*names, *(f"host {name}" for name in names)]

    def is_it(name: ColumnElement[str]) -> ColumnElement[bool]:
        of_cloud = (name.startswith(f"{one}@", autoescape=True) for one in spelt)
        return or_(name.in_(spelt), *of_cloud)

    whole = select(incidents.c.id).where(incidents.c.node_id == "", is_it(incidents.c.node_name))
    parts = select(incidents.c.id).where(incidents.c.parent_id.in_(whole))
    own = (events.c.otype == HOST) & is_it(events.c.oname)
    return or_(own, events.c.incident_id.in_(parts))


def _seen_by(who: Principal) -> ColumnElement[bool]:
    """Return which pauses concern somebody: those of everything, and those of their own."""
    if who.scope is None:
        return true()
    return or_(
        pauses.c.scope == PauseScope.ALL.value,
        *(
            pauses.c.target_id.in_(select(table.c.id).where(table.c.project == who.scope))
            for table in (clusters, nodes)
        ),
    )


def _named(conn: Connection, found: Sequence[ActionRow]) -> Sequence[Shown]:
    """Return actions with the names of their nodes; empty for one that is gone, or for none."""
    wanted = {row.node_id for row in found if row.node_id}
    named = conn.execute(select(nodes.c.id, nodes.c.name).where(nodes.c.id.in_(wanted)))
    names = {str(row.id): str(row.name) for row in named}
    return [{**presentation.action(row), "node": names.get(row.node_id or "", "")} for row in found]


def _event(row: RowMapping) -> Shown:
    return {
        "seq": row["seq"],
        "id": row["id"],
        "level": row["level"],
        "object": {"type": row["otype"], "id": row["oid"], "name": row["oname"]},
        "cluster_id": row["cluster_id"],
        "node_id": row["node_id"],
        "incident_id": row["incident_id"],
        "action": row["action"],
        "status": row["status"],
        "reason": row["reason"],
        "user": row["user"],
        "data": row["data"],
        **presentation.times(at=row["at_us"]),
    }


def _pause(conn: Connection, row: RowMapping, now_us: int) -> Shown:
    as_value = pause_of(row)
    return {
        "id": row["id"],
        "kind": row["kind"],
        "scope": as_value.scope.value,
        "target_id": "" if as_value.scope is PauseScope.HOST else row["target_id"],
        "target": _target(conn, as_value),
        "owner": row["owner"],
        "reason": row["reason"],
        "in_force": row["lifted_us"] is None and in_force(as_value, now_us),
        **presentation.times(
            starts=row["starts_us"], expires=row["expires_us"], lifted=row["lifted_us"]
        ),
        "lifted_by": row["lifted_by"],
    }


def _target(conn: Connection, pause: Pause) -> str:
    """Return the name of what a pause covers; empty for everything, and for what is gone."""
    if pause.scope is PauseScope.HOST:
        return pause.target_id.split()[0]
    tables = {PauseScope.NODE: nodes, PauseScope.CLUSTER: clusters}
    table = tables.get(pause.scope)
    if table is None:
        return ""
    found = conn.execute(select(table.c.name).where(table.c.id == pause.target_id)).scalar()
    return str(found or "")


def _message(row: RowMapping) -> Shown:
    return {
        "seq": row["seq"],
        "id": row["id"],
        "notifier": row["notifier"],
        "topic": row["topic"],
        "state": row["state"],
        "attempts": row["attempts"],
        "last_error": row["last_error"],
        "event_seq": row["event_seq"],
        "body": row["body"],
        **presentation.times(next=row["next_us"], created=row["created_us"]),
    }
