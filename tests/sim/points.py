"""The points at which an engine may be killed: before and after each write and each call of a driver."""

from __future__ import annotations

import asyncio
import os

import pytest
from tests.sim.stage import Life

THOROUGH = int(os.environ.get("YAFFLE_SIM_RUNS") or 0) >= 100
EVERY = {True: 1 if THOROUGH else 11, False: 1 if THOROUGH else 23}
"""Of so many points one is tried: all in `make sim`, a spread of them in every test run."""
TWO_ENGINES = pytest.mark.parametrize("alone", [True, False], ids=["restart", "takeover"])
ASIDE = ("Session.", "Engine.", "OutboxDispatcher.", "Housekeeper.")
"""Writers that have no part in a recovery."""


class Points:
    """Counts the points that one engine passes, and kills it at one of them."""

    def __init__(self, life: Life, fatal: int | None) -> None:
        self.names: list[str] = []
        self.reached = asyncio.Event()
        self._life, self._fatal = life, fatal
        life.gate.on_point = self._point

    def _point(self, name: str) -> None:
        if self._life.gate.dead or name.split(" ", 1)[-1].startswith(ASIDE):
            return
        self.names.append(name)
        if len(self.names) - 1 == self._fatal:
            self._life.gate.dead = True
            self.reached.set()
