"""Child processes of the engine: started with a pipe to it, watched by pings, replaced when they end.

A child never outlives the engine: it ends when the pipe closes, and the kernel kills it with its parent.
"""

from __future__ import annotations

import asyncio
import ctypes
import itertools
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

if TYPE_CHECKING:
    from yaffle.ports.clock import Clock

BACKOFF_S: Final = (0.0, 0.2, 1.0, 5.0)
"""Before the 1st, 2nd, … restart; the last for all further ones."""
STEADY_PINGS: Final = 30
"""Answered pings after which earlier deaths are forgotten."""
START_S: Final = 60.0
"""Until it is ready: on a machine that is short of everything a start takes its time."""
GRACE_S: Final = 2.0
"""For a killed child to be gone."""
_PR_SET_PDEATHSIG: Final = 1

log = structlog.get_logger(__name__)


class ChildLost(Exception):
    """Ends the conversation with one child; the message is why."""


class Pings:
    """Counts questions without an answer: our own rounds, not seconds, lest a frozen engine accuse."""

    def __init__(self, *, silent_max: int, pace_s: float) -> None:
        self._silent_max = silent_max
        self._pace_s = pace_s
        self.silent = 0
        """Questions in a row without an answer."""
        self.answered = 0
        """Answers of the present child since it was ready."""

    def heard(self, *, ready: bool = True) -> None:
        """Note an answer; of a child that is not `ready` yet, more patience is had."""
        self.silent = 0
        self.answered += ready

    async def run(self, who: str, ask: Callable[[int], None], clock: Clock) -> None:
        """Ask again and again; raise ChildLost after too many questions in a row without an answer."""
        self.silent = self.answered = 0
        for number in itertools.count(1):
            if self.silent >= (self._silent_max if self.answered else START_S / self._pace_s):
                raise ChildLost(f"{who} did not answer {self.silent} pings")
            self.silent += 1
            ask(number)
            await clock.sleep(self._pace_s)


async def supervise(
    one_child: Callable[[], Awaitable[tuple[str, int]]],
    on_lost: Callable[[str, int], None],
    clock: Clock,
) -> None:
    """Run one child after another until cancelled.

    `one_child` returns why it ended and how many pings it answered; `on_lost` is told the reason and
    how many have died in a row.
    """
    deaths = 0
    while True:
        why, answered = await one_child()
        deaths = 1 if answered >= STEADY_PINGS else deaths + 1
        on_lost(why, deaths)
        await clock.sleep(BACKOFF_S[min(deaths, len(BACKOFF_S)) - 1])


@dataclass(frozen=True, slots=True)
class Child:
    """A child process and our end of the pipe to it."""

    process: subprocess.Popen[bytes]
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


@asynccontextmanager
async def started(
    module: str, *descriptors: int, without: Sequence[str] = ()
) -> AsyncIterator[Child]:
    """Have a child, with a pipe as its first descriptor, until the block ends; raises ChildLost.

    It is killed then: what it holds that is worth saving, the block has to have it save.
    """
    with ExitStack() as stack:
        try:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
            stack.enter_context(ours)
            with theirs:
                process = _start(module, [theirs.fileno(), *descriptors], without)
            stack.callback(_end, process)
            reader, writer = await asyncio.open_connection(sock=ours)
        except OSError as error:
            raise ChildLost(f"it cannot be started: {error}") from error
        # Not `close`: that waits until what was written has been read, which a frozen child never does,
        # and the descriptor, closed below it, would be the next child's.
        stack.callback(writer.transport.abort)
        yield Child(process, reader, writer)


def _start(
    module: str, descriptors: Sequence[int], without: Sequence[str]
) -> subprocess.Popen[bytes]:
    """Start `python -m MODULE DESCRIPTOR … OUR_PID`, `without` these variables; raises OSError."""
    # -P: a directory named yaffle where the engine was started must not be taken for us.
    words = [sys.executable, "-P", "-m", module, *map(str, descriptors), str(os.getpid())]
    environ: Mapping[str, str] = {k: v for k, v in os.environ.items() if k not in without}
    return subprocess.Popen(
        words, stdin=subprocess.DEVNULL, pass_fds=tuple(descriptors), env=environ
    )


def _end(child: subprocess.Popen[bytes]) -> None:
    """Kill it: one that was stopped obeys nothing else.

    Not awaited: a second cancellation here would leave the process behind, and a killed one is
    gone within a millisecond or so.
    """
    child.kill()
    try:
        child.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        log.exception("child does not end", pid=child.pid)


def bind_to_parent(parent_pid: int) -> bool:
    """Leave signals to the engine and die with it, in the child; return whether it still lives."""
    # A terminal and a supervisor tell the whole group; the engine decides when we stop.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    return os.getppid() == parent_pid
