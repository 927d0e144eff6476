"""Actions as durable jobs: inserted with their lock, claimed with lease and epoch, ended once.

Rules: (1) at most one action holds the lock of a node or cluster (`lock_key` is unique); (2) every
write of an owner names its epoch, and one row changed is the proof that it still owns the action;
(3) what waits for a lock is promoted in the transaction that frees it; (4) what waits for its parts
is made ready in the transaction in which the last of them ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from sqlalchemy import (
    BigInteger,
    and_,
    bindparam,
    case,
    delete,
    exists,
    func,
    insert,
    literal,
    or_,
    select,
    update,
)

from yaffle.core.recovery.node_actions import NODE_ACTIONS
from yaffle.errors import StaleEpoch
from yaffle.model.action import ActionKind
from yaffle.model.ids import ActionId, EngineId, Epoch, NodeId
from yaffle.store import leases
from yaffle.store.rows import ActionRow, load
from yaffle.store.tables import actions, blindness, engines, nodes, profiles, watches

if TYPE_CHECKING:
    from sqlalchemy import BindParameter, ColumnElement, Connection, Select

WAITING: Final = "WAITING"
READY: Final = "READY"
RUNNING: Final = "RUNNING"
SUCCEEDED: Final = "SUCCEEDED"
FAILED: Final = "FAILED"
CANCELLED: Final = "CANCELLED"
HOOKED: Final = "WAITING_LIFECYCLE_COMPLETION"
"""Somebody outside was told, and has to say that it may go on."""
ACTIVE: Final = (READY, RUNNING)
UNFINISHED: Final = (WAITING, READY, RUNNING, HOOKED)
ENDED: Final = (SUCCEEDED, FAILED, CANCELLED)
NOBODY: Final = EngineId("-")
"""No engine: whoever asks only looks."""
PUT_OFF_MAX_S: Final = 300
"""An action that is ready may be put off until its `lease_us`, for as long as this."""


# Built once: to build one anew costs more than to carry it out.
_INSERT: Final = insert(actions)
_ACTION: Final = select(actions).where(actions.c.id == bindparam("ident"))
_SET: Final = update(actions).where(actions.c.id == bindparam("ident"))
_HELD: Final = select(actions.c.lock_key, actions.c.parent_id).where(
    actions.c.id == bindparam("ident")
)
_OPEN_PARTS: Final = (
    select(actions.c.id)
    .where(actions.c.parent_id == bindparam("ident"), actions.c.status.in_(UNFINISHED))
    .limit(1)
)
_WAKE: Final = update(actions).where(
    actions.c.id == bindparam("ident"), actions.c.status == bindparam("old_status")
)
_WAITS: Final = (
    select(actions.c.id, actions.c.status, actions.c.action)
    .where(
        actions.c.target == bindparam("key"),
        actions.c.status.in_((WAITING, HOOKED)),
        actions.c.lock_key.is_(None),
    )
    .order_by(actions.c.created_us, actions.c.id)
    .limit(1)
)


def add(conn: Connection, values: Mapping[str, object]) -> None:
    """Insert an action; the database refuses a second lock on the same node."""
    conn.execute(_INSERT, dict(values))


def get(conn: Connection, action_id: ActionId) -> ActionRow | None:
    """Return an action, or None when it was pruned."""
    row = conn.execute(_ACTION, {"ident": action_id}).one_or_none()
    return None if row is None else load(ActionRow, row)


def last_caused(conn: Connection, node_id: NodeId, cause: str) -> ActionRow | None:
    """Return the latest action on a node that has that cause."""
    own = select(actions).where(actions.c.node_id == node_id, actions.c.cause == cause)
    row = conn.execute(own.order_by(actions.c.created_us.desc()).limit(1)).one_or_none()
    return None if row is None else load(ActionRow, row)


def unfinished(conn: Connection, **equal: object) -> Sequence[ActionRow]:
    """Return the actions that have not ended, oldest first, filtered by column values."""
    rows = conn.execute(_unfinished(tuple(equal)), equal)
    return [load(ActionRow, r) for r in rows]


@lru_cache(maxsize=64)
def _unfinished(names: tuple[str, ...]) -> Select[tuple[object, ...]]:
    query = select(actions).where(actions.c.status.in_(UNFINISHED))
    for name in names:
        query = query.where(actions.c[name] == bindparam(name))
    return query.order_by(actions.c.created_us, actions.c.id)


_URGENT: Final = or_(
    actions.c.action.in_([name for name, kind in NODE_ACTIONS.items() if kind.urgent]),
    actions.c.action.startswith("CLUSTER_"),
)
"""Recoveries, and what is over in one transaction."""


LOOKING: Final = tuple(name for name, kind in NODE_ACTIONS.items() if kind.looks)
"""What begins with a look at the node."""


def _others_look(*, asks: bool) -> ColumnElement[bool]:
    """Return the SQL condition of what a blind engine leaves to others, while one that sees is alive.

    Nobody finds out that it cannot see what it does not watch: who is blind for any cluster leaves
    those alone as well. Who is not able to heal such a node leaves it, whoever watches it.
    """
    now, me = bindparam("now", type_=BigInteger), bindparam("me", type_=actions.c.owner.type)
    mine, theirs, peer = blindness.alias("mine"), blindness.alias("theirs"), engines.alias("peer")
    watched = exists().where(watches.c.cluster_id == actions.c.cluster_id, watches.c.owner == me)
    blind = exists().where(
        mine.c.engine_id == me,
        mine.c.until_us > now,
        or_(mine.c.cluster_id == actions.c.cluster_id, ~watched.correlate(actions)),
    )
    able: BindParameter[Sequence[str] | None] = bindparam("able", expanding=True)
    unable = exists().where(
        nodes.c.id == actions.c.node_id,
        profiles.c.id == nodes.c.profile_id,
        profiles.c.type.not_in(able),
    )
    as_blind = exists().where(
        theirs.c.cluster_id == actions.c.cluster_id,
        theirs.c.engine_id == peer.c.id,
        theirs.c.until_us > now,
    )
    sighted = exists().where(
        peer.c.id != me,
        peer.c.stopped_us.is_(None),
        peer.c.seen_us > bindparam("alive", type_=BigInteger),
        ~as_blind.correlate(actions, peer),
    )
    return and_(
        actions.c.action.in_(LOOKING),
        actions.c.cluster_id.is_not(None),
        or_(*(why.correlate(actions) for why in ((blind, unable) if asks else (blind,)))),
        sighted.correlate(actions),
    )


def _claimable(*, asks: bool = True) -> ColumnElement[bool]:
    """Return the SQL condition of a claimable action; its parameters are those of `_claiming`.

    `asks`: on behalf of an engine, which says what it is able to heal.
    """
    now, me = bindparam("now", type_=BigInteger), bindparam("me", type_=actions.c.owner.type)
    stopped = select(engines.c.id).where(engines.c.stopped_us.is_not(None))
    orphaned = and_(
        actions.c.status == RUNNING,
        actions.c.owner != me,
        or_(actions.c.lease_us < now, actions.c.owner.in_(stopped)),
    )
    carried: BindParameter[Sequence[str]] = bindparam("carried", expanding=True)
    dropped = and_(actions.c.status == RUNNING, actions.c.owner == me, actions.c.id.not_in(carried))
    # Put off; but a clock that was set back must not put anything off for longer than was meant.
    far = bindparam("far", type_=BigInteger)
    put_off = and_(actions.c.lease_us > now, actions.c.lease_us <= far)
    # What waits is never to wait for longer than it may take: a clock that was set back wakes it.
    longest_us = actions.c.timeout_s * literal(1_000_000, BigInteger)
    awake = and_(
        actions.c.status.in_((WAITING, HOOKED)),
        actions.c.lock_key.is_not(None),
        or_(
            actions.c.wake_us <= now,
            and_(actions.c.status == WAITING, actions.c.wake_us > now + longest_us),
        ),
    )
    free = or_(and_(actions.c.status == READY, ~put_off), orphaned, awake)
    return or_(and_(free, ~_others_look(asks=asks)), dropped)


_RANK: Final = case((_URGENT, 0), else_=1)
_CLAIMABLE: Final = (
    select(actions.c.id, actions.c.epoch, actions.c.owner, actions.c.status, _RANK)
    .where(_claimable())
    .order_by(_RANK, actions.c.created_us, actions.c.id)
    .limit(bindparam("most"))
)
_OLDEST_READY: Final = select(func.min(actions.c.created_us)).where(actions.c.status == READY)
_ANY_CLAIMABLE: Final = select(actions.c.id).where(_claimable()).limit(1)
_ANY_READY: Final = select(actions.c.id).where(_claimable(asks=False)).limit(1)
_CLAIM: Final = update(actions).where(
    actions.c.id == bindparam("ident"),
    actions.c.epoch == bindparam("old_epoch"),
    actions.c.owner == bindparam("old_owner"),
    actions.c.status == bindparam("old_status"),
)


def _claiming(
    now_us: int, me: EngineId, carried: Sequence[str], lease_s: float, able: Sequence[str] | None
) -> dict[str, object]:
    far_us = now_us + PUT_OFF_MAX_S * 1_000_000
    alive_us = now_us - int(lease_s * 1_000_000)
    times = {"now": now_us, "far": far_us, "alive": alive_us}
    told = {} if able is None else {"able": able}
    return {**times, "me": me, "carried": carried, **told}


def claim(
    conn: Connection,
    me: EngineId,
    epoch: Epoch,
    *,
    lease_s: float,
    limit: int,
    spare: int = 0,
    carried: Sequence[str] = (),
    able: Sequence[str] = (),
) -> Sequence[ActionRow]:
    """Take up to `limit` actions that are ready or whose owner is gone, oldest first.

    Recoveries and moves of rows go before everything else, and the last `spare` places are theirs:
    a thousand creations on a backend that hangs must not keep anything from being healed.
    `carried`: ids that the caller is carrying out. What is its own and not among them was claimed
    in a commit whose answer got lost, or dropped: nobody else would ever take it.
    `able`: the profile types that can be healed from here; recoveries of others are left to engines
    that are not blind for the cluster, while one lives.
    Whose own lease is over takes nothing: this may have waited for long in front of a database that
    hung, and what it took would be kept from the others for another lease.
    """
    if not leases.alive(conn, me, epoch, lease_s=lease_s):
        return []
    now_us = leases.now(conn)
    found = conn.execute(
        _CLAIMABLE, {**_claiming(now_us, me, carried, lease_s, able), "most": limit}
    ).all()
    ours = {
        "status": RUNNING,
        "owner": me,
        "epoch": epoch,
        "lease_us": now_us + int(lease_s * 1_000_000),
        "updated_us": now_us,
    }
    mine: list[ActionRow] = []
    for ident, old_epoch, owner, status, ordinary in found:
        if ordinary and len(mine) >= limit - spare:
            break
        # Compare and set: whoever changed the row since we read it has it.
        read = {"ident": ident, "old_epoch": old_epoch, "old_owner": owner, "old_status": status}
        if conn.execute(_CLAIM, {**ours, **read}).rowcount == 1:
            row = conn.execute(_ACTION, {"ident": ident}).one()
            mine.append(load(ActionRow, row))
    return mine


def any_claimable(
    conn: Connection,
    me: EngineId = NOBODY,
    carried: Sequence[str] = (),
    *,
    lease_s: float = 0.0,
    able: Sequence[str] | None = None,
) -> bool:
    """Whether `claim` would find anything: a look costs others nothing, a claim is a write.

    Without `lease_s` nobody else is known to live, hence nothing is left to others.
    """
    asked = _claiming(leases.now(conn), me, carried, lease_s, able)
    query = _ANY_READY if able is None else _ANY_CLAIMABLE
    return conn.execute(query, asked).first() is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    """The right to write to an action; one with an old epoch is refused."""

    action_id: ActionId
    engine_id: EngineId
    epoch: Epoch


def guard(conn: Connection, ticket: Ticket) -> ActionRow:
    """Return the action if the ticket's engine still owns it; raise StaleEpoch otherwise."""
    action = get(conn, ticket.action_id)
    if (
        action is None
        or action.owner != ticket.engine_id
        or action.epoch != ticket.epoch
        or action.status != RUNNING
    ):
        raise StaleEpoch(f"action {ticket.action_id} is no longer ours under epoch {ticket.epoch}")
    return action


