"""Detects a database that lost its last commits, and stops all acting on it.

Seen by the turns (`store.commit_sequence`): a process that committed turn 120 and finds that the database
does not know it knows that turns are gone, with whatever was decided and done in them. Servers may
exist that no row speaks of; only a person can say whether acting is safe again (`yaffle stop
--lift`).
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Final

from sqlalchemy import update

from yaffle.model.ids import PauseId
from yaffle.model.incident import Pause, PauseKind, PauseScope
from yaffle.store import commit_sequence, events, leases, pauses
from yaffle.store.tables import actions, engines, watches

if TYPE_CHECKING:
    from sqlalchemy import Connection

BY: Final = "yaffle"
EPOCHS_MAX: Final = 1_000_000
"""More than can have been given out in what is lost."""
RESTORED: Final = (
    "the database was restored from a copy, and what was done since the copy is not in it; compare"
    " nodes and backend, then lift this with `yaffle stop --lift`"
    " (docs/runbook/database-went-back.md)"
)


def record(conn: Connection, *, had: int, known: int) -> None:
    """Set the global stop, end every session, and take away every running action's owner.

    `had`: the highest turn that the asking process committed; `known`: the highest one of that
    process which the database still knows.
    """
    commit_sequence.raise_to(conn, commit_sequence.TURN, had + 1)
    _take_away(conn, reason=_sentence(had, known))


def restored(conn: Connection) -> None:
    """The same for a copy that was put in place while nobody ran who could have seen the turns."""
    _take_away(conn, reason=RESTORED)


def _take_away(conn: Connection, *, reason: str) -> None:
    now_us = leases.now(conn)
    epoch = commit_sequence.next_epoch(conn, EPOCHS_MAX)
    conn.execute(update(engines).where(engines.c.stopped_us.is_(None)).values(stopped_us=now_us))
    conn.execute(update(watches).values(lease_us=0, claimed_us=now_us))
    conn.execute(
        update(actions)
        .where(actions.c.status == "RUNNING")
        .values(owner="", epoch=epoch, lease_us=0)
    )
    stop(conn, now_us, reason)


def stop(conn: Connection, now_us: int, reason: str) -> None:
    """Set the global stop in our own name, unless one of ours is in force."""
    if any(p.kind is PauseKind.STOP and p.owner == BY for p in pauses.in_force(conn, now_us)):
        return
    pause = Pause(
        id=PauseId(str(uuid.uuid4())),
        kind=PauseKind.STOP,
        scope=PauseScope.ALL,
        target_id="",
        owner=BY,
        reason=reason,
        starts_us=now_us,
        expires_us=None,
    )
    pauses.add(conn, pause)
    subject = events.Subject(otype="PAUSE", oid=pause.id, oname=pause.kind.value, user=BY)
    events.append(
        conn, subject, at_us=now_us, action="STOP_BEGIN", reason=reason, level=events.ERROR
    )


def _sentence(had: int, known: int) -> str:
    return (
        f"the database went back: a process committed turn {had}, and of its turns the database knows"
        f" none after {known}; what was decided and done since is lost: compare nodes and backend,"
        " then lift this with `yaffle stop --lift` (docs/runbook/database-went-back.md)"
    )
