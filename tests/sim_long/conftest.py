"""Long simulations: killed at every point, seeded days. As quiet as the shorter ones."""

from __future__ import annotations

from tests.sim.conftest import quiet

__all__ = ["quiet"]
