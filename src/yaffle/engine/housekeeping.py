"""Housekeeping: sweeps orphans, follows notifications, prunes history, sets gauges.

Nothing urgent waits for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog

from yaffle.engine.incidents.host_incident import close_left, left_open
from yaffle.engine.notified_failures import NotifiedFailures
from yaffle.engine.ownership.leader_lease import is_ours
from yaffle.engine.runtime.driver_call import Failure, call_driver
from yaffle.engine.runtime.pauses import halted
from yaffle.engine.steps.host_quarantine import Quarantines, counted
from yaffle.errors import StoreUnavailable
from yaffle.model.ids import OperationId
from yaffle.model.incident import PauseKind
from yaffle.model.operations import EMPTY, Hindrance, Operation, Progress, ProgressState
from yaffle.model.timing import LOOK_PAUSE_S
from yaffle.store import (
    actions,
    alerts,
    catalog,
    disk_images,
    hosts,
    instance_ha,
    late_resources,
    orphans,
    outbox,
    pauses,
    prune,
    receivers,
    rollback_detection,
)
from yaffle.store.singleton_leases import SingletonRole

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from yaffle.core.recovery.host_quarantine import Do
    from yaffle.engine.runtime.context import EngineContext
    from yaffle.engine.runtime.session import Session
    from yaffle.model.incident import Pause
    from yaffle.model.operations import Target

log = structlog.get_logger()

PACE_S: Final = 5.0
PRUNE_EVERY_S: Final = 3600.0
PRUNE_PAUSE_S: Final = 0.2
SWEEP_S: Final = 4.0
SWEEP_AGAIN_S: Final = 30.0
LOOKS_AT_ONCE: Final = 10
LOOK_S: Final = 20.0


class Housekeeper:
    """The housekeeping loop of one session."""

    def __init__(self, ctx: EngineContext, session: Session) -> None:
        self._ctx = ctx
        self._session = session
        self._quarantines = Quarantines(ctx, session)
        self._notified = NotifiedFailures(ctx)

    async def run(self) -> None:
        """Sweep, prune and measure for as long as the session lasts."""
        next_prune_s = self._ctx.clock.monotonic_s() + 60
        while True:
            try:
                # First: where nothing can be written, perhaps nothing can be read.
                await self._ctx.room.look()
                await self._measure()
                ours = self._session.may_act() and await is_ours(
                    self._ctx, self._session, SingletonRole.UPKEEP
                )
                if ours:
                    await self._sweep()
                    await self._look_out()
                    await self._discard()
                    await self._quarantines.look()
                    await self._close_left()
                    await self._end_receivers()
                if ours and self._ctx.clock.monotonic_s() >= next_prune_s:
                    next_prune_s = self._ctx.clock.monotonic_s() + PRUNE_EVERY_S
                    await self._prune()
                if ours:
                    # The last: it is as long as what others tell.
                    await self._notified.look()
            except StoreUnavailable as error:
                log.warning("housekeeping put off", error=str(error))
            await self._ctx.clock.sleep(PACE_S)

    async def _measure(self) -> None:
        def work(
            conn: Connection,
        ) -> tuple[int | None, int, int | None, Sequence[Pause], Mapping[Do, int]]:
            parked, ready_us = outbox.count_parked(conn), actions.oldest_ready_us(conn)
            paused = pauses.in_force(conn, now_us)
            return outbox.oldest_pending_us(conn), parked, ready_us, paused, counted(conn)

        now_us = self._ctx.clock.now_us()
        oldest_us, parked, ready_us, paused, quarantined = await self._ctx.store.read(work)
        metrics = self._ctx.metrics
        metrics.queue_age.set(0 if oldest_us is None else max(0, now_us - oldest_us) / 1e6)
        metrics.ready_age.set(0 if ready_us is None else max(0, now_us - ready_us) / 1e6)
        metrics.parked.set(parked)
        await self._measure_alerts()
        stops = [p.owner == rollback_detection.BY for p in paused if p.kind is PauseKind.STOP]
        metrics.stops.labels("yaffle").set(stops.count(True))
        metrics.stops.labels("person").set(stops.count(False))
        for do, count in quarantined.items():
            metrics.quarantined.labels(do.value).set(count)
        await self._measure_room()

    async def _measure_alerts(self) -> None:
        now_us, metrics = self._ctx.clock.now_us(), self._ctx.metrics
        oldest_us, refused, told_us = await self._ctx.store.read(
            lambda conn: (
                alerts.oldest_pending_us(conn),
                alerts.count_refused(conn),
                instance_ha.oldest_under_way_us(conn),
            )
        )
        metrics.alert_age.set(0 if oldest_us is None else max(0, now_us - oldest_us) / 1e6)
        metrics.notification_age.set(0 if told_us is None else max(0, now_us - told_us) / 1e6)
        metrics.alerts_refused.set(refused)
        names, terms = tuple(self._ctx.drivers.host_monitors), self._ctx.hosts
        found = await self._ctx.store.read(
            lambda conn: hosts.by_state(
                conn, names, hostname=terms.hostname, now_us=now_us, stale_us=terms.stale_us
            )
        )
        for state, those in found.items():
            metrics.hosts.labels(state).set(len(those))

    async def _measure_room(self) -> None:
        """Set the gauge of free disk space; a folder that cannot be asked changes nothing."""
        path = self._ctx.store.path
        if path is not None:
            with contextlib.suppress(OSError):
                found = await asyncio.to_thread(os.statvfs, path.parent)
                self._ctx.metrics.disk_free.set(found.f_bavail * found.f_frsize)

    async def _end_receivers(self) -> None:
        """Write an event for each webhook that has ended, and remove it when that event is pruned."""
        now_us, age_us = self._ctx.clock.now_us(), self._ctx.receivers.age_us
        kept_us = self._ctx.retention.events_s * 1_000_000
        if await self._ctx.store.read(
            lambda conn: receivers.over(conn, now_us=now_us, age_us=age_us, kept_us=kept_us)
        ):
            await self._ctx.store.write(
                lambda conn: receivers.sweep(conn, now_us=now_us, age_us=age_us, kept_us=kept_us)
            )

    async def _prune(self) -> None:
        """Delete what is old, in bounded transactions, until nothing old is left."""
        removed: Mapping[str, int] = {"": prune.BATCH}
        while any(count >= prune.BATCH for count in removed.values()):
            now_us = self._ctx.clock.now_us()
            removed = await self._ctx.store.write(
                lambda conn, now_us=now_us: prune.prune(  # type: ignore[misc]
                    conn, now_us=now_us, retention=self._ctx.retention
                )
            )
            log.info("history pruned", removed=dict(removed))
            await self._ctx.clock.sleep(PRUNE_PAUSE_S)

    async def _sweep(self) -> None:
        """Delete orphans: copies that a recovery left behind."""
        now_us = self._ctx.clock.now_us()
        for row, target in await self._ctx.store.read(lambda c: orphans.due(c, now_us, 10)):
            if not self._may_carry():
                return
            op = Operation(kind="DELETE", target=target, params=EMPTY, timeout_s=SWEEP_AGAIN_S)
            ident = _try_of(row["id"], row["attempts"])
            spare = partial(self._spared, target=target)
            done = await self._carry(op, ident, spare)
            error = _in_the_way(done)
            await self._ctx.store.write(
                lambda conn, ident=row["id"], done=done, error=error: orphans.tried(  # type: ignore[misc]
                    conn,
                    ident,
                    failed=done.state is ProgressState.FAILED,
                    done_us=None if error else self._ctx.clock.now_us(),
                    next_us=self._ctx.clock.now_us() + int(SWEEP_AGAIN_S * 1e6),
                    error=error,
                )
            )

    async def _look_out(self) -> None:
        """Delete copies that came about after their nodes were deleted.

        All at a time: a cloud that is asked for a list makes one for everybody who asks.
        """
        now_us = self._ctx.clock.now_us()
        notes = await self._ctx.store.read(lambda c: late_resources.due(c, now_us, LOOKS_AT_ONCE))
        if not notes or not self._may_carry():
            return
        async with asyncio.TaskGroup() as group:
            looks = [group.create_task(self._late_copy(note)) for note in notes]
        for note, look in zip(notes, looks, strict=True):
            done = look.result()
            await self._ctx.store.write(
                lambda conn, note=note, done=done: late_resources.looked(  # type: ignore[misc]
                    conn,
                    note,
                    _in_the_way(done),
                    self._ctx.clock.now_us(),
                    under_way=done.state is ProgressState.RUNNING and _answered(done),
                    over=done.state is not ProgressState.RUNNING,
                )
            )

    async def _late_copy(self, note: late_resources.Due) -> Progress:
        """Delete whatever bears the mark of a node that is gone.

        For a while: of a slow cloud the next call goes by the list that came too late for the last.
        """
        op = Operation(kind="DELETE", target=note.target, params=EMPTY, timeout_s=SWEEP_AGAIN_S)
        spare = partial(self._in_use, target=note.target)
        ident, end_s = _try_of(note.id, note.attempts), self._ctx.clock.monotonic_s() + LOOK_S
        try:
            while (done := await self._carry(op, ident, spare)).hindrance is Hindrance.UNASKED:
                if self._ctx.clock.monotonic_s() >= end_s or not self._may_carry():
                    break
                await self._ctx.clock.sleep(LOOK_PAUSE_S)
        except StoreUnavailable as error:
            return _unasked(str(error))
        if done.state is not ProgressState.DONE and _answered(done):
            log.warning("late copy", node=note.target.name, state=done.state, detail=done.detail)
        return done

    def _in_use(self, conn: Connection, target: Target) -> str:
        """Return why nothing with a node's mark may be deleted: it has a row, or an operator said so."""
        if catalog.node(conn, target.node_id) is not None:
            return "there is such a node"
        return halted(conn, target.node_id, target.cluster_id, self._ctx.clock.now_us())

    async def _discard(self) -> None:
        """Delete recovery images beyond the bound, and those of nodes that are gone."""
        now_us = self._ctx.clock.now_us()
        for due in await self._ctx.store.read(lambda c: disk_images.due(c, now_us, 10)):
            if not self._may_carry():
                return
            params = {"every": due.gone, "spared": due.spared}
            op = Operation(
                kind="DISCARD", target=due.target, params=params, timeout_s=SWEEP_AGAIN_S
            )
            spare = partial(
                halted,
                node_id=due.target.node_id,
                cluster_id=due.target.cluster_id,
                now_us=now_us,
            )
            error = _in_the_way(await self._carry(op, _try_of(due.id, due.attempts), spare))
            await self._ctx.store.write(
                lambda conn, due=due, error=error: disk_images.looked(  # type: ignore[misc]
                    conn, due, error, self._ctx.clock.now_us()
                )
            )

    async def _close_left(self) -> None:
        """End incidents that earlier versions of the engine have left open."""
        if await self._ctx.store.read(left_open):
            now_us = self._ctx.clock.now_us()
            await self._ctx.store.write(lambda conn: close_left(self._ctx, conn, now_us))

    def _spared(self, conn: Connection, target: Target) -> str:
        """Return why the copy must be left alone: an operator said so, or it is the present one.

        A driver that keeps ids across RECREATE, or one told to delete "whatever there is", would
        take the new copy for the old.
        """
        now_us = self._ctx.clock.now_us()
        if why := halted(conn, target.node_id, target.cluster_id, now_us):
            return why
        node = catalog.node(conn, target.node_id)
        present = "" if node is None else node.physical_id
        if not target.physical_id or target.physical_id == present:
            return "it is the present copy"
        return ""

    def _may_carry(self) -> bool:
        """Whether the lease lasts for a poll and a submit."""
        call_s = self._session.call_s(SWEEP_S) / 2
        return self._session.may_act(2 * (call_s + self._session.grace_s()))

    async def _carry(
        self, op: Operation, ident: OperationId, spare: Callable[[Connection], str]
    ) -> Progress:
        """Poll a deletion, or submit it unless `spare` objects; return its progress."""
        target = op.target
        profile = self._ctx.drivers.profiles.get(target.profile_type)
        if profile is None:
            return _unasked(f"no profile {target.profile_type}")
        what = f"{target.profile_type} on {target.name}"
        call_s = self._session.call_s(SWEEP_S) / 2
        done = await call_driver(
            lambda: profile.poll(op, operation_id=ident, deadline_s=call_s),
            Progress,
            within_s=call_s + self._session.grace_s(),
            what=what,
        )
        if isinstance(done, Progress) and done.state is ProgressState.ABSENT:
            if spared := await self._ctx.store.read(spare):
                return _unasked(f"left alone: {spared}", Hindrance.BARRED)
            done = await call_driver(
                lambda: profile.submit(op, operation_id=ident, deadline_s=call_s),
                Progress,
                within_s=call_s + self._session.grace_s(),
                what=what,
            )
        return _unasked(done.why) if isinstance(done, Failure) else done


def _unasked(why: str, hindrance: Hindrance = Hindrance.UNASKED) -> Progress:
    """Return that nothing is known of it."""
    return Progress(state=ProgressState.RUNNING, detail=why, hindrance=hindrance, untold=True)


def _answered(done: Progress) -> bool:
    """Whether the backend itself has said how it stands."""
    return not done.untold and done.hindrance is not Hindrance.UNASKED


def _in_the_way(done: Progress) -> str:
    """Say why it is not over; empty where it is."""
    return "" if done.state is ProgressState.DONE else str(done.detail) or "still there"


def _try_of(debris_id: str, failures: int) -> OperationId:
    """Return the operation id of one try: a driver that deduplicates never repeats a failed one.

    The same until it has failed, so that a restart goes on with the deletion that is under way. It
    is never the debris' own id either: that belongs to the step which left it behind.
    """
    return OperationId(str(uuid.uuid5(uuid.UUID(debris_id), f"sweep {failures}")))
