"""What was asked before we were blind is no fresh look, however late its answer comes."""

from __future__ import annotations

from typing import Any

from tests.sim.stage import Stage
from tests.sim.test_watch_assignment import play

STATUS = [{"type": "NODE_STATUS_POLLING"}]


class Slow:
    """A detector whose question, once told so, waits for its answer until it may come."""

    def __init__(self, inside: Any, s: Stage) -> None:
        self._inside, self._s = inside, s
        self.held = self.asked = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inside, name)

    async def check(self, targets: Any, mode: Any, *, deadline_s: float) -> Any:
        found = await self._inside.check(targets, mode, deadline_s=deadline_s)
        while self.held:
            self.asked = True
            await self._s.clock.sleep(0.05)
        return found


def test_an_answer_to_what_was_asked_before_is_dropped() -> None:
    async def story(s: Stage) -> None:
        (life,) = s.living
        detectors: Any = life.ctx.drivers.detectors
        slow = detectors["NODE_STATUS_POLLING"] = Slow(detectors["NODE_STATUS_POLLING"], s)
        (ident,) = s.node_ids()
        (watch,) = life.engine.watches.values()
        s.world.kill(ident)
        slow.held = True
        while not slow.asked:
            await s.clock.sleep(0.01)
        watch.blind("a test")
        slow.held = False
        await s.clock.sleep(0.2)
        assert not watch.memories[ident].settled, "it was asked before"
        await s.until(lambda: settled(watch, ident), 15, "asked afresh, it is believed")

    async def settled(watch: Any, ident: Any) -> bool:
        return bool(watch.memories[ident].settled)

    play(story, engines=1, clusters=1, size=1, detection_modes=STATUS, fall=1, interval=5)
