"""How much weather the machines see: quick by default, YAFFLE_SIM_RUNS=N for N worlds of new luck."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings


def weather(examples: int, steps: int) -> settings:
    """Return the settings of one machine; without the variable each run is the same."""
    runs = os.environ.get("YAFFLE_SIM_RUNS")
    return settings(
        max_examples=int(runs) if runs else examples,
        stateful_step_count=steps,
        derandomize=not runs,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
