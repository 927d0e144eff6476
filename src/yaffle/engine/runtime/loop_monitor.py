"""The loop monitor: a late event loop or a jumped clock means that we were blind meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import structlog

if TYPE_CHECKING:
    from yaffle.engine.runtime.context import EngineContext

log = structlog.get_logger()

PACE_S: Final = 0.25


class LoopMonitor:
    """Compares what should have passed with what has."""

    def __init__(self, ctx: EngineContext, blind: Callable[[str], None]) -> None:
        self._ctx = ctx
        self._blind = blind

    async def run(self) -> None:
        """Check for as long as the session lasts."""
        clock, settings = self._ctx.clock, self._ctx.settings
        mono_s, wall_us = clock.monotonic_s(), clock.now_us()
        while True:
            await clock.sleep(PACE_S)
            now_s, now_us = clock.monotonic_s(), clock.now_us()
            elapsed_s = now_s - mono_s
            drift_s = (now_us - wall_us) / 1e6 - elapsed_s
            mono_s, wall_us = now_s, now_us
            if abs(drift_s) > settings.clock_jump:
                log.warning("clock jumped", by_s=round(drift_s, 3))
                self._tell("clock_jump")
            elif elapsed_s - PACE_S > settings.late:
                log.warning("loop late", by_s=round(elapsed_s - PACE_S, 3))
                self._tell("late_loop")

    def _tell(self, cause: str) -> None:
        self._ctx.metrics.blind.labels(cause).inc()
        self._blind(cause.replace("_", " "))
