"""Begins, advances, times out and cancels cluster actions: one transaction each, guarded by the epoch."""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING, Final

from yaffle.engine.cluster_actions import (
    capacity_compensation,
    cluster_lifecycle,
    conflicts,
    node_membership,
)
from yaffle.engine.cluster_actions.cancellation import cut_off, stop
from yaffle.engine.cluster_actions.cluster_action import ClusterAction, Ended, Wait, failed
from yaffle.engine.cluster_actions.enqueue import NODE_MOVES, REQUESTED, queue
from yaffle.engine.cluster_actions.finalize import conclude
from yaffle.engine.cluster_actions.table import KINDS
from yaffle.engine.detection.health_persistence import refresh_cluster
from yaffle.errors import ActionImmutable
from yaffle.model.action import ActionKind
from yaffle.store import actions, catalog

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Connection

    from yaffle.engine.cluster_actions.cluster_action import Transition
    from yaffle.engine.runtime.context import EngineContext
    from yaffle.model.authz import Principal
    from yaffle.model.ids import ActionId
    from yaffle.store.actions import Ticket
    from yaffle.store.rows import ActionRow, ClusterRow

JOBS: Final = frozenset(KINDS) | NODE_MOVES
"""Actions that the executor carries on here instead of walking a ladder."""
REST: Final = "rest"
"""Under this key a waiting action's `data` says from when to when (µs) it pauses."""
REASON_MAX: Final = 4000


def begin(
    ctx: EngineContext,
    conn: Connection,
    who: Principal,
    cluster: ClusterRow,
    action: str,
    inputs: Mapping[str, object],
    *,
    cause: str = REQUESTED,
) -> ActionId:
    """Insert a cluster action and run its first transition; raise what the caller did wrong.

    What is raised undoes it all, so that a refused request leaves nothing behind.
    """
    present = conflicts.check(conn, action, "cluster", cluster.id)
    now_us = ctx.clock.now_us()
    for other in present:
        stop(conn, other, f"{action} takes over", now_us, deletions=False)
    ident = queue(
        ctx,
        conn,
        action=action,
        # Its project's, whoever asks: an administrator's actions on others are theirs to cancel.
        who=replace(who, project=cluster.project, domain=cluster.domain),
        target=cluster.id,
        cluster_id=cluster.id,
        cause=cause,
        inputs=inputs,
        timeout_s=cluster.timeout_s,
        status=actions.WAITING,
        lock_key=cluster.id,
    )
    actions.set_values(conn, ident, now_us, start_us=now_us)
    job = _job(ctx, conn, ident, cluster, now_us)
    job.event("start", f"requested by {who.user}")
    _apply(job, KINDS[action].begin(job))
    return ident


def advance(ctx: EngineContext, ticket: Ticket, conn: Connection, action: ActionRow) -> None:
    """Run the next transition of a claimed action; raise StaleEpoch for an old epoch."""
    action = actions.guard(conn, ticket)
    now_us = ctx.clock.now_us()
    if action.action in NODE_MOVES:
        _end(conn, action, node_membership.move(ctx, conn, action), now_us)
        return
    cluster = None if action.cluster_id is None else catalog.cluster(conn, action.cluster_id)
    if cluster is None:
        gone = Ended(status=actions.CANCELLED, reason="the cluster is gone")
        _end(conn, action, Ended() if action.action == ActionKind.CLUSTER_DELETE else gone, now_us)
        return
    if action.start_us is None or action.start_us > now_us:
        # The clock was set back: it must not give anything more time than was meant.
        actions.set_values(conn, action.id, now_us, start_us=now_us)
        action = replace(action, start_us=now_us)
    job = ClusterAction(ctx=ctx, conn=conn, action=action, cluster=cluster, now_us=now_us)
    _apply(job, _next(job))


def broken(ctx: EngineContext, ticket: Ticket, conn: Connection, why: str) -> None:
    """End an action whose transition raises; raise StaleEpoch for an old epoch."""
    action = actions.guard(conn, ticket)
    now_us = ctx.clock.now_us()
    _end(conn, action, failed(why[:REASON_MAX]), now_us)
    _restate(ctx, conn, action, now_us)


def _next(job: ClusterAction) -> Transition:
    late = job.now_us >= _deadline_us(job.action)
    if late or job.action.cancel_reason is not None:
        return _cut_short(job, late=late)
    if actions.has_open_parts(job.conn, job.action.id):
        return Wait()
    return _resting(job) or KINDS[job.action.action].resume(job)


def _resting(job: ClusterAction) -> Wait | None:
    """Return the remaining wait; one that a clock set back begins again."""
    rest = job.action.data.get(REST)
    if not isinstance(rest, list):
        return None
    since_us, until_us = map(int, rest)
    if job.now_us < since_us:
        return Wait(until_us=job.now_us + until_us - since_us)
    return Wait(until_us=until_us) if job.now_us < until_us else None


