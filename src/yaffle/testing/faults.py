"""Faults as data, what goes wrong and when: scripted drivers ask the plan before each call.

FaultPlan(clock, [Rule(fault=Fault.LOSE, call="submit:CREATE", node="web-1", times=1)])
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from yaffle.model.operations import Target
    from yaffle.ports import Clock


class Fault(StrEnum):
    """Ways in which a backend, or the way to it, misbehaves."""

    HANG = "hang"
    """Nothing is done and no answer comes; the driver gives up at its deadline."""
    STUCK = "stuck"
    """As HANG, and the driver does not even keep its deadline: a bug that the engine must survive."""
    LATE = "late"
    """The request arrives `delay_s` later and is carried out then; the caller has no answer by then."""
    LOSE = "lose"
    """The work is done, the answer is lost."""
    FAIL = "fail"
    """An honest "no": FAILED, refused, unknown or RETRY, whatever the port has for it."""
    HALF = "half"
    """Half of it is done, then FAILED."""
    LIE = "lie"
    """Says the opposite of the truth, as far as the port can say it without false proof."""
    RAISE = "raise"
    """An exception that no driver should let out."""
    ERROR = "error"
    """The connection is refused: OSError, before anything was done."""


class Broken(Exception):
    """Error that RAISE raises."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One fault and when it strikes: everything that is set has to match."""

    fault: Fault
    call: str = "*"
    """Pattern of the call's name: `submit:CREATE`, `poll:*`, `read`, `fence`, `check`, `send`."""
    node: str = "*"
    """Pattern of the node's name."""
    skip: int = 0
    """Matching calls that are let through first."""
    times: float = inf
    """Matching calls that are struck after that."""
    from_s: float = -inf
    until_s: float = inf
    """Monotonic seconds between which it strikes."""
    chance: float = 1.0
    delay_s: float = 30.0
    """For LATE."""


class FaultPlan:
    """The rules in order; the first that matches strikes. `rules` may be changed at any time.

    Equal rules share one count.
    """

    def __init__(
        self, clock: Clock, rules: Iterable[Rule] = (), rng: random.Random | None = None
    ) -> None:
        self.rules = list(rules)
        self._clock = clock
        self._rng = rng or random.Random(0)
        self._met: dict[Rule, int] = {}
        self._calls: list[tuple[float, str, str]] = []

    @property
    def calls(self) -> tuple[tuple[float, str, str], ...]:
        """Every call that asked so far: when, what, on which node."""
        return tuple(self._calls)

    def strike(self, call: str, target: Target | None = None) -> Rule | None:
        """Return the rule that strikes this call, or None; counts the call."""
        now_s = self._clock.monotonic_s()
        node = target.name if target is not None else ""
        self._calls.append((now_s, call, node))
        return next((r for r in self.rules if self._strikes(r, call, node, now_s)), None)

    def _strikes(self, rule: Rule, call: str, node: str, now_s: float) -> bool:
        if not (rule.from_s <= now_s < rule.until_s):
            return False
        if not (fnmatchcase(call, rule.call) and fnmatchcase(node, rule.node)):
            return False
        met = self._met.get(rule, 0)
        self._met[rule] = met + 1
        return rule.skip <= met < rule.skip + rule.times and self._rng.random() < rule.chance
