"""What lies between one engine and the rest: its road to the nodes, to the database, its own clock.

Engines share the world and the database, but each sees them through its own network and reads its
own clock; so one can be cut off, lied to or set wrong while the others are not.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import Context
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.sim.gates import Gate

from yaffle.errors import StoreUnavailable
from yaffle.testing import FaultPlan, VirtualClock, World
from yaffle.testing.faults import Rule

if TYPE_CHECKING:
    from tests.sim.fleet.fleet import Fleet, Life

    from yaffle.model.operations import Target


class View:
    """The world as one engine sees it; its network may be cut."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.partitioned = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._world, name)


class OwnPlan(FaultPlan):
    """The faults of one engine's own network, and then those that all of them meet."""

    def __init__(self, clock: VirtualClock, shared: FaultPlan) -> None:
        super().__init__(clock, rng=random.Random(0))
        self._shared = shared

    def strike(self, call: str, target: Target | None = None) -> Rule | None:
        return super().strike(call, target) or self._shared.strike(call, target)


class OwnClock:
    """The engine's clock: as everybody's but for what it is wrong by."""

    def __init__(self, clock: VirtualClock, gate: Gate) -> None:
        self._clock, self._gate = clock, gate
        self.wrong_s = 0.0

    def now_us(self) -> int:
        return self._clock.now_us() + int(self.wrong_s * 1e6)

    def monotonic_s(self) -> float:
        return self._clock.monotonic_s()

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)
        await self._gate.passing()


@dataclass(slots=True)
class Line:
    """How the database is today, or the way to it."""

    away: bool = False
    stall_s: float = 0.0
    """How long it takes to answer, at most."""
    answers_late_s: float = 0.0
    """How long the answer to a commit takes, at most."""
    loses_answers: float = 0.0
    """Chance that a write is committed and its caller is not told."""


@dataclass(slots=True, eq=False)
class OwnStore:
    """The store as one engine reaches it."""

    fleet: Fleet
    life: Life | None
    inner: Any
    gate: Gate
    line: Line = field(default_factory=Line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    async def write(self, work: Any, *, timeout_s: float = 10.0) -> Any:
        name = getattr(work, "__qualname__", "?").replace(".<locals>", "")
        asked_s = self.fleet.now_s
        await self.gate.passing(f"before {name}")
        with self._overheard():
            await self._reach(work, timeout_s, asked_s)
            result = await self.inner.write(self._judged(work, asked_s), timeout_s=timeout_s)
            if self.life is not None:
                self.life.wrote_s = self.fleet.now_s
            if self._chance(max(line.loses_answers for line in self._lines)):
                raise StoreUnavailable("simulated: no answer, it may still happen")
        await self._slowly()
        await self.gate.passing(f"after {name}")
        return result

    async def read(self, work: Any, *, timeout_s: float = 10.0) -> Any:
        await self.gate.passing()
        with self._overheard():
            await self._reach(None, timeout_s, self.fleet.now_s)
            result = await self.inner.read(work, timeout_s=timeout_s)
        await self.gate.passing()
        return result

    @property
    def _lines(self) -> Sequence[Line]:
        return (self.fleet.line, self.line)

    def _chance(self, share: float) -> bool:
        return share > 0 and self.fleet.rng.random() < share

    def _judged(self, work: Any, asked_s: float, *, late: bool = False) -> Any:
        """Return the work, and the referee's look at what it did, in one transaction."""

        def judged(conn: Any) -> Any:
            self.fleet.base.changes.clear()
            result = work(conn)
            self.fleet.referee.written(self.life, asked_s, late=late)
            return result

        return judged

    @contextmanager
    def _overheard(self) -> Iterator[None]:
        """Remember which watch was told that the database is away: it has to look afresh."""
        try:
            yield
        except StoreUnavailable:
            task = asyncio.current_task()
            name = task.get_name() if task is not None else ""
            if self.life is not None and name.startswith("watch "):
                self.life.lost_s[name.removeprefix("watch ")] = self.fleet.now_s
                self.life.upset_s = self.fleet.now_s
            raise

    async def _slowly(self) -> None:
        """Let the answer to what was committed take its time."""
        longest_s = max(line.answers_late_s for line in self._lines)
        if longest_s:
            await asyncio.sleep(self.fleet.rng.uniform(0, longest_s))

    async def _reach(self, work: Any, timeout_s: float, asked_s: float) -> None:
        if any(line.away for line in self._lines):
            raise StoreUnavailable("simulated: the database is away")
        longest_s = max(line.stall_s for line in self._lines)
        if not longest_s:
            return
        stall_s = self.fleet.rng.uniform(0, longest_s)
        await asyncio.sleep(min(stall_s, timeout_s))
        if stall_s < timeout_s:
            return
        if work is not None and self._chance(0.5):
            late = self._late(work, stall_s - timeout_s, asked_s)
            # The database does it whatever becomes of this process.
            self.fleet.group.create_task(late, name="a late commit", context=Context())
        raise StoreUnavailable("simulated: no answer in time, it may still happen")

    async def _late(self, work: Any, delay_s: float, asked_s: float) -> None:
        await asyncio.sleep(delay_s)
        try:
            await self.inner.write(self._judged(work, asked_s, late=True))
        except Exception as error:  # noqa: BLE001 - nobody is there to be told
            self.fleet.note(f"a late commit came to nothing: {error}"[:100])
