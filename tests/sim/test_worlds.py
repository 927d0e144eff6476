"""Worlds of one to three engines on one database, from seeds: whatever happens no rule is broken.

`make sim N=10000` plays more of them; a world that fails prints its story and how to play it again.
A mix is a few kinds of trouble at a time: the planted bugs of tests/planted/engine/w*.patch name the
mix that has to catch each of them, within `CATCHES` worlds of each of its shapes. A run of all tests
plays fewer, for the sake of its time.
"""

from __future__ import annotations

import os

import pytest
from tests.sim.fleet.worlds import play

CATCHES = 8
PER_MIX = int(os.environ.get("YAFFLE_SIM_WORLDS") or 0)
USUAL = {"hands": 4, "cuts": 4}
"""Where nobody says how many worlds: what shows most planted bugs in little time; 3 of any other mix."""
MIXED = {
    "freezes": (8, 15, 17),
    "hands": (24, 27, 28),
    "kills": (8, 15, 17, 28),
    "cuts": (8, 15, 17, 26, 27),
    "databases": (8, 15, 17, 27),
    "forgets": (8, 15),
    "fences": (15, 18, 26),
    "halts": (24,),
    "relapses": (15,),
    "purses": (28,),
    "operators": (8, 7),
    "news": (15,),
    "storms": (5, 9, 17),
}
"""Shapes whose policies let a mix show what it can do."""


@pytest.mark.parametrize(("mix", "number"), [(m, n) for m, all_of in MIXED.items() for n in all_of])
def test_a_mix(mix: str, number: int) -> None:
    for seed in range(PER_MIX or USUAL.get(mix, 3)):
        told = play(seed, number=number, mix=mix)
        again = f"make sim SEED={seed} ARGS='--shape {number} --mix {mix}'"
        assert not told.error, f"{again}\n{told.error}"
