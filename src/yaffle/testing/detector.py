"""A detector that asks the nodes of a `World` as a URL check would, and misbehaves by plan."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from yaffle.core.health.check_codes import OUTCOMES, judge
from yaffle.model.health import Observation
from yaffle.testing.faults import Broken, Fault, FaultPlan

if TYPE_CHECKING:
    from yaffle.model.operations import Target
    from yaffle.model.policy import DetectionMode
    from yaffle.ports import Detector
    from yaffle.testing.world import World

ANSWER_S = 0.01


class ScriptedDetector:
    """Passes where a copy serves; refused where nothing runs; silence where it hangs."""

    type: ClassVar[str] = "NODE_STATUS_POLL_URL"

    def __init__(self, world: World, plan: FaultPlan | None = None) -> None:
        self.world = world
        self.plan = plan or FaultPlan(world.clock)

    async def check(
        self, targets: Sequence[Target], mode: DetectionMode, *, deadline_s: float
    ) -> Sequence[Observation]:
        """Return one observation per target, in order; all are asked at once."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._one(t, mode, deadline_s)) for t in targets]
        return [task.result() for task in tasks]

    async def _one(self, target: Target, mode: DetectionMode, deadline_s: float) -> Observation:
        began_s = self.world.clock.monotonic_s()
        code = await self._ask(target, deadline_s)
        took_s = self.world.clock.monotonic_s() - began_s
        return Observation(
            node_id=target.node_id,
            mode=mode.key,
            outcome=judge(code),
            code=code,
            detail=OUTCOMES[code].sentence,
            at_us=self.world.clock.now_us(),
            took_us=int(took_s * 1e6),
            answered=OUTCOMES[code].answered,
        )

    async def _ask(self, target: Target, deadline_s: float) -> str:
        rule = self.plan.strike("check", target)
        fault = rule.fault if rule is not None else None
        silence_s = deadline_s * 0.9
        match fault:
            case Fault.STUCK:
                await asyncio.sleep(1e9)
            case Fault.HANG | Fault.LOSE | Fault.LATE:
                await asyncio.sleep(silence_s)
                return "X-DEADLINE"
            case Fault.RAISE:
                raise Broken("a detector's bug")
            case Fault.ERROR:
                return "X-LOCAL"
            case _:
                pass
        if self.world.partitioned:
            await asyncio.sleep(silence_s)
            return "L4-TIMEOUT"
        await asyncio.sleep(min(ANSWER_S, silence_s))
        serving = self.world.serving(target.node_id)
        if fault in {Fault.LIE, Fault.FAIL, Fault.HALF}:
            return "L7-STATUS" if serving or fault is not Fault.LIE else "L7-OK"
        if serving:
            return "L7-OK"
        if not self.world.alive(target.node_id):
            return "L4-REFUSED"
        await asyncio.sleep(max(0.0, silence_s - ANSWER_S))
        return "L7-TIMEOUT"


if TYPE_CHECKING:
    _conforms: type[Detector] = ScriptedDetector
