"""How much weather the machines see: quick by default, YAFFLE_SIM_RUNS=N for N worlds of new luck.

YAFFLE_SIM_SHRINK=no leaves a failing world as large as it was found, which is much faster.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings


def weather(examples: int, steps: int) -> settings:
    """Return the settings of one machine; without the variable each run is the same."""
    runs = os.environ.get("YAFFLE_SIM_RUNS")
    phases = [Phase.explicit, Phase.generate]
    if os.environ.get("YAFFLE_SIM_SHRINK") != "no":
        phases.append(Phase.shrink)
    return settings(
        max_examples=int(runs) if runs else examples,
        stateful_step_count=steps,
        derandomize=not runs,
        database=None,
        deadline=None,
        phases=phases,
        suppress_health_check=list(HealthCheck),
    )
