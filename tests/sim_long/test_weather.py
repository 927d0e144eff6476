"""Random days from seeds: whatever happens no promise is broken, and afterwards everything is well.

`make sim-days N=1000` plays that many seeds; a seed that fails prints the line that plays it again.
"""

from __future__ import annotations

import os
import random
from typing import Any

import pytest
from tests.sim import ending
from tests.sim.stage import policy, stage
from tests.sim.weather import ALL, Weather

from yaffle.testing import run_virtual

RUNS = int(os.environ.get("YAFFLE_SIM_RUNS") or 4)
SEED = os.environ.get("YAFFLE_SIM_SEED")
SEEDS = [int(SEED)] if SEED else list(range(RUNS))
WEATHER_S = 240.0


def document(rng: random.Random) -> dict[str, Any]:
    """A policy such as people write."""
    changed: dict[str, object] = {
        "recovery_conditional": rng.choice(["ANY_FAILED", "ANY_FAILED", "ALL_FAILED"]),
        "rise": rng.randint(1, 2),
        "fall": rng.randint(1, 3),
        "node_update_timeout": rng.choice([15, 30]),
        "fencing": rng.choice([["COMPUTE"], ["COMPUTE"], []]),
        "node_force_recreate": rng.random() < 0.15,
        "actions": rng.choice(
            [
                [{"name": "REBOOT", "timeout": 30}, {"name": "RECREATE", "timeout": 60}],
                [{"name": "RECREATE", "timeout": 60}],
                [
                    {"name": "REBOOT", "timeout": 20, "params": {"type": "SOFT"}},
                    {"name": "REBUILD", "timeout": 30},
                    {"name": "RECREATE", "timeout": 60},
                ],
            ]
        ),
        "limits": {
            "max_unhealthy": rng.choice(["40%", "60%", "100%"]),
            "when_exceeded": rng.choice(["hold", "slow"]),
            "max_in_flight": 2,
        },
    }
    if rng.random() < 0.3:
        changed["evidence"] = {"console_log": True, "timeout": 10}
    return policy(**changed)


async def day(seed: int) -> None:
    rng = random.Random(seed)
    alone = rng.random() < 0.65
    async with stage(
        seed, alone=alone, forgetful=rng.random() < 0.15, careful=rng.random() < 0.2
    ) as s:
        s.start()
        if not alone:
            s.start()
        chosen = document(rng)
        s.condemns_hung = "ANY_FAILED" in str(chosen)
        await s.build(rng.randint(3, 8), chosen)
        weather = Weather(s, ALL)
        try:
            await weather.blow(WEATHER_S)
            await ending.is_good(s)
        except BaseException:
            print("\n".join(weather.history))
            raise


@pytest.mark.parametrize("seed", SEEDS)
def test_a_day(seed: int) -> None:
    try:
        run_virtual(lambda: day(seed), seed=seed, cpu_s=90)
    except BaseException:
        print(f"play it again: YAFFLE_SIM_SEED={seed} pytest {__name__.replace('.', '/')}.py")
        raise
