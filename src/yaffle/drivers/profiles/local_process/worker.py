"""Carries operations out, one bounded step per call, under the node's lock; runs in a thread.

Order of every step: write down what comes next, look, act. Whoever finds the record later, after a
crash at any point, goes on from there: every phase may be repeated, and the one that may not
(starting the command) leaves a note that says whether it happened.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, assert_never

from yaffle.drivers.profiles.local_process import process_table
from yaffle.drivers.profiles.local_process.folder import Folder
from yaffle.drivers.profiles.local_process.job import Fail, Finish, Job, Next, Wait, copy_id
from yaffle.drivers.profiles.local_process.phases import PHASES, vacant
from yaffle.drivers.profiles.local_process.plans import KILL, PLANS, Phase, plan_of
from yaffle.drivers.profiles.local_process.ports import Ports
from yaffle.drivers.profiles.local_process.procfs import Procfs, ProcUnreadable
from yaffle.drivers.profiles.local_process.record import (
    FINISHED_MAX,
    Current,
    Finished,
    Record,
    RecordUnreadable,
    Tombstone,
)
from yaffle.drivers.profiles.local_process.spec import Spec, parse
from yaffle.errors import InvalidSpec
from yaffle.model.ids import OperationId
from yaffle.model.operations import Hindrance, Operation, Progress, ProgressState
from yaffle.ports.clock import Clock

_ENDING: Final = ("DELETE", KILL)
"""What must work without a record, and whatever the properties say."""
_AFTER_REBOOT_S: Final = 60.0
"""What an operation gets that was under way when the machine went down."""


class Worker:
    """`submit` and `poll` for one state directory; raises Busy where the lock is taken."""

    def __init__(
        self,
        state_dir: Path,
        procfs: Procfs,
        clock: Clock,
        passes: process_table.Passes | None = None,
    ) -> None:
        self._state_dir = state_dir
        self._procfs = procfs
        self._passes = passes or process_table.Passes(procfs)
        self._clock = clock
        self._ports = Ports(state_dir)

    def submit(self, op: Operation, operation_id: OperationId, until_s: float) -> Progress:
        """Begin the operation, or go on with it, or say how it ended."""

        def act(job: Job, known: Record | None) -> Progress:
            ended = job.record.ended(operation_id)
            if ended is not None:
                return _again(ended)
            if job.record.current is None or job.record.current.operation_id != operation_id:
                refused = self._begin(job, op, operation_id, known)
                if refused is not None:
                    return refused
            return self._advance(job)

        return self._with_job(op, until_s, act)

    def poll(self, op: Operation, operation_id: OperationId, until_s: float) -> Progress:
        """Say how the operation is, moving it along."""

        def act(job: Job, known: Record | None) -> Progress:
            ended = job.record.ended(operation_id)
            if ended is not None:
                return ended.progress()
            if job.record.current is None or job.record.current.operation_id != operation_id:
                return self._without_trace(job, operation_id)
            return self._advance(job)

        return self._with_job(op, until_s, act)

    def _with_job(
        self, op: Operation, until_s: float, act: Callable[[Job, Record | None], Progress]
    ) -> Progress:
        try:
            folder = Folder(self._state_dir, op.target.node_id)
            spec = _spec(op)
            with folder.locked() as lock:
                known = folder.load()
                if known is None:
                    folder.sweep()
                job = Job(
                    folder=folder,
                    record=known if known is not None else _fresh(folder),
                    target=op.target,
                    spec=spec,
                    lock=lock,
                    procfs=self._procfs,
                    passes=self._passes,
                    ports=self._ports,
                    clock=self._clock,
                    until_s=until_s,
                )
                return act(job, known)
        except InvalidSpec as error:
            return _failed(f"the properties are wrong: {'; '.join(error.problems)}")
        except RecordUnreadable as error:
            return _unasked(f"the node's record is unreadable, nothing was done: {error}")
        except ProcUnreadable as error:
            text = f"cannot tell what runs, so nothing was started or stopped: {error}"
            # For a fencer that is doubt, not a refusal: it asks again for as long as it may.
            return _running(text) if op.kind == KILL else _unasked(text)
        except (ValueError, OSError) as error:
            return _failed(f"cannot work in {self._state_dir}: {error}")

    # --- beginning ------------------------------------------------------------------------------

    def _begin(
        self, job: Job, op: Operation, operation_id: OperationId, known: Record | None
    ) -> Progress | None:
        """Write the operation down; returns an answer where there is nothing to go on with."""
        plan = plan_of(op)
        if plan is None:
            return _failed(f"{op.kind} {dict(op.params)} is not an operation of a local process")
        if op.kind in _ENDING and (older := self._older(job, op, operation_id)) is not None:
            return older
        if known is None and op.kind in _ENDING:
            nothing = self._end_nothing(job, op, operation_id)
            if nothing is not None:
                return nothing
        elif op.kind == "CREATE":
            # Looked at before the operation under way is superseded: a copy that somebody else is
            # just making stays theirs.
            blocked = vacant(job)
            if isinstance(blocked, Fail):
                return _failed(blocked.detail)
        elif op.kind not in _ENDING and not job.record.physical_id:
            return _failed(f"{op.kind}: there is no such node here; CREATE it first")
        record = _supersede(job.record, operation_id)
        now_s = self._clock.monotonic_s()
        current = Current(
            operation_id=operation_id,
            kind=op.kind,
            plan=plan,
            phase=PLANS[plan][0].value,
            phase_since_s=now_s,
            started_us=self._clock.now_us(),
            deadline_s=now_s + op.timeout_s,
            boot=self._procfs.boot(),
        )
        job.record = replace(
            record, current=current, wanted=record.wanted and op.kind not in ("STOP", "DELETE")
        )
        job.save(job.record)
        if op.kind == "CREATE":
            job.folder.unbury()
        return None

    def _older(self, job: Job, op: Operation, operation_id: OperationId) -> Progress | None:
        """Answer for a copy that was replaced: it is gone, and the present one is not meant.

        Nothing is launched before the node is proved vacant, so an older copy ended before the
        present one began. Sweepers go on deleting copies that a recovery went past.
        """
        named, present = op.target.physical_id, job.record.physical_id
        if not named or not present or named == present:
            return None
        detail = f"copy {named} ended before copy {present} was made, which is left alone"
        ended = Finished(
            operation_id=operation_id, kind=op.kind, state=ProgressState.DONE, detail=detail
        )
        kept = (*job.record.finished, ended)[-FINISHED_MAX:]
        job.save(replace(job.record, finished=kept))
        return ended.progress()

    def _end_nothing(self, job: Job, op: Operation, operation_id: OperationId) -> Progress | None:
        """Answer for a node that has no record: done, unless something still carries its marker."""
        try:
            found = job.look()
        except ProcUnreadable as error:
            return _running(f"cannot tell: {error}")
        if not found.empty:
            return None
        detail = f"there is no such node, and no carrier of YAFFLE_NODE_ID={job.folder.node_id}"
        ended = Finished(
            operation_id=operation_id, kind=op.kind, state=ProgressState.DONE, detail=detail
        )
        # A convenience for successors; who finds no trace asks again and gets the same answer.
        with suppress(OSError):
            kept = (*job.record.finished, ended)[-FINISHED_MAX:]
            _bury(job.folder, replace(job.record, finished=kept))
        return ended.progress()

    def _without_trace(self, job: Job, operation_id: OperationId) -> Progress:
        try:
            seen = self._passes.take()
        except ProcUnreadable as error:
            return _running(f"cannot tell: {error}")
        ours = (pid for pid, node in seen.nodes.items() if node == job.folder.node_id)
        pids = sorted(pid for pid in ours if seen.operations.get(pid) == operation_id)
        if pids:
            return _failed(f"the node's record is lost, but pids {pids} carry this operation")
        return Progress(state=ProgressState.ABSENT, detail="no trace of that operation")

    # --- going on -------------------------------------------------------------------------------

    def _advance(self, job: Job) -> Progress:
        try:
            self._after_reboot(job)
            return self._phases(job)
        except (OSError, ProcUnreadable) as error:
            # Written down already, so it goes on when the disk or /proc does.
            return self._waiting(job, f"{job.current.kind} is held up: {error}")

    def _phases(self, job: Job) -> Progress:
        plan = PLANS[job.current.plan]
        detail = job.current.detail
        for phase in plan[plan.index(Phase(job.current.phase)) :]:
            if job.current.phase != phase.value:
                job.enter(phase, detail)
            outcome = PHASES[phase](job)
            match outcome:
                case Next():
                    detail = outcome.detail or detail
                case Wait():
                    return self._waiting(job, outcome.detail)
                case Fail():
                    return self._end(job, ProgressState.FAILED, outcome.detail)
                case Finish():
                    return self._end(job, ProgressState.DONE, outcome.detail)
                case _:
                    assert_never(outcome)
        return self._end(job, ProgressState.DONE, detail)

    def _after_reboot(self, job: Job) -> None:
        """Restart the operation's times where they belong to another boot of the machine."""
        boot = self._procfs.boot()
        if job.current.boot != boot:
            now_s = self._clock.monotonic_s()
            current = replace(
                job.current, boot=boot, phase_since_s=now_s, deadline_s=now_s + _AFTER_REBOOT_S
            )
            job.save(replace(job.record, current=current))

    def _waiting(self, job: Job, detail: str) -> Progress:
        # A kill goes on until it is proved: its caller decides how long to wait.
        if job.current.kind == KILL or self._clock.monotonic_s() < job.current.deadline_s:
            return _running(detail)
        with suppress(OSError):
            return self._end(job, ProgressState.FAILED, f"not done in time: {detail}")
        return _failed(f"not done in time: {detail}")

    def _end(self, job: Job, state: ProgressState, detail: str) -> Progress:
        current = job.current
        made = state is ProgressState.DONE and Phase.LAUNCH in PLANS[current.plan]
        launch = job.folder.load_launch() if made else None
        pid = None if launch is None else launch.pid
        # A copy that was begun in another's place is told of too: who deletes its node by the id of
        # the one before would leave its folder and its port for ever. A first one was never made.
        own = job.record.physical_id == copy_id(current.operation_id)
        begun = own and bool(job.target.physical_id)
        record = job.record.finish(state, detail, made=made or begun, pid=pid)
        if current.kind == "DELETE" and state is ProgressState.DONE:
            _bury(job.folder, record)
            self._ports.release(record)
            job.folder.remove()
        else:
            job.save(record)
        return record.finished[-1].progress()


