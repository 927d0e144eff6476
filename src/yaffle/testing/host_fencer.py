"""A fencer of hosts that switches what a test says, and is away, slow or wrong by plan."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar

from yaffle.model.operations import FenceResult, FenceVerdict, Promise, Proof
from yaffle.testing.faults import Broken, Fault, FaultPlan

if TYPE_CHECKING:
    from yaffle.model.ids import OperationId
    from yaffle.model.operations import Target
    from yaffle.ports import Clock, Fencer, SupportsHostFence


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
            evidence=f"{self.device_of(host)}: read back: off",
            at_us=self._clock.now_us(),
            by="a test",
        )
        return FenceResult(verdict=FenceVerdict.CONFIRMED, detail="off", proof=proof)


if TYPE_CHECKING:
    _conforms: type[Fencer] = ScriptedHostFencer
    _fences_hosts: type[SupportsHostFence] = ScriptedHostFencer
