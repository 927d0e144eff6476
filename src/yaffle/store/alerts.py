"""Failures of hosts, and the alerts that tell each endpoint of them until it has accepted.

pending ──accepted───▶ accepted
   │  ├──failed/refused▶ pending, later    (an alert has no last attempt)
   └─────discarded───▶ discarded           (by a person, with a reason)

A failure is cleared by compare-and-set, with the alert of the endpoint that is responsible for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from sqlalchemy import BigInteger, bindparam, exists, func, insert, select, update

from yaffle.model.host_failure import HostFailure
from yaffle.store.outbox import BACK_S, CAP_S, ERROR_MAX, backoff_s, has_come
from yaffle.store.rows import load
from yaffle.store.tables import alerts, host_failures

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection, Row


class AlertState(StrEnum):
    """The states of an alert."""

    PENDING = "pending"
    ACCEPTED = "accepted"
    DISCARDED = "discarded"


LATE_US: Final = 900_000_000
"""Nobody proves a host off so long after somebody else has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """An alert that is due."""

    seq: int
    endpoint: str
    failure: HostFailure
    resolves: bool = False
    """Whether its endpoint has it, and is to be told that somebody has taken the failure over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRow:
    """An alert with its failure."""

    seq: int
    endpoint: str
    state: str
    attempts: int
    next_us: int
    refused_us: int | None
    last_answer: str
    created_us: int
    done_us: int | None
    done_by: str
    done_why: str
    failure_id: str
    hostname: str
    failure_us: int
    generated_us: int
    on_shared_storage: bool
    proof: str
    source: str
    incident_id: str
    cleared_us: int | None
    cleared_by: str


# --- failures -------------------------------------------------------------------------------------


def failure_of(conn: Connection, hostname: str, failure_us: int) -> str | None:
    """Return the id of a host's failure at that time; None where there is none."""
    found: str | None = conn.execute(
        select(host_failures.c.id).where(
            host_failures.c.hostname == hostname, host_failures.c.failure_us == failure_us
        )
    ).scalar_one_or_none()
    return found


def uncleared(conn: Connection, hostname: str) -> str | None:
    """Return the id of the host's latest failure that nobody has taken over; None where all are."""
    found: str | None = conn.execute(
        select(host_failures.c.id)
        .where(host_failures.c.hostname == hostname, host_failures.c.cleared_us.is_(None))
        .order_by(host_failures.c.failure_us.desc())
        .limit(1)
    ).scalar_one_or_none()
    return found


def near(conn: Connection, hostname: str, at_us: int, *, within_us: int, but: str) -> str | None:
    """Return the id of a failure of the host that another source has proved about then; None without.

    One that somebody has told late is about then until it was told, but not for longer than LATE_US: the
    host may have been back since.
    """
    found: str | None = conn.execute(
        select(host_failures.c.id)
        .where(
            host_failures.c.hostname == hostname,
            host_failures.c.source != but,
            host_failures.c.failure_us <= at_us + within_us,
            host_failures.c.failure_us >= at_us - LATE_US,
            host_failures.c.generated_us >= at_us - within_us,
        )
        .order_by(host_failures.c.failure_us.desc())
        .limit(1)
    ).scalar_one_or_none()
    return found


def add(
    conn: Connection, failure: Mapping[str, object], endpoints: Sequence[str], now_us: int
) -> None:
    """Insert a failure with one alert for each endpoint, due at once."""
    conn.execute(insert(host_failures).values(**failure))
    _tell(conn, str(failure["id"]), str(failure["hostname"]), endpoints, now_us)


def complete(conn: Connection, endpoints: Sequence[str], responsible: str, now_us: int) -> int:
    """Bring failures that nobody has taken over in line with the settings; return the alerts added.

    An endpoint that is new is told of them too, and one that is responsible now may have accepted.
    """
    taken = (
        select(alerts.c.failure_id, alerts.c.endpoint)
        .join(host_failures, host_failures.c.id == alerts.c.failure_id)
        .where(
            host_failures.c.cleared_us.is_(None),
            alerts.c.endpoint == responsible,
            alerts.c.state != AlertState.PENDING,
        )
    )
    for row in conn.execute(taken).all():
        _clear(conn, row.failure_id, row.endpoint, now_us)
    added = 0
    for name in endpoints:
        told = exists().where(alerts.c.failure_id == host_failures.c.id, alerts.c.endpoint == name)
        open_ones = (
            select(host_failures.c.id, host_failures.c.hostname)
            .where(host_failures.c.cleared_us.is_(None), ~told)
            .order_by(host_failures.c.failure_us)
        )
        for row in conn.execute(open_ones).all():
            _tell(conn, row.id, row.hostname, [name], now_us)
            added += 1
    return added


def _tell(
    conn: Connection, failure_id: str, hostname: str, endpoints: Sequence[str], now_us: int
) -> None:
    times = {"next_us": now_us, "created_us": now_us}
    row = {"failure_id": failure_id, "hostname": hostname, **times}
    if endpoints:
        conn.execute(insert(alerts), [{**row, "endpoint": name} for name in endpoints])


