"""Repository of nodes with recovery images, kept while an image may be left.

Their rows lie beside those of copies that go on being deleted, and name no copy. One rests until
another image is taken, or its node is gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec
import structlog
from sqlalchemy import bindparam, insert, or_, select, update

from yaffle.model.msgspec_init import prepared
from yaffle.model.operations import Target
from yaffle.store.orphans import lasting
from yaffle.store.tables import actions, debris, incidents, nodes, steps

if TYPE_CHECKING:
    from sqlalchemy import Connection

_TARGET: Final = prepared(Target)
RESTING_US: Final = 2**62
"""When one is looked at next of which nothing is to be done."""
PAUSE_S: Final = 30.0
PAUSE_MAX_S: Final = 3600.0
"""Between two attempts to delete images; one may be in use for years."""
TAKEN: Final = "snapshot"
"""In the journal of a step: the image that it has taken; also the name of its stage."""

log = structlog.get_logger()


class Due(msgspec.Struct, frozen=True, kw_only=True):
    """A node whose images are to be looked at."""

    id: str
    target: Target
    attempts: int
    next_us: int
    gone: bool
    """The node is no more, and its server with it."""
    spared: list[str]
    """Images that a failure which is not over may still boot from."""


def note(conn: Connection, target: Target, due_us: int, now_us: int) -> None:
    """Remember, before an image is asked for, that there may be one; `due_us`: when to look."""
    values = {
        "target": lasting(target),
        "next_us": due_us,
        "attempts": 0,
        "done_us": None,
    }
    mine = debris.c.id == target.node_id
    if conn.execute(update(debris).where(mine).values(values)).rowcount:
        return
    conn.execute(
        insert(debris).values(
            id=target.node_id,
            node_id=target.node_id,
            physical_id="",
            profile_type=target.profile_type,
            created_us=now_us,
            last_error="",
            **values,
        )
    )


_GONE: Final = nodes.c.id.is_(None)
_DUE: Final = (
    select(debris, _GONE.label("gone"))
    .join_from(debris, nodes, nodes.c.id == debris.c.node_id, isouter=True)
    .where(
        debris.c.physical_id == "",
        debris.c.done_us.is_(None),
        or_(debris.c.next_us <= bindparam("now"), _GONE & (debris.c.next_us == RESTING_US)),
    )
    .order_by(debris.c.next_us, debris.c.id)
)


def due(conn: Connection, now_us: int, limit: int) -> Sequence[Due]:
    """Return the nodes whose images are to be looked at now, the longest waiting first.

    One that cannot be read is passed over: it must not keep the others from being seen to.
    """
    found: list[Due] = []
    for row in conn.execute(_DUE, {"now": now_us}).all():
        if len(found) >= limit:
            break
        try:
            target = msgspec.convert(row.target, _TARGET)
        except msgspec.ValidationError:
            log.exception("images cannot be read", node=row.id)
            continue
        found.append(
            Due(
                id=row.id,
                target=target,
                attempts=row.attempts,
                next_us=row.next_us,
                gone=bool(row.gone),
                spared=_spared(conn, target),
            )
        )
    return found


def looked(conn: Connection, due: Due, error: str, now_us: int) -> None:
    """Record a look; `error`: what is left to be deleted, and why.

    It rests, unless another image was asked for meanwhile.
    """
    pause_s = min(PAUSE_MAX_S, PAUSE_S * 2.0 ** min(due.attempts, 10))
    conn.execute(
        update(debris)
        .where(debris.c.id == due.id, debris.c.next_us == due.next_us)
        .values(
            done_us=now_us if due.gone and not error else None,
            next_us=now_us + int(pause_s * 1e6) if error else RESTING_US,
            attempts=due.attempts + 1 if error else 0,
            last_error=error[:1000],
        )
    )


def _spared(conn: Connection, target: Target) -> list[str]:
    """Return what recoveries under way, and failures that are not over, have taken."""
    mine = actions.c.node_id == target.node_id
    near = or_(mine, actions.c.cluster_id == target.cluster_id) if target.cluster_id else mine
    found = conn.execute(
        select(steps.c.data)
        .join_from(steps, actions, actions.c.id == steps.c.action_id)
        .join(incidents, incidents.c.id == actions.c.incident_id, isouter=True)
        .where(
            near,
            steps.c.stage == TAKEN,
            or_(actions.c.end_us.is_(None), incidents.c.open_key.is_not(None)),
        )
    ).scalars()
    return sorted({str(data[TAKEN]) for data in found if data.get(TAKEN)})
