"""An event loop in which waiting costs nothing: a simulated hour passes in seconds, from one seed.

Three things differ from a real loop. Time jumps to the next timer. Callbacks that are ready together
run in an order drawn from the seed, so that code which relies on luck is found out. And a loop that
nothing can ever wake, or that burns more real time than it was given, ends with an error that says so.
"""

from __future__ import annotations

import asyncio
import random
import selectors
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike

T = TypeVar("T")

WALL_S: Final = 120.0
GUARD_EVERY: Final = 4096


class Deadlock(RuntimeError):
    """Nothing that is running can ever be woken: no timer, nothing ready."""


class TooLong(RuntimeError):
    """The simulated program spins: real time ran out while virtual time hardly moved."""


class _Jumper(selectors.BaseSelector):
    """Never blocks; adds up how far the loop would have slept."""

    def __init__(self) -> None:
        self._inner = selectors.DefaultSelector()
        self.now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return what is readable now, or jump."""
        ready = self._inner.select(0)
        if ready:
            return ready
        if timeout is None:
            raise Deadlock(f"at {self.now_s:.3f} s of virtual time nothing can ever wake this loop")
        self.now_s += max(0.0, timeout)
        return ready

    def register(
        self, fileobj: FileDescriptorLike, events: int, data: object = None
    ) -> selectors.SelectorKey:
        """Pass on."""
        return self._inner.register(fileobj, events, data)

    def unregister(self, fileobj: FileDescriptorLike) -> selectors.SelectorKey:
        """Pass on."""
        return self._inner.unregister(fileobj)

    def get_map(self) -> Mapping[FileDescriptorLike, selectors.SelectorKey]:
        """Pass on."""
        return self._inner.get_map()

    def close(self) -> None:
        """Pass on."""
        self._inner.close()


class VirtualLoop(asyncio.SelectorEventLoop):
    """Virtual time and a seeded order of callbacks. For `asyncio.Runner(loop_factory=…)`.

    `wall_s`: real seconds after which the run is given up.
    """

    def __init__(self, seed: int = 0, *, wall_s: float = WALL_S) -> None:
        self._jumper = _Jumper()
        self._order = random.Random(seed)
        self._turns = 0
        self._wall_s = wall_s
        self._until_s = time.perf_counter() + wall_s
        super().__init__(self._jumper)

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._jumper.now_s

    def _run_once(self) -> None:
        ready = self._ready  # type: ignore[attr-defined] # there is no public place to stand
        if len(ready) > 1:
            shuffled = list(ready)
            self._order.shuffle(shuffled)
            ready.clear()
            ready.extend(shuffled)
        self._turns += 1
        if self._turns % GUARD_EVERY == 0 and time.perf_counter() > self._until_s:
            raise TooLong(
                f"{self._wall_s:g} s of real time are over at {self.time():.3f} s of virtual time"
            )
        super()._run_once()  # type: ignore[misc]


def run_virtual(
    main: Callable[[], Coroutine[Any, Any, T]], *, seed: int = 0, wall_s: float = WALL_S
) -> T:
    """Run `main()` to its end in virtual time and return its result."""
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(seed, wall_s=wall_s)) as runner:
        return runner.run(main())