def _clear(conn: Connection, failure_id: str, by: str, now_us: int) -> None:
    conn.execute(
        update(host_failures)
        .where(host_failures.c.id == failure_id, host_failures.c.cleared_us.is_(None))
        .values(cleared_us=now_us, cleared_by=by)
    )


# --- alerts ---------------------------------------------------------------------------------------

_PENDING: Final = alerts.c.state == AlertState.PENDING
# Built once: it is asked all the time, and mostly there is nothing.
_ENDPOINTS: Final = (
    select(alerts.c.endpoint)
    .where(_PENDING, has_come(alerts.c.next_us, bindparam("now", type_=BigInteger)))
    .distinct()
    .order_by(alerts.c.endpoint)
)
_before: Final = alerts.alias("before")
_OVERTAKES: Final = exists(
    select(_before.c.seq).where(
        _before.c.endpoint == alerts.c.endpoint,
        _before.c.hostname == alerts.c.hostname,
        _before.c.state == AlertState.PENDING,
        _before.c.seq < alerts.c.seq,
    )
)
"""Whether an earlier failure of the same host still waits for the same endpoint (seed 3: in order)."""
_OLDEST: Final = select(func.min(alerts.c.created_us)).where(_PENDING)
_REFUSED: Final = (
    select(func.count()).select_from(alerts).where(_PENDING, alerts.c.refused_us.is_not(None))
)


def endpoints(conn: Connection, *, now_us: int, resolvers: Sequence[str] = ()) -> Sequence[str]:
    """Return the names of the endpoints with alerts due; `resolvers` are told of resolutions, too."""
    names = set(conn.execute(_ENDPOINTS, {"now": now_us}).scalars())
    if resolvers:
        settled = select(alerts.c.endpoint).join(host_failures, _SAME).distinct()
        names |= set(conn.execute(settled.where(*_settled(resolvers, now_us))).scalars())
    return sorted(names)


_SAME: Final = host_failures.c.id == alerts.c.failure_id


def _settled(resolvers: Sequence[str], now_us: int) -> tuple[ColumnElement[bool], ...]:
    """Return the conditions of alerts whose failure is cleared, and whose endpoint is to be told so."""
    return (
        alerts.c.endpoint.in_(resolvers),
        alerts.c.state == AlertState.ACCEPTED,
        alerts.c.resolved_us.is_(None),
        host_failures.c.cleared_us.is_not(None),
        has_come(alerts.c.next_us, now_us),
    )


def due_resolutions(
    conn: Connection, *, now_us: int, limit: int, skip: Sequence[int], endpoint: str
) -> tuple[Due, ...]:
    """Return an endpoint's alerts of failures that somebody has taken over, the oldest first."""
    rows = conn.execute(
        select(alerts.c.seq, alerts.c.endpoint, host_failures)
        .join(host_failures, _SAME)
        .where(*_settled([endpoint], now_us), alerts.c.seq.not_in(skip))
        .order_by(alerts.c.seq)
        .limit(limit)
    )
    return tuple(
        Due(seq=r.seq, endpoint=r.endpoint, failure=_failure(r), resolves=True) for r in rows
    )


def resolved(conn: Connection, seq: int, *, now_us: int) -> None:
    """Store that an endpoint has heard that the failure is settled."""
    conn.execute(update(alerts).where(alerts.c.seq == seq).values(resolved_us=now_us))


def unresolved(conn: Connection, seq: int, *, now_us: int, said: str, chance: float) -> None:
    """Note that an endpoint has not heard it; it is told again later."""
    accepted_ = (alerts.c.seq == seq) & (alerts.c.state == AlertState.ACCEPTED)
    attempts = conn.execute(select(alerts.c.attempts).where(accepted_)).scalar_one_or_none()
    wait_us = int(backoff_s((attempts or 0) + 1, chance) * 1_000_000)
    later = {"next_us": now_us + wait_us, "attempts": alerts.c.attempts + 1}
    conn.execute(update(alerts).where(accepted_).values(last_answer=said[:ERROR_MAX], **later))


def due(
    conn: Connection, *, now_us: int, limit: int, skip: Sequence[int], endpoint: str
) -> tuple[Due, ...]:
    """Return an endpoint's pending alerts whose time has come, the oldest first, in order per host."""
    rows = conn.execute(
        select(alerts.c.seq, alerts.c.endpoint, host_failures)
        .join(host_failures, host_failures.c.id == alerts.c.failure_id)
        .where(
            alerts.c.endpoint == endpoint,
            _PENDING,
            has_come(alerts.c.next_us, now_us),
            alerts.c.seq.not_in(skip),
            ~_OVERTAKES,
        )
        .order_by(alerts.c.seq)
        .limit(limit)
    )
    return tuple(Due(seq=r.seq, endpoint=r.endpoint, failure=_failure(r)) for r in rows)