def set_values(conn: Connection, action_id: ActionId, now_us: int, **values: object) -> None:
    """Change columns of an action that the caller has guarded or that has no owner yet."""
    conn.execute(_SET, {**values, "updated_us": now_us, "ident": action_id})


def end(
    conn: Connection,
    action_id: ActionId,
    now_us: int,
    *,
    status: str,
    reason: str,
    outputs: Mapping[str, object],
) -> None:
    """End an action, free its lock, and promote what waited for that lock."""
    held = conn.execute(_HELD, {"ident": action_id}).one_or_none()
    set_values(
        conn,
        action_id,
        now_us,
        status=status,
        status_reason=reason,
        outputs=dict(outputs),
        lock_key=None,
        lease_us=0,
        wake_us=None,
        end_us=now_us,
    )
    if held is not None and held.lock_key is not None:
        promote(conn, held.lock_key, now_us)
    if held is not None and held.parent_id:
        wake(conn, ActionId(held.parent_id), now_us)


def parts(conn: Connection, parent_id: ActionId) -> Sequence[ActionRow]:
    """Return the child actions of an action, the oldest first."""
    rows = conn.execute(
        select(actions)
        .where(actions.c.parent_id == parent_id)
        .order_by(actions.c.created_us, actions.c.id)
    )
    return [load(ActionRow, r) for r in rows]


