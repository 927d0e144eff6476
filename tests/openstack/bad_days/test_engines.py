"""Two Yaffles on one database hear the same notifications; the one that acts is killed in the act."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.functional.cli.support import Server, wait_for
from tests.openstack.bad_days.gate import Cut, Gate, standing
from tests.openstack.bad_days.record import acts
from tests.openstack.bad_days.scenes import FIRST, PHASES, Scene, settings
from tests.openstack.cloud import Cloud

WITHIN_S = 240.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Two:
    """Both of them, each before a gate of its own, as scenes of the same cluster."""

    scenes: tuple[Scene, Scene]

    @property
    def gates(self) -> list[Gate]:
        """Both gates."""
        return [s.gate for s in self.scenes]

    def acted(self) -> Scene | None:
        """Return the one whose gate has sprung."""
        return next((s for s in self.scenes if s.gate.sprung), None)


@pytest.fixture
def two(cloud: Cloud, postgres_ready: str, tmp_path: Path) -> Iterator[Two]:
    """Two servers; the cluster is not made yet."""
    with ExitStack() as stack:
        scenes = []
        for name in ("a", "b"):
            folder = tmp_path / name
            folder.mkdir()
            gate = stack.enter_context(standing(cloud.lab))
            config = settings(cloud, gate, folder, postgres_ready)
            yaffle = Server(folder / "state", flags=("--config", str(config)))
            stack.callback(_ended, yaffle)
            yaffle.start()
            scenes.append(Scene(PHASES["asked"], cloud, gate, yaffle))
        yield Two(scenes=(scenes[0], scenes[1]))


def _ended(yaffle: Server) -> None:
    if yaffle.running is not None:
        assert yaffle.stop(signal.SIGTERM) == 0


def test_of_two_that_hear_it_one_acts_and_when_it_is_killed_the_other_finishes(two: Two) -> None:
    first, second = two.scenes
    first.begin(mode="LIFECYCLE_EVENTS")
    first.ready()
    second.copies, second.idents = first.copies, first.idents
    broken = first.copies[FIRST]
    for one in two.scenes:
        one.gate.arm(Cut.UNANSWERED, lambda seen: seen.act == "os-start")
    first.breaks(FIRST, "off")

    killed = wait_for(two.acted, within_s=WITHIN_S)
    (left,) = (s for s in two.scenes if s is not killed)
    left.gate.open()
    assert killed.yaffle.running is not None
    os.kill(killed.yaffle.running.process.pid, signal.SIGKILL)
    assert killed.yaffle.running.end() == -signal.SIGKILL
    killed.yaffle.running = None
    killed.gate.open()

    wait_for(left.settled, within_s=WITHIN_S, every_s=0.5)
    # What the dead one had asked for was found, and not asked for again.
    assert acts(left.cloud, broken) == ("create", "start")
    asked = [s.act for gate in two.gates for s in gate.writes() if s.server == broken]
    assert asked.count("os-start") == 1, asked
    assert {n["name"]: n["physical_id"] for n in left.nodes()} == first.copies
    left.yaffle.ok("decision", "check")
