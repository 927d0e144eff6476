"""The outbox: messages wait here until accepted, across outages, restarts and takeovers.

pending ──accepted──▶ accepted          (pruned later)
   │  └──failed────▶ pending, later     (full jitter, capped)
   └─────parked────▶ parked ──redeliver──▶ pending
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from sqlalchemy import BigInteger, bindparam, exists, func, or_, select, true, update

from yaffle.ports.notifier import Message
from yaffle.store.tables import outbox

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection

BASE_S: Final = 1.0
CAP_S: Final = 300.0
BACK_S: Final = 5.0
"""How soon a receiver that is back gets what it has missed; not at once, for it may be overloaded."""
ERROR_MAX: Final = 1000


class OutboxState(StrEnum):
    """The states of a message."""

    PENDING = "pending"
    ACCEPTED = "accepted"
    PARKED = "parked"
    """Refused, or given up on; it stays until a person redelivers it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """A message that is due, with its receiver."""

    seq: int
    notifier: str
    message: Message


def has_come(next_us: ColumnElement[int], now: object) -> ColumnElement[bool]:
    """Whether a next attempt is due: now, or further ahead than any is ever put off.

    That is so after the clock was set back, and nobody is to wait for as long as it was wrong.
    """
    ahead_us = int(CAP_S * 1_000_000)
    return or_(next_us <= now, next_us - ahead_us > now)


# Built once: it is asked all the time, and mostly there is nothing.
_NOTIFIERS: Final = (
    select(outbox.c.notifier)
    .where(
        outbox.c.state == OutboxState.PENDING,
        has_come(outbox.c.next_us, bindparam("now", type_=BigInteger)),
    )
    .distinct()
    .order_by(outbox.c.notifier)
)

_before: Final = outbox.alias("before")
_OVERTAKES: Final = exists(
    select(_before.c.seq).where(
        _before.c.notifier == outbox.c.notifier,
        _before.c.incident_id == outbox.c.incident_id,
        _before.c.state == OutboxState.PENDING,
        _before.c.seq < outbox.c.seq,
    )
)
"""Whether an earlier message of the same incident still waits for the same receiver.

A pager that hears "recovered" and then "opened", which it had refused at first, rings for ever.
"""


def notifiers(conn: Connection, *, now_us: int) -> Sequence[str]:
    """Return the names of the notifiers with messages due."""
    return conn.execute(_NOTIFIERS, {"now": now_us}).scalars().all()


def due(
    conn: Connection,
    *,
    now_us: int,
    limit: int,
    skip: Sequence[int] = (),
    notifier: str | None = None,
) -> tuple[Due, ...]:
    """Return pending messages whose time has come, the oldest news first.

    A message waits until its receiver has accepted the earlier ones of its incident, or they are
    parked. `skip` names those that the caller is carrying right now; `notifier` chooses one receiver's.
    """
    mine = true() if notifier is None else outbox.c.notifier == notifier
    rows = conn.execute(
        select(outbox)
        .where(
            mine,
            outbox.c.state == OutboxState.PENDING,
            has_come(outbox.c.next_us, now_us),
            outbox.c.seq.not_in(skip),
            ~_OVERTAKES,
        )
        .order_by(outbox.c.seq)
        .limit(limit)
    )
    return tuple(
        Due(
            seq=row.seq,
            notifier=row.notifier,
            message=Message(
                id=row.id,
                topic=row.topic,
                at_us=row.created_us,
                body=row.body,
                attempt=row.attempts + 1,
                sequence=row.seq,
            ),
        )
        for row in rows
    )


_NEXT_DUE: Final = select(func.min(outbox.c.next_us)).where(outbox.c.state == OutboxState.PENDING)
_OLDEST: Final = select(func.min(outbox.c.created_us)).where(outbox.c.state == OutboxState.PENDING)

_PARKED: Final = (
    select(func.count()).select_from(outbox).where(outbox.c.state == OutboxState.PARKED)
)


