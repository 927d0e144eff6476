"""A fencer over a `World`: proves, refuses, hangs or doubts by plan, and never proves falsely."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar

from yaffle.model.operations import FenceResult, FenceVerdict, Hindrance, Promise, Proof
from yaffle.testing.faults import Broken, Fault, FaultPlan
from yaffle.testing.world import Fate, Job

if TYPE_CHECKING:
    from yaffle.model.ids import OperationId
    from yaffle.model.operations import Target
    from yaffle.ports import Clock, Fencer, SupportsHostFence
    from yaffle.testing.world import World

KILL_S = 0.5


class ScriptedFencer:
    """Kills every copy of the node and reads back that none runs."""

    type: ClassVar[str] = "COMPUTE"
    promises: ClassVar[frozenset[Promise]] = frozenset({Promise.CONFIRMS_POWER})

    def __init__(
        self, world: World, plan: FaultPlan | None = None, *, profile_type: str = ""
    ) -> None:
        self.world = world
        self.plan = plan or FaultPlan(world.clock)
        self._profile_type = profile_type

    def supports(self, target: Target) -> bool:
        """Whether the node is of the one profile, or of any where none was named."""
        return self._profile_type in {"", target.profile_type}

    async def fence(
        self, target: Target, *, operation_id: OperationId, deadline_s: float
    ) -> FenceResult:
        """Kill and prove."""
        rule = self.plan.strike("fence", target)
        fault = rule.fault if rule is not None else None
        if fault is None and self.world.partitioned:
            fault = Fault.HANG
        match fault:
            case Fault.STUCK:
                await asyncio.sleep(1e9)
            case Fault.HANG:
                await asyncio.sleep(deadline_s * 0.9)
                return _unasked("the controller does not answer")
            case Fault.FAIL:
                return FenceResult(verdict=FenceVerdict.REFUSED, detail="not allowed")
            case Fault.RAISE:
                raise Broken("a fencer's bug")
            case Fault.ERROR:
                return _unasked("the controller refuses connections")
            case _:
                pass
        late_s = rule.delay_s if rule is not None and fault is Fault.LATE else 0.0
        self._kill(target, operation_id, late_s)
        await asyncio.sleep(min(KILL_S + 0.01, deadline_s * 0.9))
        if fault in {Fault.LOSE, Fault.LATE, Fault.LIE, Fault.HALF}:
            return _unknown("the controller's answer makes no sense")
        return self._read_back(target)

    def _kill(self, target: Target, operation_id: OperationId, late_s: float) -> None:
        now_s = self.world.clock.monotonic_s()
        self.world.add(
            Job(
                operation_id=operation_id,
                kind="KILL",
                node_id=target.node_id,
                physical_id=target.physical_id,
                arrives_s=now_s + late_s,
                due_s=now_s + late_s + KILL_S,
                fate=Fate.DONE,
                refuse_known=True,
            )
        )

    def _read_back(self, target: Target) -> FenceResult:
        running = self.world.alive(target.node_id)
        if running:
            return _unknown(f"copy {running[0].physical_id} still runs")
        proof = Proof(
            method="scripted-power-off",
            evidence="read back: off",
            at_us=self.world.clock.now_us(),
            by="scripted",
        )
        return FenceResult(verdict=FenceVerdict.CONFIRMED, detail="off", proof=proof)


def _unknown(detail: str) -> FenceResult:
    return FenceResult(verdict=FenceVerdict.UNKNOWN, detail=detail)


def _unasked(detail: str) -> FenceResult:
    return FenceResult(verdict=FenceVerdict.UNKNOWN, detail=detail, hindrance=Hindrance.UNASKED)


class ScriptedHostFencer:
    """A rack of switches: `devices` maps each host to the device that switches it."""

    type: ClassVar[str] = "HOST"
    promises: ClassVar[frozenset[Promise]] = frozenset({Promise.CONFIRMS_POWER})

    def __init__(self, clock: Clock, plan: FaultPlan | None = None) -> None:
        self.plan = plan or FaultPlan(clock)
        self.devices: dict[str, str] = {}
        self.asked: list[str] = []
        """The hosts that were to be switched off, in order."""
        self._clock = clock

    def supports(self, target: Target) -> bool:
        """Whether it fences nodes: it does not."""
        return False

    async def fence(
        self, target: Target, *, operation_id: OperationId, deadline_s: float
    ) -> FenceResult:
        """Refuse: it knows hosts alone."""
        return FenceResult(verdict=FenceVerdict.REFUSED, detail="it fences hosts alone")

    def device_of(self, host: str) -> str:
        """Return the device of a host."""
        if self.plan.strike("device_of") is not None:
            raise Broken("a fencer's bug")
        return self.devices.get(host, "")

    async def fence_host(self, host: str, *, deadline_s: float) -> FenceResult:
        """Switch off and prove, unless the plan says otherwise."""
        self.asked.append(host)
        rule = self.plan.strike("fence_host")
        match rule.fault if rule is not None else None:
            case Fault.STUCK:
                await asyncio.sleep(1e9)
            case Fault.HANG:
                await asyncio.sleep(deadline_s * 0.9)
                return FenceResult(verdict=FenceVerdict.UNKNOWN, detail="no answer")
            case Fault.ERROR:
                return FenceResult(verdict=FenceVerdict.UNKNOWN, detail="connection refused")
            case Fault.FAIL:
                return FenceResult(verdict=FenceVerdict.REFUSED, detail="not allowed")
            case Fault.RAISE:
                raise Broken("a fencer's bug")
            case Fault.LIE:
                return FenceResult(verdict=FenceVerdict.CONFIRMED, detail="done")
            case _:
                await asyncio.sleep(rule.delay_s if rule is not None else 0.5)
        proof = Proof(
            method="scripted",
            evidence=f"{self.devices.get(host)}: read back: off",
            at_us=self._clock.now_us(),
            by="a test",
        )
        return FenceResult(verdict=FenceVerdict.CONFIRMED, detail="off", proof=proof)


if TYPE_CHECKING:
    _conforms: type[Fencer] = ScriptedFencer
    _conforms_too: type[Fencer] = ScriptedHostFencer
    _fences_hosts: type[SupportsHostFence] = ScriptedHostFencer
