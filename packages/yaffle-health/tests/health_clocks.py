"""Clocks that a test moves by hand: the manager takes its clocks as arguments."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import Any

from yaffle_health import Manager

NOON = dt.datetime(2026, 11, 20, 12, 0, 0, tzinfo=dt.UTC)


@dataclasses.dataclass
class Clocks:
    """`mono` in seconds since the machine started, `wall` in seconds of the epoch."""

    mono: float = 1000.0
    wall: float = NOON.timestamp()

    def pass_by(self, seconds: float) -> None:
        """Let time go by on both clocks."""
        self.mono += seconds
        self.wall += seconds

    def manager(self, **options: Any) -> Manager:
        """A manager that lives by these clocks."""
        options = {"service_id": "s", "description": "d", "host": "h"} | options
        return Manager(clock=lambda: self.mono, wall_clock=lambda: self.wall, **options)
