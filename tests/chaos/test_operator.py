"""A random operator against a live installation, then calm: everything healed, the history clean.

`YAFFLE_CHAOS_MINUTES` lengthens it, `YAFFLE_CHAOS_SEED` repeats one; `make chaos MINUTES=60`.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest
from tests.chaos.history import History
from tests.chaos.lab import MINUTES, TOLD_S, Lab, close, lab, policy
from tests.chaos.operator import Operator
from tests.chaos.receiver import Receiver

SHORT_S = 12.0
ROUND_S = 60.0
NUMBERS = {"in_flight": 2, "attempts": 6, "fall": 2, "interval": 1}
BUDGET = {"max_in_flight": 3, "burst": 8, "per_hour": 1800}
HEAL_S = 180.0
"""Detect, fence and every rung run into its timeout, plus the longest rest: `Arithmetic.total_s`
says 50 s for this policy, and a busy machine takes a multiple of that."""


@pytest.mark.slow
@pytest.mark.timeout(int(MINUTES * 60 + HEAL_S + TOLD_S) + 300)
def test_whatever_the_operator_does(tmp_path: Path, receiver: Receiver) -> None:
    seed = int(os.environ.get("YAFFLE_CHAOS_SEED") or 0) or random.SystemRandom().randrange(10**6)
    print(f"YAFFLE_CHAOS_SEED={seed}")  # pytest shows it when the test fails
    until_s = time.monotonic() + MINUTES * 60
    number = 0
    while number == 0 or time.monotonic() < until_s:
        one_round(tmp_path / str(number), random.Random(f"{seed}/{number}"), receiver, seed)
        number += 1


def one_round(root: Path, rng: random.Random, receiver: Receiver, seed: int) -> None:
    """A new installation, a stretch of chaos, calm, judgement."""
    for kept in (receiver.accepted, receiver.arrived_us, receiver.news):
        kept.clear()
    receiver.broken, receiver.refuses = False, 0.2
    settings = {
        "lease": 2.0,
        "notifiers": {"hook": receiver.settings},
        "budgets": dict.fromkeys(("total", "project", "domain", "host", "cluster"), BUDGET),
    }
    with lab(root, **settings) as here:
        here.start()
        here.profile()
        here.call("create_policy", "hp", policy(**NUMBERS), by="test")
        here.cluster("c", 3, policy_name="hp")
        here.wait(here.healthy, 20, "healthy")
        someone = Operator(
            here=here,
            receiver=receiver,
            rng=rng,
            documents=dict(NUMBERS),
            long_freezes=MINUTES > 0,
            clusters={"c"},
        )
        someone.act(ROUND_S if MINUTES else SHORT_S)
        someone.calm()
        try:
            before = still(here)
            history = History(
                here=here,
                deeds=someone.deeds,
                receiver=receiver,
                max_in_flight=2,
                total_in_flight=BUDGET["max_in_flight"],
                burst=BUDGET["burst"],
                per_hour=BUDGET["per_hour"],
                fall=2,
                interval_s=1.0,
                attempts=6,
            )
            assert history.faults() == []
            assert before < 60, f"{before} descriptors are open in the engine"
            here.thaw()
            close(here)
        except AssertionError as error:
            lines = [f"{d.at_us} {d.what} {d.whom}" for d in someone.deeds]
            raise AssertionError(
                f"{error}\nseed {seed}, what was done:\n" + "\n".join(lines)
            ) from error


def still(here: Lab) -> int:
    """Freeze the engine once everything is healed and told; return its open descriptors.

    While it runs, a node that is held up for a moment begins a story that would be judged half-told.
    """
    while True:
        here.wait(here.healthy, HEAL_S, "everything is healed once it is calm")
        here.wait(lambda: all_told(here), TOLD_S, "everything is told and over")
        descriptors: int = here.call("descriptors")
        here.freeze()
        if here.healthy() and all_told(here) and all(map(here.diaries.running, here.nodes())):
            return descriptors
        here.thaw()


def all_told(here: Lab) -> bool:
    return not (
        here.rows("select 1 from outbox where state = 'pending'")
        or here.rows("select 1 from incidents where open_key is not null")
    )
