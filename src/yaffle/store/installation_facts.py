"""The database's facts for the doctor, read in one snapshot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sqlalchemy import func, select

from yaffle.core.recovery.host_quarantine import CAUSE as QUARANTINED
from yaffle.store import actions, alerts, catalog, credentials, incidents, leases, outbox, pauses
from yaffle.store.orphans import WHATEVER
from yaffle.store.rows import ReceiverRow, load
from yaffle.store.tables import bindings, clusters, debris, nodes, receivers, watches

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection, Table

    from yaffle.model.incident import Pause


UNSEEN_US: Final = 60_000_000
TIDY_US: Final = 120_000_000
"""So long may it take to delete a trust in whose place there is a newer one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Counts, ages in seconds, and names."""

    clusters: int
    nodes: int
    unwatched: Sequence[str]
    """Clusters whose watch nobody holds."""
    unprotected: Sequence[str]
    """Clusters without a health policy in force."""
    under_way: int
    """Actions that run now: they may be fencing hosts."""
    pending_age_s: float
    parked: int
    alert_age_s: float
    """Of the oldest alert of a failed host that its endpoint has not accepted."""
    alerts_refused: int
    ready_age_s: float
    debris: int
    lookouts: int
    """Deleted nodes of which a copy may still come about."""
    pauses: Sequence[Pause]
    exhausted: Sequence[tuple[str, str]]
    """Name of each node that needs a human, and the incident to acknowledge; empty without one."""
    quarantined: Sequence[tuple[str, str]]
    """Of each host in quarantine what stands in the way, and its incident."""
    types: Mapping[str, int]
    """How many nodes there are of each profile type."""
    receivers: Sequence[tuple[ReceiverRow, bool]]
    """Each, and whether its cluster is there."""
    left_trusts: Sequence[str]
    """What clouds call the trusts that should have been deleted there, and are not."""


def gather(conn: Connection, now_us: int) -> Facts:
    """Return the facts as of now."""
    held = select(watches.c.cluster_id).where(watches.c.lease_us > leases.now(conn))
    bound = select(bindings.c.cluster_id).where(bindings.c.enabled)
    return Facts(
        clusters=_count(conn, clusters),
        nodes=_count(conn, nodes),
        unwatched=_names(conn, held),
        unprotected=_names(conn, bound),
        under_way=actions.count_running(conn),
        pending_age_s=_age_s(outbox.oldest_pending_us(conn), now_us),
        parked=outbox.count_parked(conn),
        alert_age_s=_age_s(alerts.oldest_pending_us(conn), now_us),
        alerts_refused=alerts.count_refused(conn),
        ready_age_s=_age_s(actions.oldest_ready_us(conn), now_us),
        debris=_unsettled(conn, debris.c.physical_id.not_in(("", WHATEVER))),
        lookouts=_unsettled(conn, debris.c.physical_id == WHATEVER),
        pauses=pauses.in_force(conn, now_us),
        exhausted=_exhausted(conn),
        types=catalog.types_of_nodes(conn),
        receivers=_receivers(conn),
        left_trusts=credentials.left_over(conn, now_us - TIDY_US),
        quarantined=[(row.reason, row.id) for row in incidents.open_of_cause(conn, QUARANTINED)],
    )


def _unsettled(conn: Connection, which: ColumnElement[bool]) -> int:
    query = select(func.count()).select_from(debris).where(debris.c.done_us.is_(None), which)
    return int(conn.execute(query).scalar_one())


def _receivers(conn: Connection) -> Sequence[tuple[ReceiverRow, bool]]:
    there = select(clusters.c.id).where(clusters.c.id == receivers.c.cluster_id).exists()
    query = select(receivers, there.label("there")).order_by(receivers.c.created_us)
    return [(load(ReceiverRow, row), bool(row.there)) for row in conn.execute(query)]


def _exhausted(conn: Connection) -> Sequence[tuple[str, str]]:
    query = (
        select(nodes.c.id, nodes.c.name)
        .where(nodes.c.exhausted_us.is_not(None))
        .order_by(nodes.c.name)
    )
    rows = conn.execute(query).all()
    known = incidents.exhausted_of(conn, [row.id for row in rows])
    return [(row.name, known.get(row.id, "")) for row in rows]


def unseen_of(conn: Connection) -> Sequence[str]:
    """Return the nodes that are watched and of which no engine has written any observation.

    A new one is given a while: its first check may not have come round.
    """
    bound = select(bindings.c.cluster_id).where(bindings.c.enabled)
    held = select(watches.c.cluster_id).where(watches.c.lease_us > leases.now(conn))
    query = (
        select(nodes.c.id)
        .where(
            nodes.c.cluster_id.in_(bound),
            nodes.c.cluster_id.in_(held),
            nodes.c.seen_us.is_(None),
            nodes.c.made_us < leases.now(conn) - UNSEEN_US,
        )
        .order_by(nodes.c.name)
    )
    return list(conn.execute(query).scalars())


def names_of(conn: Connection, ids: Sequence[str]) -> Sequence[str]:
    """Return the names of nodes."""
    query = select(nodes.c.name).where(nodes.c.id.in_(ids)).order_by(nodes.c.name)
    return list(conn.execute(query).scalars())


def _count(conn: Connection, table: Table) -> int:
    return conn.execute(select(func.count()).select_from(table)).scalar_one()


def _names(conn: Connection, covered: object) -> Sequence[str]:
    query = select(clusters.c.name).where(clusters.c.id.not_in(covered)).order_by(clusters.c.name)  # type: ignore[arg-type]
    return list(conn.execute(query).scalars())


def _age_s(since_us: int | None, now_us: int) -> float:
    return 0.0 if since_us is None else max(0, now_us - since_us) / 1e6
