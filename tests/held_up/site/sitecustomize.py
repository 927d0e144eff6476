"""Holds up this process at random, where a scheduler might: a turn of its loop, a thread, a wait.

Python imports it by its name into every process that has this folder on its path, so into what tests
start as well (`tests/held_up/run.py`). What is to be slowed is patched when somebody else imports it, for
some tests are about what is not imported.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

SHARE = float(os.environ.get("HELD_UP_SHARE") or 0)
"""Of all turns, how many are held up."""
SHORT_S, LONG_S = (0.005, 0.12), (0.3, 1.5)
LONG = 0.04
"""Of what is held up, how much is for long."""
BUDGET, SPAN_S = 0.35, 5.0
"""Of its time, how much a process may lose; the account begins anew after each span."""


class Account:
    """What this process has lost lately: one of many turns must get on all the same."""

    def __init__(self) -> None:
        self._rng = random.Random(f"{os.environ.get('HELD_UP_SEED')} {os.getpid()}")
        self._sleep = time.sleep
        self._since_s, self._lost_s = time.monotonic(), 0.0

    def hold_up(self, share: float) -> None:
        """Sleep now and then."""
        now_s = time.monotonic()
        if now_s - self._since_s > SPAN_S:
            self._since_s, self._lost_s = now_s, 0.0
        if self._rng.random() >= share:
            return
        if self._lost_s > BUDGET * (now_s - self._since_s) + SHORT_S[1]:
            return
        span_s = self._rng.uniform(*(LONG_S if self._rng.random() < LONG else SHORT_S))
        self._lost_s += span_s
        self._sleep(span_s)


def held_up(work: Callable[..., Any], account: Account, share: float) -> Callable[..., Any]:
    """Return `work` behind what may be a pause."""

    def later(*words: Any, **named: Any) -> Any:
        account.hold_up(share)
        return work(*words, **named)

    return later


class Patches:
    """Slows modules as they are imported."""

    def __init__(self, account: Account) -> None:
        self._account = account

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See `importlib.abc.MetaPathFinder`."""
        slow = {"asyncio.base_events": self._loop, "threading": self._threads}.get(name)
        spec = PathFinder.find_spec(name, path, target) if slow is not None else None
        if slow is None or spec is None or spec.loader is None:
            return None
        load = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            load(module)
            slow(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec

    def _loop(self, module: Any) -> None:
        loop = module.BaseEventLoop
        loop._run_once = held_up(loop._run_once, self._account, SHARE)

    def _threads(self, module: Any) -> None:
        module.Thread.run = held_up(module.Thread.run, self._account, min(1.0, 10 * SHARE))
        module.Condition.wait = held_up(module.Condition.wait, self._account, SHARE)


if SHARE:
    patches = Patches(Account())
    sys.meta_path.insert(0, patches)
    if "threading" in sys.modules:
        patches._threads(sys.modules["threading"])
