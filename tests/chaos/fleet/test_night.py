"""Nights at random: engines, nodes, networks and the database fail together, then it is calm and clean.

`make chaos MINUTES=60 SEED=42`: rounds of a minute on one fleet after the other, on each database;
what failed is printed with its seed and the piece of history that breaks a rule.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.chaos.fleet.conftest import DOCUMENT, LEASE_S, own_server
from tests.chaos.fleet.lab import Fleet, fleet
from tests.chaos.fleet.mischief import Mischief
from tests.chaos.fleet.scenario import trouble
from tests.chaos.fleet.space import missing
from tests.chaos.lab import MINUTES, long
from tests.chaos.receiver import receiving
from tests.servers.fixtures import KINDS

ROUND_S = 60.0
ROUNDS_PER_FLEET = 5
HEALED_S = 90.0
PACES = ((0.3, 1.5), (1.0, 4.0), (4.0, 14.0))


@long
@pytest.mark.timeout(int(MINUTES * 60) + 2000)
@pytest.mark.parametrize("kind", KINDS)
def test_whatever_fails(kind: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def say(line: str) -> None:
        with capfd.disabled():
            print(line, flush=True)

    seed = int(os.environ.get("YAFFLE_CHAOS_SEED") or 0) or random.SystemRandom().randrange(10**6)
    until_s = time.monotonic() + MINUTES * 60
    number = 0
    while number == 0 or time.monotonic() < until_s:
        rng = random.Random(f"{seed}/{number}")
        label = f"{kind}, YAFFLE_CHAOS_SEED={seed}, fleet {number}"
        one_fleet(kind, tmp_path / str(number), rng, label, until_s, say)
        number += 1


def one_fleet(
    kind: str,
    root: Path,
    rng: random.Random,
    label: str,
    until_s: float,
    say: Callable[[str], None],
) -> None:
    """One server and one fleet for some rounds."""
    root.mkdir()
    server = own_server(kind)
    try:
        server.start()
        with (
            receiving("0.0.0.0", refuses=0.2) as receiver,
            fleet(
                root, server, receiver,
                engines=rng.choice([2, 3]),
                lease=LEASE_S,
                clusters={"k": 3, "l": 2, "m": 2},
                document=DOCUMENT,
                spaces=not missing(),
            ) as made,
        ):  # fmt: skip
            for turn in range(ROUNDS_PER_FLEET):
                say(one_round(made, random.Random(f"{label}/{turn}"), f"{label}, round {turn}"))
                if time.monotonic() >= until_s:
                    return
    finally:
        server.remove()


def one_round(made: Fleet, rng: random.Random, label: str) -> str:
    """A stretch of mischief, calm, judgement; return a line of it."""
    began_s = time.monotonic()
    pace_s = rng.choice(PACES)
    try:
        with trouble(made, DOCUMENT, healed_s=HEALED_S) as here:
            hand = Mischief(here, rng, pace_s)
            hand.act(ROUND_S)
            hand.calm()
    except AssertionError as error:
        raise AssertionError(f"{label}\n{error}") from error
    done = len(here.deeds)
    return f"{label}: clean, {done} deeds, {time.monotonic() - began_s:.0f} s"
