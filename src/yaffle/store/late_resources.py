"""Watches for resources that may still come about after their node was deleted, to delete them.

Their rows lie beside those of copies that go on being deleted, and name no copy: none was there when
the node went. What comes about later bears the mark of that node alone; where its id is given again,
as that of a thing which is adopted anew is, there is a row, and it is spared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import msgspec
import structlog
from sqlalchemy import bindparam, insert, select, update

from yaffle.model.ids import NodeId
from yaffle.model.msgspec_init import prepared
from yaffle.model.operations import Target
from yaffle.store import journal
from yaffle.store.orphans import WHATEVER, lasting
from yaffle.store.tables import actions, debris, steps

if TYPE_CHECKING:
    from sqlalchemy import Connection

_TARGET: Final = prepared(Target)
OUTSTANDING: Final = "outstanding"
"""In the journal of a step: a request of it may still arrive."""
LATE_S: Final = 86_400.0
"""How long after its deletion a node's copy is looked for. A request waits in a queue of the cloud for
as long as whoever takes it from there is away, and hardly an outage lasts longer than a day."""
FIRST_S: Final = 60.0
PAUSE_MAX_S: Final = 7200.0
AGAIN_S: Final = 30.0
"""Between two looks at a copy that was found, and is being deleted."""

log = structlog.get_logger()


class Due(msgspec.Struct, frozen=True, kw_only=True):
    """A node that is gone, of which a copy is to be looked for."""

    id: str
    target: Target
    attempts: int
    created_us: int


def expected(conn: Connection, node_id: NodeId, stage: str) -> bool:
    """Whether a request for a copy, made by a step of that stage, may still arrive."""
    sent = conn.execute(
        select(steps.c.phase, steps.c.data)
        .join(actions, actions.c.id == steps.c.action_id)
        .where(
            actions.c.node_id == node_id,
            steps.c.stage == stage,
            steps.c.submitted_us.is_not(None),
        )
    )
    return any(row.phase != journal.ENDED or row.data.get(OUTSTANDING) for row in sent)


def note(conn: Connection, ident: str, target: Target, now_us: int) -> None:
    """Look out for a node that goes now."""
    conn.execute(
        insert(debris).values(
            id=ident,
            node_id=target.node_id,
            physical_id=WHATEVER,
            profile_type=target.profile_type,
            target=lasting(replace(target, physical_id="")),
            created_us=now_us,
            next_us=now_us + int(FIRST_S * 1e6),
            attempts=0,
            last_error="",
        )
    )


_DUE: Final = (
    select(debris)
    .where(
        debris.c.done_us.is_(None),
        debris.c.next_us <= bindparam("now"),
        debris.c.physical_id == WHATEVER,
    )
    .order_by(debris.c.next_us, debris.c.id)
)


def due(conn: Connection, now_us: int, limit: int) -> Sequence[Due]:
    """Return what is to be looked for now, the longest waiting first; what cannot be read is left."""
    found: list[Due] = []
    for row in conn.execute(_DUE, {"now": now_us}):
        if len(found) >= limit:
            break
        try:
            target = msgspec.convert(row.target, _TARGET)
        except msgspec.ValidationError:
            log.exception("look-out cannot be read", debris=row.id)
            continue
        found.append(
            Due(id=row.id, target=target, attempts=row.attempts, created_us=row.created_us)
        )
    return found


def looked(
    conn: Connection, due: Due, error: str, now_us: int, *, under_way: bool, over: bool
) -> None:
    """Record a look; `error`: what keeps it open; `under_way`: one was found, and is being deleted.

    The pause grows with the time since the deletion, so that a copy which comes an hour late runs an
    hour more at most. The day ends with a look that was answered, and not before.
    """
    age_s = (now_us - due.created_us) / 1e6
    pause_s = AGAIN_S if under_way else min(max(FIRST_S, age_s), PAUSE_MAX_S)
    conn.execute(
        update(debris)
        .where(debris.c.id == due.id)
        .values(
            done_us=now_us if age_s >= LATE_S and not error else None,
            next_us=now_us + int(pause_s * 1e6),
            attempts=due.attempts + int(over),
            last_error=error[:1000],
        )
    )
