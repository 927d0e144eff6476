"""Signals that cannot hit a stranger: through a pidfd, after the start time has been checked."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from yaffle.drivers.profiles.local_process.procfs import Procfs, Stat


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """The processes that a signal reached, and those that we may not signal."""

    reached: tuple[int, ...]
    denied: tuple[int, ...]


def send(
    procfs: Procfs, processes: Sequence[Stat], number: signal.Signals, *, wait_s: float
) -> Sent:
    """Signal each of `processes`, then wait up to `wait_s` for those reached to end.

    A process that ended meanwhile, or whose pid now belongs to another, is skipped.
    """
    reached: list[int] = []
    denied: list[int] = []
    with ExitStack() as stack:
        poller = select.poll()
        for process in processes:
            handle = _open(process.pid, denied)
            if handle is None:
                continue
            stack.callback(os.close, handle)
            # The handle pins the process: what is true of it now stays true of what we signal.
            now = procfs.stat(process.pid)
            if now is None or now.start != process.start:
                continue
            if _signal(handle, process.pid, number, denied):
                reached.append(process.pid)
                poller.register(handle, select.POLLIN)
        _await_end(poller, len(reached), wait_s)
    return Sent(reached=tuple(reached), denied=tuple(denied))


def _open(pid: int, denied: list[int]) -> int | None:
    if pid in (os.getpid(), 1):
        # An engine started from inside a node carries that node's marker; it does not end itself.
        denied.append(pid)
        return None
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return None
    except PermissionError:
        denied.append(pid)
        return None


def _signal(handle: int, pid: int, number: signal.Signals, denied: list[int]) -> bool:
    try:
        signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        denied.append(pid)
        return False
    return True


def _await_end(poller: select.poll, count: int, wait_s: float) -> None:
    """Let the processes end; a handle becomes readable when its process does.

    At most `count` waits of an even share each, so that the whole stays within `wait_s`.
    """
    left = count
    for _ in range(count):
        ended = poller.poll(wait_s * 1000 / count)
        for handle, _event in ended:
            poller.unregister(handle)
        left -= len(ended)
        if left <= 0:
            return
