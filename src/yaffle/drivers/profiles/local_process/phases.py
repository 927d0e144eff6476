"""Phases of an operation: short, repeatable after a crash at any point, never waiting for long."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

from yaffle.drivers.profiles.local_process import launch, signals
from yaffle.drivers.profiles.local_process.capture import last_words
from yaffle.drivers.profiles.local_process.folder import Busy
from yaffle.drivers.profiles.local_process.job import (
    Fail,
    Finish,
    Job,
    Next,
    Outcome,
    Wait,
    copy_id,
)
from yaffle.drivers.profiles.local_process.plans import Phase
from yaffle.drivers.profiles.local_process.ports import PortTaken
from yaffle.drivers.profiles.local_process.process_table import ProcessTable
from yaffle.drivers.profiles.local_process.procfs import STOPPED
from yaffle.drivers.profiles.local_process.record import Record

_ROUNDS: Final = 6
_SETTLE_S: Final = 0.1
"""A command that ends sooner than this never ran."""
_LOOK_AGAIN_S: Final = 0.2
"""How long one call waits for signalled processes, so that a quick end is seen at once."""


def vacant(job: Job) -> Outcome:
    """Refuse to go on while an older copy may still run."""
    if job.vacated:
        return Next()
    if not (found := _living(job)).empty:
        return Fail(f"an older copy of the node may still run: pids {found}; delete it first")
    return Next()


def _living(job: Job) -> ProcessTable:
    """Return what lives of the node, and remember in the job where nothing does."""
    found = job.look()
    job.vacated = found.empty
    return found


def not_running(job: Job) -> Outcome:
    """Go on when nothing lives; done when the node runs."""
    main = job.main()
    if main is not None and main.alive:
        if main.state in STOPPED or job.procfs.frozen(main.pid):
            return Fail(f"pid {main.pid} is there but stopped or frozen: REBOOT it with type HARD")
        return Finish(f"pid {main.pid} runs already")
    return vacant(job)


def prepare(job: Job) -> Outcome:
    """Settle folders, physical id and port, and write them down."""
    job.folder.make()
    record = replace(job.record, node_ip=job.spec.node_ip, wanted=True)
    if job.current.kind == "CREATE" or not record.physical_id:
        record = replace(record, physical_id=copy_id(job.current.operation_id))
    if record.node_ip != job.record.node_ip or job.spec.port is None:
        job.ports.release(job.record)
        record = replace(record, port=None)
    try:
        record = _with_port(job, record)
    except PortTaken as error:
        return Fail(str(error))
    except Busy as error:
        return Wait(str(error))
    values = launch.expansions(record, job.target, job.folder)
    job.save(replace(record, log_file=str(launch.log_path(job.spec, values, job.folder))))
    return Next()


def _with_port(job: Job, record: Record) -> Record:
    if job.spec.port is None or (job.current.kind != "CREATE" and record.port is not None):
        return record
    fixed = job.spec.port if isinstance(job.spec.port, int) else None
    return job.ports.assign(record, fixed=fixed, span=job.spec.port_range, wait_s=job.left_s() / 2)


def ask(job: Job) -> Outcome:
    """Send the stop signal once and wait, at most `stop_timeout`."""
    return _ask(job, give_up=False)


def ask_only(job: Job) -> Outcome:
    """As `ask`, but a node that does not obey is left alone."""
    return _ask(job, give_up=True)


def _ask(job: Job, *, give_up: bool) -> Outcome:
    if (found := _living(job)).empty:
        return Next()
    # A stopped process hears no signal but SIGKILL, and waking it would let it act.
    if any(m.state in STOPPED or job.procfs.frozen(m.pid) for m in found.members):
        text = f"stopped or frozen, it cannot hear the stop signal: pids {found}"
        return Fail(text) if give_up else Next()
    if not job.current.signalled:
        signals.send(job.procfs, found.members, job.spec.signal, wait_s=_short(job))
        job.save(replace(job.record, current=replace(job.current, signalled=True)))
        if (found := _living(job)).empty:
            return Next()
    if job.in_phase_s() < job.spec.stop_timeout:
        return Wait(f"asked to end with SIG{job.spec.stop_signal}: pids {found}")
    text = f"still there {job.spec.stop_timeout:g} s after SIG{job.spec.stop_signal}: pids {found}"
    return Fail(text) if give_up else Next(text)


def kill(job: Job) -> Outcome:
    """Send SIGKILL until two passes over /proc find nothing of the node."""
    killed: list[int] = []
    if job.vacated:
        return Next(_evidence(job, killed))
    for _ in range(_ROUNDS):
        if (found := _living(job)).empty:
            return Next(_evidence(job, killed))
        sent = signals.send(job.procfs, found.members, signal.SIGKILL, wait_s=_short(job))
        if sent.denied:
            return Fail(f"we may not kill pids {sorted(sent.denied)} of {found}")
        killed += [pid for pid in sent.reached if pid not in killed]
        if not sent.reached or job.left_s() <= 0:
            break
    if (found := _living(job)).empty:
        return Next(_evidence(job, killed))
    return Wait(f"sent SIGKILL, but still there: pids {found}")


def _evidence(job: Job, killed: list[int]) -> str:
    started = job.started()
    who = f"pids {sorted(killed)} killed" if killed else "nothing was left to kill"
    session = f"no member of session {started.pid}" if started is not None else "no known session"
    return f"{who}; {session}, no carrier of YAFFLE_NODE_ID={job.folder.node_id} in two passes"


def wipe(job: Job) -> Outcome:
    """Remove the work files; identity, port and log stay."""
    if not _remove_tree(job.folder.work, keep_going=lambda: job.left_s() > 0):
        return Wait("removing the work files")
    return Next()


def start(job: Job) -> Outcome:
    """Run the launcher, once in the life of this operation."""
    written = job.folder.load_launch()
    if written is not None and written.operation_id == job.current.operation_id:
        return Fail(written.error) if written.error else Next()
    # Holding the lock, with no note of this operation, we know that no launcher is on its way.
    blocked = vacant(job)
    if isinstance(blocked, Fail):
        return blocked
    job.vacated = False
    job.folder.make()
    order = launch.draw_up(job.spec, job.record, job.target, job.folder, job.current.operation_id)
    try:
        launch.rotate(_log(job))
        launch.run(order, lock=job.lock, wait_s=max(0.1, job.left_s()))
    except launch.LaunchFailed as error:
        return Fail(str(error))
    except launch.LaunchSlow as error:
        return Wait(str(error))
    written = job.folder.load_launch()
    if written is None or written.operation_id != job.current.operation_id:
        return Fail("the launcher was killed before it came to the command")
    return Next()


def alive(job: Job) -> Outcome:
    """Look whether what was launched is still there."""
    main = job.main()
    if main is not None and main.alive:
        settled = job.in_phase_s() >= _SETTLE_S
        return Next(f"pid {main.pid} runs") if settled else Wait(f"pid {main.pid} has started")
    found = job.look()
    if not found.empty:
        return Fail(
            "the command ended but left processes behind, so it does not stay in the foreground: "
            f"pids {found}"
        )
    ending = "" if main is None else main.ending
    return Fail(f"the command ended at once{ending}; last words: {last_words(_log(job))}")


def remove(job: Job) -> Outcome:
    """Remove the files, leave the tombstone, give the port back."""
    for place in job.folder.removable():
        if not _remove_tree(place, keep_going=lambda: job.left_s() > 0):
            return Wait("removing the node's files")
    return Next(job.current.detail)


def _remove_tree(path: Path, *, keep_going: Callable[[], bool]) -> bool:
    """Remove everything at and below `path`, never following a link; False when time ran out.

    A node's work files may be millions.
    """
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return True
    for _root, folders, files, descriptor in os.fwalk(path, topdown=False, follow_symlinks=False):
        for name in files:
            os.unlink(name, dir_fd=descriptor)
        for name in folders:
            _remove_folder(name, descriptor)
        if not keep_going():
            return False
    path.rmdir()
    return True


def _remove_folder(name: str, parent: int) -> None:
    try:
        os.rmdir(name, dir_fd=parent)
    except NotADirectoryError:
        # A link to a folder is listed among the folders.
        os.unlink(name, dir_fd=parent)


PHASES: Final[Mapping[Phase, Callable[[Job], Outcome]]] = MappingProxyType(
    {
        Phase.VACANT: vacant,
        Phase.NOT_RUNNING: not_running,
        Phase.PREPARE: prepare,
        Phase.ASK: ask,
        Phase.ASK_ONLY: ask_only,
        Phase.KILL: kill,
        Phase.WIPE: wipe,
        Phase.LAUNCH: start,
        Phase.ALIVE: alive,
        Phase.REMOVE: remove,
    }
)


def _log(job: Job) -> Path:
    return Path(job.record.log_file) if job.record.log_file else job.folder.log


def _short(job: Job) -> float:
    return min(_LOOK_AGAIN_S, job.left_s() / 2)
