"""Jobs begun, carried on, timed out and cancelled: one transaction each, guarded by the epoch."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from yaffle.engine.jobs import conflicts, nodes
from yaffle.engine.jobs.ending import conclude
from yaffle.engine.jobs.job import Ended, Job, Wait
from yaffle.engine.jobs.removal import DELETE
from yaffle.engine.jobs.rows import REQUESTED, queue
from yaffle.engine.jobs.table import KINDS, NODE_MOVES
from yaffle.errors import ActionImmutable
from yaffle.model.health import NodeStatus
from yaffle.store import actions, catalog

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Connection

    from yaffle.engine.jobs.job import Move
    from yaffle.engine.kit import Kit
    from yaffle.model.ids import ActionId
    from yaffle.model.rights import Who
    from yaffle.store.actions import Ticket
    from yaffle.store.records import ActionRow, ClusterRow

JOBS: Final = frozenset(KINDS) | NODE_MOVES
"""Actions that the executor carries on here instead of walking a ladder."""


def begin(
    kit: Kit,
    conn: Connection,
    who: Who,
    cluster: ClusterRow,
    action: str,
    inputs: Mapping[str, object],
    *,
    cause: str = REQUESTED,
) -> ActionId:
    """Insert a cluster's action and make its first move; raise what the caller did wrong.

    What is raised undoes it all, so that a refused request leaves nothing behind.
    """
    present = conflicts.check(conn, action, "cluster", cluster.id)
    now_us = kit.clock.now_us()
    for other in present:
        stop(conn, other, f"{action} takes over", now_us, deletions=False)
    ident = queue(
        kit,
        conn,
        action=action,
        who=who,
        target=cluster.id,
        cluster_id=cluster.id,
        cause=cause,
        inputs=inputs,
        timeout_s=cluster.timeout_s,
        status=actions.WAITING,
        lock_key=cluster.id,
    )
    actions.set_values(conn, ident, now_us, start_us=now_us)
    job = _job(kit, conn, ident, cluster, now_us)
    job.event("start", f"asked for by {who.user}")
    _apply(job, KINDS[action].begin(job))
    return ident


def advance(kit: Kit, ticket: Ticket, conn: Connection, action: ActionRow) -> None:
    """Make the next move of a job that was claimed; raise StaleEpoch for a late hand."""
    action = actions.guard(conn, ticket)
    now_us = kit.clock.now_us()
    if action.action in NODE_MOVES:
        _end(conn, action, nodes.move(kit, conn, action), now_us)
        return
    cluster = None if action.cluster_id is None else catalog.cluster(conn, action.cluster_id)
    if cluster is None:
        gone = Ended(status=actions.CANCELLED, reason="the cluster is gone")
        _end(conn, action, Ended() if action.action == "CLUSTER_DELETE" else gone, now_us)
        return
    job = Job(kit=kit, conn=conn, action=action, cluster=cluster, now_us=now_us)
    _apply(job, _next(job))


def _next(job: Job) -> Move:
    late = job.now_us >= _deadline_us(job.action)
    if late or job.action.cancel_reason is not None:
        return _cut_short(job, late=late)
    if actions.has_open_parts(job.conn, job.action.id):
        return Wait()
    return KINDS[job.action.action].resume(job)


def _cut_short(job: Job, *, late: bool) -> Move:
    """End what is not over in time or is not wanted any more; parts that have begun are told to stop."""
    why = f"Timeout: not over within {job.action.timeout_s} s" if late else "Action cancelled"
    for part in job.parts():
        if part.status in actions.UNFINISHED:
            stop(job.conn, part, why, job.now_us)
    if not late and actions.has_open_parts(job.conn, job.action.id):
        return Wait()
    status = actions.FAILED if late else actions.CANCELLED
    ended = Ended(status=status, reason=why)
    if job.action.action == "CLUSTER_DELETE":
        # Its nodes go on being deleted, and the cluster goes with the last of them.
        job.event("error", why)
        return ended
    return conclude(job, ended)


def stop(
    conn: Connection, action: ActionRow, why: str, now_us: int, *, deletions: bool = True
) -> None:
    """Ask an action to stop; what has not begun, and what is only rows, ends at once.

    `deletions`: whether parts that delete a node are stopped too.
    """
    if action.action == DELETE and not deletions:
        return
    actions.cancel(conn, action.id, why, now_us)
    unbegun = action.status == actions.READY and action.incident_id is None
    only_rows = action.action in JOBS
    for part in actions.parts(conn, action.id) if only_rows else ():
        if part.status in actions.UNFINISHED:
            stop(conn, part, why, now_us, deletions=deletions)
    if only_rows or unbegun or action.status in {actions.WAITING, actions.HOOKED}:
        actions.end(conn, action.id, now_us, status=actions.CANCELLED, reason=why, outputs={})
        _spared(conn, action, why, now_us)


def _spared(conn: Connection, action: ActionRow, why: str, now_us: int) -> None:
    """Say of the node what is true after an act on it that was never begun."""
    if action.node_id is None:
        return
    if action.action == "NODE_CREATE":
        catalog.set_node(
            conn, action.node_id, now_us, status=NodeStatus.ERROR.value, status_reason=why
        )
    elif action.action == DELETE:
        was = str(action.inputs.get("was") or NodeStatus.ERROR.value)
        catalog.set_node(conn, action.node_id, now_us, status=was, status_reason=why)


def cancel(kit: Kit, conn: Connection, action: ActionRow, *, force: bool, by: str) -> None:
    """Cancel an action and its parts; `force`: give their locks back at once.

    Without force what has begun stops at its next step boundary, and a parent ends after its parts.
    """
    if action.status in actions.ENDED:
        raise ActionImmutable(
            f"Action ({action.id}) is in status ({action.status}) while expected status must be"
            f" one of ({', '.join(actions.UNFINISHED)})."
        )
    now_us = kit.clock.now_us()
    why = f"cancelled by {by}"
    parts = [p for p in actions.parts(conn, action.id) if p.status in actions.UNFINISHED]
    for part in parts:
        stop(conn, part, why, now_us)
        if force:
            _force(conn, part, why, now_us)
    if force:
        _force(conn, action, why, now_us)
    elif action.action in JOBS and action.status == actions.WAITING:
        # Its next move ends it; `wake` has made it ready if no part is left.
        actions.cancel(conn, action.id, why, now_us)
        actions.set_values(conn, action.id, now_us, wake_us=now_us)
    else:
        stop(conn, action, why, now_us)
    _restate(kit, conn, action, now_us)


def _force(conn: Connection, action: ActionRow, why: str, now_us: int) -> None:
    fresh = actions.get(conn, action.id)
    if fresh is not None and fresh.status in actions.UNFINISHED:
        actions.end(conn, action.id, now_us, status=actions.CANCELLED, reason=why, outputs={})


def _restate(kit: Kit, conn: Connection, action: ActionRow, now_us: int) -> None:
    """A cluster whose action was ended here shows again how it is."""
    fresh = actions.get(conn, action.id)
    cluster = None if action.cluster_id is None else catalog.cluster(conn, action.cluster_id)
    ended = fresh is not None and fresh.status in actions.ENDED
    if fresh is not None and ended and cluster is not None and fresh.target == cluster.id:
        job = Job(kit=kit, conn=conn, action=fresh, cluster=cluster, now_us=now_us)
        conclude(job, Ended(status=fresh.status, reason=fresh.status_reason))


# --- rows ------------------------------------------------------------------------------------


def _job(kit: Kit, conn: Connection, ident: ActionId, cluster: ClusterRow, now_us: int) -> Job:
    action = actions.get(conn, ident)
    assert action is not None  # noqa: S101 - inserted a moment ago
    return Job(kit=kit, conn=conn, action=action, cluster=cluster, now_us=now_us)


def _deadline_us(action: ActionRow) -> int:
    return (action.start_us or action.created_us) + action.timeout_s * 1_000_000


def _apply(job: Job, move: Move) -> None:
    match move:
        case Wait():
            _wait(job, move)
        case Ended():
            _end(job.conn, job.action, move, job.now_us)


def _wait(job: Job, move: Wait) -> None:
    action = replace(job.action, data={**job.action.data, **move.data})
    deadline_us = _deadline_us(action)
    until_us = deadline_us if move.until_us is None else min(move.until_us, deadline_us)
    resting = move.until_us is not None
    ready = not resting and not actions.has_open_parts(job.conn, action.id)
    actions.set_values(
        job.conn,
        action.id,
        job.now_us,
        status=actions.READY if ready else actions.WAITING,
        data=dict(action.data),
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
