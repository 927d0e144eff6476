"""An event loop in which waiting costs nothing: a simulated hour passes in seconds, from one seed.

Four things differ from a real loop. Time jumps to the next timer. Callbacks that are ready together
run in an order drawn from the seed, so that code which relies on luck is found out. A loop that
nothing can ever wake, or that burns more real time than it was given, ends with an error that says
so. And it holds several simulated processes (`PROCESS`), each of which can be stopped and continued.
"""

# ruff: noqa: SLF001
# asyncio has no public place in which to stand between its timers and what they call.

from __future__ import annotations

import asyncio
import heapq
import random
import selectors
import time
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import Any, Final, TypeVar

T = TypeVar("T")

CPU_S: Final = 120.0
GUARD_EVERY: Final = 4096
PROCESS: Final[ContextVar[object]] = ContextVar("process", default=None)
"""Which simulated process a task belongs to; tasks that it starts belong to it as well."""


class Deadlock(RuntimeError):
    """Raised where nothing that is running can ever be woken: no timer, nothing ready."""


class TooLong(RuntimeError):
    """The simulated program spins: its CPU time ran out while virtual time hardly moved."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """Virtual time, a seeded order of callbacks, and processes that can be frozen.

    `cpu_s`: seconds of CPU after which the run is given up, however busy the machine is. For
    `asyncio.Runner(loop_factory=…)`.
    """

    def __init__(self, seed: int = 0, *, cpu_s: float = CPU_S) -> None:
        self._now_s = 0.0
        self._order = random.Random(seed)
        self._turns = 0
        self._cpu_s = cpu_s
        self._until_s = time.process_time() + cpu_s
        self._frozen: dict[object, list[asyncio.Handle]] = {}
        super().__init__(selectors.DefaultSelector())

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._now_s

    # --- processes -----------------------------------------------------------------------------

    def freeze(self, process: object) -> None:
        """Let nothing run whose context has `PROCESS` set to this, as SIGSTOP does; idempotent."""
        self._frozen.setdefault(process, [])

    def thaw(self, process: object) -> None:
        """Go on: whatever fell due meanwhile is due now, all at once and in its order; idempotent."""
        self._ready.extend(self._frozen.pop(process, ()))  # type: ignore[attr-defined]

    def is_frozen(self, process: object) -> bool:
        """Whether it stands still."""
        return process in self._frozen

    def is_busy(self, process: object) -> bool:
        """Whether something of it could run now."""
        ready = self._ready  # type: ignore[attr-defined]
        return any(h._context.get(PROCESS) is process for h in ready if not h.cancelled())

    # --- turns ---------------------------------------------------------------------------------

    def _run_once(self) -> None:
        """One turn: asyncio's own, but that it never waits, and where it says so below."""
        ready = self._ready  # type: ignore[attr-defined]
        if len(ready) > 1:
            shuffled = list(ready)
            self._order.shuffle(shuffled)
            ready.clear()
            ready.extend(shuffled)
        self._guard()
        self._forget_cancelled()
        if not ready:
            self._jump()
        self._take_due()
        batch = list(ready)
        ready.clear()
        if self._frozen:
            batch = [h for h in batch if not self._keeps(h)]
        for handle in batch:
            if not handle.cancelled():
                handle._run()

    def _guard(self) -> None:
        self._turns += 1
        if self._turns % GUARD_EVERY == 0 and time.process_time() > self._until_s:
            raise TooLong(
                f"{self._cpu_s:g} s of CPU time are over at {self.time():.3f} s of virtual time"
            )

    def _forget_cancelled(self) -> None:
        timers = self._scheduled  # type: ignore[attr-defined]
        if self._timer_cancelled_count > max(100, len(timers) // 2):  # type: ignore[has-type]
            for handle in timers:
                handle._scheduled = not handle.cancelled()
            timers[:] = [h for h in timers if h._scheduled]
            heapq.heapify(timers)
            self._timer_cancelled_count = 0
        while timers and timers[0].cancelled():
            self._timer_cancelled_count -= 1
            heapq.heappop(timers)._scheduled = False

    def _jump(self) -> None:
        """Nothing is ready: see what is readable; else it is the time of the next timer."""
        events = self._selector.select(0)  # type: ignore[attr-defined]
        timers = self._scheduled  # type: ignore[attr-defined]
        if events:
            self._process_events(events)  # type: ignore[attr-defined]
        elif timers:
            self._now_s = max(self._now_s, timers[0].when())
        elif not self._stopping:  # type: ignore[attr-defined]
            raise Deadlock(
                f"at {self.time():.3f} s of virtual time nothing can ever wake this loop"
            )

    def _take_due(self) -> None:
        timers = self._scheduled  # type: ignore[attr-defined]
        end_s = self._now_s + self._clock_resolution  # type: ignore[attr-defined]
        while timers and timers[0].when() < end_s:
            handle = heapq.heappop(timers)
            handle._scheduled = False
            self._ready.append(handle)  # type: ignore[attr-defined]

    def _keeps(self, handle: asyncio.Handle) -> bool:
        """Whether the callback is a frozen process's; it is kept for it then."""
        kept = self._frozen.get(handle._context.get(PROCESS))  # type: ignore[attr-defined]
        if kept is None:
            return False
        kept.append(handle)
        return True


def run_virtual(
    main: Callable[[], Coroutine[Any, Any, T]], *, seed: int = 0, cpu_s: float = CPU_S
) -> T:
    """Run `main()` to its end in virtual time and return its result."""
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(seed, cpu_s=cpu_s)) as runner:
        return runner.run(main())