def listed(
    conn: Connection,
    *,
    seq: int | None = None,
    state: str | None = None,
    hostname: str | None = None,
    failure_id: str | None = None,
    limit: int = 100,
) -> Sequence[AlertRow]:
    """Return alerts: those that wait first, then the newest."""
    wanted = (
        (alerts.c.seq, seq),
        (alerts.c.state, state),
        (alerts.c.hostname, hostname),
        (alerts.c.failure_id, failure_id),
    )
    rows = conn.execute(
        select(alerts, *(c for c in host_failures.c if c.name not in ("id", "hostname")))
        .join(host_failures, host_failures.c.id == alerts.c.failure_id)
        .where(*(column == value for column, value in wanted if value is not None))
        .order_by(alerts.c.state != AlertState.PENDING, alerts.c.seq.desc())
        .limit(limit)
    )
    return [load(AlertRow, row) for row in rows]


def _failure(row: Row[tuple[object, ...]]) -> HostFailure:
    return HostFailure(
        id=row.id,
        hostname=row.hostname,
        failure_s=row.failure_us // 1_000_000,
        generated_s=row.generated_us // 1_000_000,
        on_shared_storage=row.on_shared_storage,
        proof=row.proof,
    )


def oldest_pending_us(conn: Connection) -> int | None:
    """Return when the oldest alert was written that its endpoint has not accepted; None without one."""
    found: int | None = conn.execute(_OLDEST).scalar_one()
    return found


def count_refused(conn: Connection) -> int:
    """Return how many alerts their endpoints have refused and are still offered."""
    return int(conn.execute(_REFUSED).scalar_one())


def accepted(conn: Connection, seq: int, *, now_us: int, said: str, responsible: str) -> bool:
    """Store that the endpoint accepted it, and clear the failure where it is the `responsible` one.

    False if it was not pending any more. When the endpoint had not taken it before, it is back: what
    else waits for it is not kept waiting.
    """
    row = conn.execute(
        select(alerts.c.endpoint, alerts.c.attempts, alerts.c.failure_id).where(alerts.c.seq == seq)
    ).one_or_none()
    done = {"state": AlertState.ACCEPTED, "done_us": now_us, "refused_us": None}
    if row is None or not _tried(conn, seq, said, **done):
        return False
    if row.endpoint == responsible:
        _clear(conn, row.failure_id, row.endpoint, now_us)
    if row.attempts:
        back_us = now_us + int(BACK_S * 1_000_000)
        late = (alerts.c.endpoint == row.endpoint) & (alerts.c.next_us > back_us)
        _change(conn, late & alerts.c.refused_us.is_(None), next_us=back_us)
    return True


def failed(conn: Connection, seq: int, *, now_us: int, said: str, chance: float) -> bool:
    """Note an attempt without success and put the next one off; False if it was not pending any more."""
    attempts = conn.execute(
        select(alerts.c.attempts).where(alerts.c.seq == seq, _PENDING)
    ).scalar_one_or_none()
    wait_us = int(backoff_s((attempts or 0) + 1, chance) * 1_000_000)
    later = {"next_us": now_us + wait_us, "refused_us": None}
    return _tried(conn, seq, said, **later)


def refused(conn: Connection, seq: int, *, now_us: int, said: str) -> bool:
    """Note a refusal: the next attempt comes after the longest interval. False as in `failed`."""
    later = {"next_us": now_us + int(CAP_S * 1_000_000), "refused_us": now_us}
    return _tried(conn, seq, said, **later)


def retry(conn: Connection, *, now_us: int, seqs: Sequence[int] | None) -> int:
    """Make pending alerts due now, all of them or those named; return how many."""
    return _change(conn, _chosen(seqs), next_us=now_us)


def discard(
    conn: Connection, seq: int, *, now_us: int, by: str, why: str, responsible: str
) -> bool:
    """Store that a person gives an alert up; False if it is not pending.

    The failure is cleared where it was the `responsible` endpoint's, or nobody else is offered it: an
    endpoint that the settings have later is not told of what a person has dealt with long ago.
    """
    row = conn.execute(
        select(alerts.c.endpoint, alerts.c.failure_id).where(alerts.c.seq == seq)
    ).one_or_none()
    done = {"state": AlertState.DISCARDED, "done_us": now_us, "done_by": by, "done_why": why}
    if row is None or not _change(conn, alerts.c.seq == seq, **done):
        return False
    others = select(alerts.c.seq).where(alerts.c.failure_id == row.failure_id, _PENDING).limit(1)
    if row.endpoint == responsible or conn.execute(others).first() is None:
        _clear(conn, row.failure_id, by, now_us)
    return True


def _chosen(seqs: Sequence[int] | None) -> ColumnElement[bool]:
    return alerts.c.seq.is_not(None) if seqs is None else alerts.c.seq.in_(seqs)


def _tried(conn: Connection, seq: int, said: str, **values: object) -> bool:
    values |= {"attempts": alerts.c.attempts + 1, "last_answer": said[:ERROR_MAX]}
    return _change(conn, alerts.c.seq == seq, **values) > 0


def _change(conn: Connection, which: ColumnElement[bool], **values: object) -> int:
    return conn.execute(update(alerts).where(which, _PENDING).values(**values)).rowcount