def _cut_short(job: ClusterAction, *, late: bool) -> Transition:
    """End an action that is late or cancelled; its children that have begun are told to stop.

    Only deletions of a cluster that takes too long go on: what somebody wants gone goes.
    """
    why = f"Timeout: not over within {job.action.timeout_s} s" if late else "Action cancelled"
    deleting = job.action.action == ActionKind.CLUSTER_DELETE
    for part in job.parts():
        if part.status in actions.UNFINISHED:
            stop(job.conn, part, why, job.now_us, deletions=not (late and deleting))
    if not late and actions.has_open_parts(job.conn, job.action.id):
        return Wait()
    if deleting:
        return cluster_lifecycle.left_behind(job, why, cancelled=not late)
    status = actions.FAILED if late else actions.CANCELLED
    return conclude(job, Ended(status=status, reason=why))


def cancel(
    ctx: EngineContext, conn: Connection, action: ActionRow, *, force: bool, by: str
) -> None:
    """Cancel an action and its children; `force`: release their locks at once.

    Without force what has begun stops at its next step boundary, and a parent ends after its parts.
    """
    if action.status in actions.ENDED:
        raise ActionImmutable(
            f"Action ({action.id}) is in status ({action.status}) while expected status must be"
            f" one of ({', '.join(actions.UNFINISHED)})."
        )
    now_us = ctx.clock.now_us()
    why = f"cancelled by {by}"
    for part in actions.parts(conn, action.id):
        if part.status in actions.UNFINISHED:
            stop(conn, part, why, now_us)
            if force:
                cut_off(ctx, conn, part, why, now_us)
    if action.action in KINDS and not force:
        # Its next move ends it, once no part is left; made ready or claimed, it moves anyway.
        actions.cancel(conn, action.id, why, now_us)
        actions.set_values(conn, action.id, now_us, wake_us=now_us)
        return
    stop(conn, action, why, now_us)
    if force:
        cut_off(ctx, conn, action, why, now_us)
    _restate(ctx, conn, action, now_us)


def _restate(ctx: EngineContext, conn: Connection, action: ActionRow, now_us: int) -> None:
    """Set the status of a cluster whose action was ended here."""
    fresh = actions.get(conn, action.id)
    cluster = None if action.cluster_id is None else catalog.cluster(conn, action.cluster_id)
    ended = fresh is not None and fresh.status in actions.ENDED
    if cluster is None or not ended:
        return
    if fresh is not None and fresh.target == cluster.id:
        job = ClusterAction(ctx=ctx, conn=conn, action=fresh, cluster=cluster, now_us=now_us)
        conclude(job, Ended(status=fresh.status, reason=fresh.status_reason))
    else:
        refresh_cluster(conn, cluster.id, now_us)


# --- rows ------------------------------------------------------------------------------------


def _job(
    ctx: EngineContext, conn: Connection, ident: ActionId, cluster: ClusterRow, now_us: int
) -> ClusterAction:
    action = actions.get(conn, ident)
    assert action is not None  # noqa: S101 - inserted a moment ago
    return ClusterAction(ctx=ctx, conn=conn, action=action, cluster=cluster, now_us=now_us)


def _deadline_us(action: ActionRow) -> int:
    return (action.start_us or action.created_us) + action.timeout_s * 1_000_000


def _apply(job: ClusterAction, move: Transition) -> None:
    match move:
        case Wait():
            _wait(job, move)
        case Ended():
            _end(job.conn, job.action, move, job.now_us)


def _wait(job: ClusterAction, move: Wait) -> None:
    action = replace(job.action, data={**job.action.data, **move.data})
    resting = move.until_us is not None
    begins = resting and not isinstance(job.action.data.get(REST), list)
    pause_us = (move.until_us or 0) - job.now_us if begins else 0
    # Time that a policy has it wait is not time that it takes.
    more_s = move.more_s + ceil(max(0, pause_us) / 1_000_000)
    action = replace(action, timeout_s=action.timeout_s + more_s)
    deadline_us = _deadline_us(action)
    until_us = deadline_us if move.until_us is None else min(move.until_us, deadline_us)
    ready = not resting and not actions.has_open_parts(job.conn, action.id)
    rest = {REST: [job.now_us, until_us] if resting else None}
    actions.set_values(
        job.conn,
        action.id,
        job.now_us,
        status=actions.READY if ready else actions.WAITING,
        data={**action.data, **rest},
        timeout_s=action.timeout_s,
        owner="",
        lease_us=0,
        wake_us=None if ready else until_us,
    )


def _end(conn: Connection, action: ActionRow, ended: Ended, now_us: int) -> None:
    actions.end(
        conn,
        action.id,
        now_us,
        status=ended.status,
        reason=ended.reason,
        outputs=ended.outputs,
    )
    if ended.status != actions.SUCCEEDED:
        capacity_compensation.give_back(conn, action, now_us)