def _spec(op: Operation) -> Spec:
    try:
        return parse(op.target.spec)
    except InvalidSpec:
        if op.kind in _ENDING:
            return parse({"command": ["-"]})
        raise


def _fresh(folder: Folder) -> Record:
    """Return the record of a node that has none, with what its tombstone remembers."""
    tombstone = folder.load_tombstone()
    if tombstone is None:
        return Record(node_id=folder.node_id)
    return Record(
        node_id=folder.node_id,
        node_ip=tombstone.node_ip,
        port=tombstone.port,
        finished=tombstone.finished,
    )


def _bury(folder: Folder, record: Record) -> None:
    folder.bury(
        Tombstone(
            node_id=record.node_id,
            node_ip=record.node_ip,
            port=record.port,
            finished=record.finished,
        )
    )


def _supersede(record: Record, by: OperationId) -> Record:
    return record.finish(ProgressState.ABSENT, f"superseded by operation {by}", made=False)


def _again(ended: Finished) -> Progress:
    """Answer a submit of what has ended: it is never done twice."""
    if ended.state is ProgressState.ABSENT:
        return _failed(f"{ended.kind} was {ended.detail} and is not taken up again")
    return ended.progress()


def _running(detail: str) -> Progress:
    return Progress(state=ProgressState.RUNNING, detail=detail)


def _unasked(detail: str) -> Progress:
    """Return a refusal for want of knowledge of what runs: it speaks for no stronger act."""
    return replace(_failed(detail), hindrance=Hindrance.UNASKED)


def _failed(detail: str) -> Progress:
    return Progress(state=ProgressState.FAILED, detail=detail)
