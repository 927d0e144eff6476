"""Writes events, and their messages to the outbox, in the transaction of the change."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sqlalchemy import func, insert, select

from yaffle.model.operations import EMPTY
from yaffle.store.tables import events, outbox

if TYPE_CHECKING:
    from sqlalchemy import Connection

Notice = tuple[str, str, Mapping[str, object]]
"""Notifier, topic, body: one outbox row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """Subject of an event, and whose it is."""

    otype: str
    """node, cluster, policy, profile, action, incident, …"""
    oid: str
    oname: str = ""
    cluster_id: str = ""
    node_id: str | None = None
    incident_id: str | None = None
    project: str = ""
    user: str = ""
    domain: str = ""


# Built once: to build one anew costs more than to carry it out.
_INSERT: Final = insert(events)
_INSERT_NOTICE: Final = insert(outbox)

INFO: Final = 20
WARNING: Final = 30
ERROR: Final = 40


def append(  # noqa: PLR0913 - an event has that many parts
    conn: Connection,
    subject: Subject,
    *,
    at_us: int,
    action: str = "",
    status: str = "",
    reason: str = "",
    level: int = INFO,
    data: Mapping[str, object] = EMPTY,
    notify: Sequence[Notice] = (),
) -> int:
    """Write the event and one pending message per notice; return the event's place in the order.

    `level` is a number of the logging module (10 debug … 50 critical), as in Senlin's events.
    """
    inserted = conn.execute(
        _INSERT,
        {
            "id": str(uuid.uuid4()),
            "at_us": at_us,
            "level": level,
            "otype": subject.otype,
            "oid": subject.oid,
            "oname": subject.oname,
            "cluster_id": subject.cluster_id,
            "node_id": subject.node_id,
            "incident_id": subject.incident_id,
            "action": action,
            "status": status,
            "reason": reason,
            "data": dict(data),
            "project": subject.project,
            "user": subject.user,
            "domain": subject.domain,
        },
    )
    key = inserted.inserted_primary_key
    assert key is not None  # noqa: S101 - an insert of one row always has it
    seq = int(key[0])
    for notifier, topic, body in notify:
        conn.execute(
            _INSERT_NOTICE,
            {
                "id": str(uuid.uuid4()),
                "event_seq": seq,
                "incident_id": subject.incident_id,
                "notifier": notifier,
                "topic": topic,
                "body": dict(body),
                "next_us": at_us,
                "created_us": at_us,
            },
        )
    return seq


def newest(conn: Connection) -> int:
    """Return the place in the order of the newest event; 0 before the first."""
    return conn.execute(select(func.max(events.c.seq))).scalar_one() or 0
