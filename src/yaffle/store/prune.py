"""Prunes what is old and over, in portions; never what is open, active or undelivered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from sqlalchemy import delete, select

from yaffle.store import commit_sequence
from yaffle.store.outbox import OutboxState
from yaffle.store.tables import (
    actions,
    alerts,
    debris,
    decisions,
    engines,
    events,
    ha_notifications,
    host_failures,
    incidents,
    outbox,
    pauses,
    proofs,
    releases,
    steps,
    vm_moves,
)
from yaffle.store.tables import counters as counters_table

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection, Table

DAY_S: Final = 86_400
BATCH: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """Retention of each kind after it is over, in seconds (design/engines)."""

    events_s: int = 30 * DAY_S
    actions_s: int = 7 * DAY_S
    incidents_s: int = 365 * DAY_S
    outbox_s: int = 7 * DAY_S
    """Of accepted messages; what is pending or parked waits for ever."""
    decisions_s: int = 30 * DAY_S

    def __post_init__(self) -> None:
        if any(getattr(self, field.name) < 0 for field in fields(self)):
            raise ValueError("a retention cannot be negative")


def prune(
    conn: Connection, *, now_us: int, retention: Retention, limit: int = BATCH
) -> Mapping[str, int]:
    """Delete at most `limit` rows of each table; return how many of each went.

    One bounded transaction: the caller repeats it until every number is below `limit`, so that
    others get to write in between. Proofs go with their incident, steps with their action.
    """
    rules: tuple[tuple[Table, ColumnElement[bool]], ...] = (
        (events, events.c.at_us < _before(now_us, retention.events_s)),
        (decisions, decisions.c.at_us < _before(now_us, retention.decisions_s)),
        (actions, _over_actions(_before(now_us, retention.actions_s))),
        (incidents, _over_incidents(_before(now_us, retention.incidents_s))),
        (
            outbox,
            (outbox.c.state == OutboxState.ACCEPTED)
            & (outbox.c.done_us < _before(now_us, retention.outbox_s)),
        ),
        (alerts, _over_alerts(_before(now_us, retention.incidents_s))),
        (host_failures, _over_failures(_before(now_us, retention.incidents_s))),
        (ha_notifications, ha_notifications.c.ended_us < _before(now_us, retention.incidents_s)),
        (debris, debris.c.done_us < _before(now_us, retention.actions_s)),
        (releases, releases.c.expires_us < _before(now_us, retention.incidents_s)),
        (pauses, pauses.c.lifted_us < _before(now_us, retention.incidents_s)),
        (pauses, pauses.c.expires_us < _before(now_us, retention.incidents_s)),
        (engines, engines.c.stopped_us < _before(now_us, retention.actions_s)),
        (counters_table, commit_sequence.forgotten(conn)),
    )
    gone: dict[str, int] = {}
    for table, over in rules:
        # The larger number where a table has two rules: it says whether more is left.
        gone[table.name] = max(gone.get(table.name, 0), _delete(conn, table, over, limit))
    return MappingProxyType(gone)


def _before(now_us: int, kept_s: int) -> int:
    return now_us - kept_s * 1_000_000


def _over_actions(before_us: int) -> ColumnElement[bool]:
    # Two witnesses that it is over: a half-written row is kept rather than forgotten. The steps of
    # an incident that is still open are its story, so they stay too.
    still_open = select(incidents.c.id).where(
        incidents.c.id == actions.c.incident_id, incidents.c.ended_us.is_(None)
    )
    return (actions.c.end_us < before_us) & actions.c.lock_key.is_(None) & ~still_open.exists()


def _over_incidents(before_us: int) -> ColumnElement[bool]:
    return (incidents.c.ended_us < before_us) & incidents.c.open_key.is_(None)


def _over_alerts(before_us: int) -> ColumnElement[bool]:
    # Whoever comes to a failure that is open tells those who, it seems, were never told.
    cleared = select(host_failures.c.id).where(host_failures.c.cleared_us < before_us)
    return (alerts.c.done_us < before_us) & alerts.c.failure_id.in_(cleared)


def _over_failures(before_us: int) -> ColumnElement[bool]:
    # An alert without its failure could be delivered no more.
    told = select(alerts.c.seq).where(alerts.c.failure_id == host_failures.c.id)
    return (host_failures.c.cleared_us < before_us) & ~told.exists()


def _delete(conn: Connection, table: Table, over: ColumnElement[bool], limit: int) -> int:
    # What belongs to a notification goes by its id.
    key = table.c.id if table is ha_notifications else next(iter(table.primary_key))
    # Keys first: MariaDB takes neither LIMIT in a sub-query nor one on the table it deletes from.
    keys = conn.execute(select(key).where(over).limit(limit)).scalars().all()
    if not keys:
        return 0
    if table is actions:
        conn.execute(delete(steps).where(steps.c.action_id.in_(keys)))
    if table is ha_notifications:
        conn.execute(delete(vm_moves).where(vm_moves.c.notification_id.in_(keys)))
    if table is incidents:
        conn.execute(delete(proofs).where(proofs.c.incident_id.in_(keys)))
    return conn.execute(delete(table).where(key.in_(keys))).rowcount