def next_due_us(conn: Connection) -> int | None:
    """Return when the next pending message is due; None when nothing waits."""
    found: int | None = conn.execute(_NEXT_DUE).scalar_one()
    return found


def oldest_pending_us(conn: Connection) -> int | None:
    """Return when the oldest undelivered news was written; None when nothing waits."""
    found: int | None = conn.execute(_OLDEST).scalar_one()
    return found


def backoff_s(
    attempts: int, chance: float, *, base_s: float = BASE_S, cap_s: float = CAP_S
) -> float:
    """Return how long to wait after `attempts` failures; `chance` is a random number in [0, 1).

    Full jitter: anything from 0 to base × 2^(attempts-1), capped, so that a thousand messages that
    failed together do not come back together.
    """
    # The exponent is bounded first: 2.0 ** 2000 is an OverflowError, not infinity.
    return chance * min(cap_s, base_s * 2.0 ** min(max(attempts, 1) - 1, 60))


def accepted(conn: Connection, seq: int, *, now_us: int) -> bool:
    """Store that the receiver accepted it; False if it was not pending any more.

    When it had not taken it before, it is back: what else waits for it is not kept waiting.
    """
    row = conn.execute(
        select(outbox.c.notifier, outbox.c.attempts).where(outbox.c.seq == seq)
    ).one_or_none()
    done = _leave_pending(conn, seq, OutboxState.ACCEPTED, now_us=now_us, error="")
    if done and row is not None and row.attempts:
        _hasten(conn, row.notifier, now_us + int(BACK_S * 1_000_000))
    return done


def _hasten(conn: Connection, notifier: str, next_us: int) -> None:
    """Let every message of a receiver be due by then."""
    conn.execute(
        update(outbox)
        .where(
            outbox.c.notifier == notifier,
            outbox.c.state == OutboxState.PENDING,
            outbox.c.next_us > next_us,
        )
        .values(next_us=next_us)
    )


def failed(conn: Connection, seq: int, *, now_us: int, error: str, chance: float) -> bool:
    """Note a failed attempt and put the next one off; False if it was not pending any more."""
    attempts = conn.execute(
        select(outbox.c.attempts).where(outbox.c.seq == seq, outbox.c.state == OutboxState.PENDING)
    ).scalar_one_or_none()
    if attempts is None:
        return False
    wait_us = int(backoff_s(attempts + 1, chance) * 1_000_000)
    return _change(
        conn, seq, attempts=attempts + 1, next_us=now_us + wait_us, last_error=error[:ERROR_MAX]
    )


def parked(conn: Connection, seq: int, *, now_us: int, error: str) -> bool:
    """Park a message: it is not tried again until a person redelivers it."""
    return _leave_pending(conn, seq, OutboxState.PARKED, now_us=now_us, error=error)


def count_parked(conn: Connection) -> int:
    """Return how many messages wait for a person."""
    return int(conn.execute(_PARKED).scalar_one())


def redeliver(conn: Connection, *, now_us: int, seqs: Sequence[int] | None = None) -> int:
    """Make parked messages pending again, all of them or those named; return how many."""
    chosen = outbox.c.state == OutboxState.PARKED
    if seqs is not None:
        chosen &= outbox.c.seq.in_(seqs)
    return conn.execute(
        update(outbox)
        .where(chosen)
        .values(state=OutboxState.PENDING, next_us=now_us, attempts=0, done_us=None)
    ).rowcount


def _leave_pending(
    conn: Connection, seq: int, state: OutboxState, *, now_us: int, error: str
) -> bool:
    return _change(
        conn,
        seq,
        state=state,
        attempts=outbox.c.attempts + 1,
        done_us=now_us,
        last_error=error[:ERROR_MAX],
    )


def _change(conn: Connection, seq: int, **values: object) -> bool:
    changed = conn.execute(
        update(outbox)
        .where(outbox.c.seq == seq, outbox.c.state == OutboxState.PENDING)
        .values(**values)
    )
    return changed.rowcount == 1
