"""Between one engine and everything else: lets it be killed, frozen and watched at every await."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from yaffle.errors import StoreUnavailable
from yaffle.model.operations import Operation, Target
from yaffle.ports import SupportsPooledReads
from yaffle.testing import ForeseeingProfile, VirtualLoop
from yaffle.testing.loop import PROCESS


class Gate:
    """A dead engine gets no further; a frozen one stands still, all of it, until it is thawed."""

    def __init__(self) -> None:
        self.dead = False
        self.points = 0
        self.on_point: Callable[[str], None] = lambda _name: None
        """Called before and after each write and driver call: `before StepRunner._intend.work`, …"""

    def enter(self) -> None:
        """Make the running task, and whatever it starts, this engine's."""
        PROCESS.set(self)

    @property
    def frozen(self) -> bool:
        return _loop().is_frozen(self)

    def freeze(self) -> None:
        _loop().freeze(self)

    async def rests(self) -> None:
        """Wait until every task of the engine waits for something, as between two system calls.

        Whoever is stopped between checking its lease and the call that it checked it for makes that
        one call when it goes on: no program can help that. Elsewhere it has to check again.
        """
        while _loop().is_busy(self):
            await asyncio.sleep(0)

    def stop_here(self) -> None:
        """To be called at a point: nothing runs on until `go_on`, or `freeze`, or `dead`."""
        self.freeze()

    def go_on(self) -> None:
        self.thaw()

    def thaw(self) -> None:
        _loop().thaw(self)

    async def passing(self, name: str = "") -> None:
        if name:
            self.on_point(name)
            # Whoever was frozen there stands still there, and not at the next await.
            if self.frozen:
                await asyncio.sleep(0)
        if self.dead:
            raise asyncio.CancelledError("this engine was killed")


def _loop() -> VirtualLoop:
    loop = asyncio.get_event_loop()
    assert isinstance(loop, VirtualLoop)
    return loop


class GatedClock:
    """The engine's clock; waking up takes as long as the freeze lasts."""

    def __init__(self, clock: Any, gate: Gate) -> None:
        self._clock, self._gate = clock, gate

    def now_us(self) -> int:
        return int(self._clock.now_us())

    def monotonic_s(self) -> float:
        return float(self._clock.monotonic_s())

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)
        await self._gate.passing()


class StoreWeather:
    """How the database is today; shared by all engines."""

    def __init__(self, rng: Any) -> None:
        self.away = False
        self.loses_answers = 0.0
        """Chance that a write is committed and its caller is told that it may not have been."""
        self._rng = rng

    def before(self) -> None:
        if self.away:
            raise StoreUnavailable("simulated: the database is away")

    def after(self) -> None:
        if self._rng.random() < self.loses_answers:
            raise StoreUnavailable("simulated: no answer, it may still happen")


class GatedStore:
    """The real store, seen by one engine through its gate and the weather."""

    def __init__(
        self, store: Any, gate: Gate, weather: StoreWeather, audit: Callable[[], None]
    ) -> None:
        self._store, self._gate, self._weather, self._audit = store, gate, weather, audit
        self.path = store.path

    async def write(self, work: Any, *, timeout_s: float = 10.0) -> Any:
        name = getattr(work, "__qualname__", "?").replace(".<locals>", "")
        await self._enter(f"before {name}")
        try:
            result = await self._store.write(work, timeout_s=timeout_s)
        finally:
            self._audit()
        await self._leave(f"after {name}")
        self._weather.after()
        return result

    async def read(self, work: Any, *, timeout_s: float = 10.0) -> Any:
        await self._enter("")
        result = await self._store.read(work, timeout_s=timeout_s)
        await self._leave("")
        return result

    async def _enter(self, name: str) -> None:
        await self._gate.passing(name)
        self._weather.before()

    async def _leave(self, name: str) -> None:
        await self._gate.passing(name)


Check = Callable[[str, str, Target], None]
"""Asked at the moment of a call with its kind, operation id and target; raises on a violation."""


class GatedProfile:
    """A profile that is asked nothing by a dead engine, and whose submits are audited."""

    def __init__(self, inner: Any, gate: Gate, check: Check) -> None:
        self._inner, self._gate, self._check = inner, gate, check
        self.type = inner.type
        self.promises = inner.promises
        self.operations = inner.operations
        self.schema = inner.schema

    def validate(self, spec: Mapping[str, object]) -> Mapping[str, object]:
        return dict(self._inner.validate(spec))

    async def read(self, targets: Sequence[Target], *, deadline_s: float) -> Any:
        await self._gate.passing()
        answer = await self._inner.read(targets, deadline_s=deadline_s)
        await self._gate.passing()
        return answer

    async def submit(self, op: Operation, *, operation_id: str, deadline_s: float) -> Any:
        # First: who is stopped inside the call has made it, whatever has become of its lease then.
        self._check(op.kind, operation_id, op.target)
        await self._gate.passing(f"before submit {op.kind}")
        answer = await self._inner.submit(op, operation_id=operation_id, deadline_s=deadline_s)
        await self._gate.passing(f"after submit {op.kind}")
        return answer

    async def poll(self, op: Operation, *, operation_id: str, deadline_s: float) -> Any:
        await self._gate.passing(f"before poll {op.kind}")
        answer = await self._inner.poll(op, operation_id=operation_id, deadline_s=deadline_s)
        await self._gate.passing(f"after poll {op.kind}")
        return answer

    async def capture(self, target: Target, *, deadline_s: float) -> str:
        await self._gate.passing()
        return str(await self._inner.capture(target, deadline_s=deadline_s))


class ForeseeingGatedProfile(GatedProfile):
    """One that is also asked what could be made."""

    async def foresee(self, op: Operation, *, deadline_s: float) -> Any:
        await self._gate.passing("before foresee")
        answer = await self._inner.foresee(op, deadline_s=deadline_s)
        await self._gate.passing("after foresee")
        return answer


class PoolingGatedProfile(GatedProfile):
    """One whose answers are shared."""

    def pool(self, target: Target) -> str:
        return str(self._inner.pool(target))


def gated(profile: Any, gate: Gate, check: Check) -> GatedProfile:
    """Return the profile behind a gate, offering what it offers."""
    kind = ForeseeingGatedProfile if isinstance(profile, ForeseeingProfile) else GatedProfile
    if isinstance(profile, SupportsPooledReads):
        kind = PoolingGatedProfile
    return kind(profile, gate, check)


class GatedFencer:
    def __init__(self, inner: Any, gate: Gate, check: Check) -> None:
        self._inner, self._gate, self._check = inner, gate, check
        self.type = inner.type
        self.promises = inner.promises

    def supports(self, target: Target) -> bool:
        return bool(self._inner.supports(target))

    async def fence(self, target: Target, *, operation_id: str, deadline_s: float) -> Any:
        self._check("FENCE", operation_id, target)
        await self._gate.passing("before fence")
        answer = await self._inner.fence(target, operation_id=operation_id, deadline_s=deadline_s)
        await self._gate.passing("after fence")
        return answer


class GatedNotifier:
    type = "scripted"

    def __init__(self, inner: Any, gate: Gate) -> None:
        self._inner, self._gate = inner, gate

    async def send(self, message: Any, *, deadline_s: float) -> Any:
        await self._gate.passing()
        answer = await self._inner.send(message, deadline_s=deadline_s)
        await self._gate.passing()
        return answer