def remove_parts(conn: Connection, parent_id: ActionId) -> None:
    """Remove the child actions of an action that have ended."""
    conn.execute(
        delete(actions).where(actions.c.parent_id == parent_id, actions.c.status.in_(ENDED))
    )


def has_open_parts(conn: Connection, parent_id: ActionId) -> bool:
    """Whether any child action has not ended."""
    return conn.execute(_OPEN_PARTS, {"ident": parent_id}).first() is not None


def wake(conn: Connection, parent_id: ActionId, now_us: int) -> None:
    """Make a waiting action ready if all its child actions have ended.

    One that rests between two batches has no open part either, and is left to its `wake_us`.
    """
    if has_open_parts(conn, parent_id):
        return
    ready = {"status": READY, "wake_us": None, "updated_us": now_us}
    conn.execute(_WAKE, {**ready, "ident": parent_id, "old_status": WAITING})


def promote(conn: Connection, key: str, now_us: int) -> None:
    """Give a free lock to the action that has waited for it the longest.

    One that also waits for somebody outside (HOOKED), or to be admitted by the planner
    (NODE_RECOVER), gets the lock and goes on waiting.
    """
    waiting = conn.execute(_WAITS, {"key": key}).one_or_none()
    if waiting is None:
        return
    on = waiting.status == WAITING and waiting.action != ActionKind.NODE_RECOVER
    status = READY if on else waiting.status
    set_values(conn, waiting.id, now_us, status=status, lock_key=key)


def cancel(conn: Connection, action_id: ActionId, reason: str, now_us: int) -> None:
    """Ask the owner to stop at the next step boundary."""
    conn.execute(
        update(actions)
        .where(actions.c.id == action_id, actions.c.cancel_reason.is_(None))
        .values(cancel_reason=reason, updated_us=now_us)
    )


def oldest_ready_us(conn: Connection) -> int | None:
    """Return since when the oldest action waits for a worker; None where none does."""
    found: int | None = conn.execute(_OLDEST_READY).scalar_one()
    return found


def is_waiting_request() -> ColumnElement[bool]:
    """Return the condition that an action is a request to recover that something holds."""
    return and_(
        actions.c.status == WAITING,
        actions.c.action == ActionKind.NODE_RECOVER,
        actions.c.lock_key.is_not(None),
    )


def count_running(conn: Connection) -> int:
    """Return how many actions run now."""
    wanted = select(func.count()).select_from(actions).where(actions.c.status == RUNNING)
    return conn.execute(wanted).scalar_one()
