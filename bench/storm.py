"""Ten of twenty failing together beside one failing alone: the healing of many must not be a queue.

    python bench/storm.py [--nodes 20] [--failing 10] [--rounds 3]

Real engine, real local processes, kill -9. The policy's and the installation's limits let ten be
healed at once: by default the storm limit would hold them all (see `yaffle why`), and that is shown
first. Senlin takes 69.7 s for ten of twenty; ours may take twice what one takes.
"""

from __future__ import annotations

import argparse
import logging
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import structlog
from bench._python import described, system_python
from tests.chaos.lab import Lab, close, lab, policy

RATIO = 2.0
SENLIN_S = 69.7
BOUND_S = 120


def failed_together(here: Lab, names: list[str]) -> tuple[float, float]:
    """Kill them at once; return the seconds until all run again and until all are judged well."""
    lives = {name: len(here.lives(name)) for name in names}
    began = time.monotonic()
    for name in names:
        here.signal(name, signal.SIGKILL)
    here.wait(lambda: all(len(here.lives(n)) > lives[n] for n in names), BOUND_S, "all run again")
    running_s = time.monotonic() - began
    here.wait(here.healthy, BOUND_S, "all are well")
    return running_s, time.monotonic() - began


def held(here: Lab, names: list[str]) -> str:
    """Kill them under the default guards; return what holds them."""
    for name in names:
        here.signal(name, signal.SIGKILL)
    here.wait(
        lambda: len(here.rows("select 1 from incidents where state = 'held'")) == len(names),
        BOUND_S, "all are held",
    )  # fmt: skip
    found = {str(r["hold_reason"]) for r in here.rows("select hold_reason from incidents")}
    return ", ".join(sorted(found))


def main() -> None:
    """Measure and print."""
    system_python()
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--nodes", type=int, default=20)
    options.add_argument("--failing", type=int, default=10)
    options.add_argument("--rounds", type=int, default=3)
    chosen = options.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    print(described())
    ratio = measured(chosen)
    met = ratio <= RATIO
    print(f"  ratio {ratio:.2f}   target <= {RATIO:g}   {'met' if met else 'MISSED'}")
    sys.exit(0 if met else 1)


def measured(chosen: argparse.Namespace) -> float:
    """Hold first, then let one heal and then many; return the ratio of the medians."""
    open_to = f"{100 * chosen.failing // chosen.nodes}%"
    names = [f"c-{n + 1}" for n in range(chosen.failing)]
    wide = {"max_unhealthy": open_to, "in_flight": chosen.failing, "stable_after": 1}
    with tempfile.TemporaryDirectory() as place, lab(Path(place), lease=10.0) as here:
        here.start()
        here.profile()
        here.call("create_policy", "tight", policy(url=False, max_unhealthy="40%"), by="bench")
        here.cluster("c", chosen.nodes, policy_name="tight")
        here.wait(here.healthy, BOUND_S, "healthy")
        print(
            f"  with the default 40 %: {chosen.failing} of {chosen.nodes} held: {held(here, names)}"
        )
        here.call("create_policy", "wide", policy(url=False, **wide), by="bench")
        here.call("detach", "c", "tight", by="bench")
        here.call("attach", "c", "wide", by="bench")
        here.wait(here.healthy, BOUND_S, "healed with the limits open")
        one = [failed_together(here, names[:1]) for _ in range(chosen.rounds)]
        many = [failed_together(here, names) for _ in range(chosen.rounds)]
        close(here)
    (one_s, one_well_s), (many_s, many_well_s) = map(medians, (one, many))
    print(
        f"  one of {chosen.nodes}: runs again after {one_s:.2f} s, judged well after {one_well_s:.2f} s\n"
        f"  {chosen.failing} of {chosen.nodes} together: all run after {many_s:.2f} s,"
        f" all judged well after {many_well_s:.2f} s"
        f"   Senlin {SENLIN_S} s: {SENLIN_S / many_well_s:.0f} x"
    )
    return many_well_s / one_well_s


def medians(found: list[tuple[float, float]]) -> tuple[float, float]:
    """Of each of the two."""
    return statistics.median(f[0] for f in found), statistics.median(f[1] for f in found)


if __name__ == "__main__":
    main()
