"""Worlds of every shape, with any trouble in them: whatever happens no rule is broken."""

from __future__ import annotations

import os

import pytest
from tests.sim.fleet.shapes import SHAPES
from tests.sim.fleet.worlds import play

PER_SHAPE = int(os.environ.get("YAFFLE_SIM_WORLDS") or 1)


@pytest.mark.parametrize("number", range(SHAPES))
def test_a_shape(number: int) -> None:
    for seed in range(number, number + PER_SHAPE * SHAPES, SHAPES):
        told = play(seed)
        assert not told.error, f"seed {seed}: make sim SEED={seed}\n{told.error}"
