"""Answers that come thick and fast and help nobody, in the middle of an act: it is done once, later."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from tests.openstack.bad_days.clouds import through
from tests.openstack.bad_days.gate import Gate, Seen, standing
from tests.openstack.bad_days.outages import STORMS
from tests.openstack.cloud import Cloud
from tests.openstack.nova.world import World

from yaffle.model.operations import ProgressState

STORM_S = 3.0
"""Longer than a few polls."""


@contextmanager
def behind(cloud: Cloud, folder: Path) -> Iterator[tuple[World, Gate]]:
    """Give a world whose requests pass a gate."""
    with standing(cloud.lab) as gate:
        clouds = through(gate, cloud, folder)
        mine = replace(cloud.credentials, clouds_yaml=clouds)
        yield World(cloud=Cloud(lab=cloud.lab, credentials=mine), state_dir=folder), gate


def _calm(gate: Gate) -> None:
    gate.weather = lambda _: None


@pytest.mark.parametrize("storm", list(STORMS))
def test_an_act_in_a_storm_is_done_once_when_it_is_over(
    cloud: Cloud, tmp_path: Path, storm: str
) -> None:
    async def scene(world: World, gate: Gate) -> None:
        target = await world.made()
        gate.weather = STORMS[storm]()
        threading.Timer(STORM_S, _calm, (gate,)).start()
        done = await world.do("REBOOT", target, type="HARD")
        assert done.state is ProgressState.DONE, done.detail
        assert world.acts(target) == ["reboot", "create"]
        stormy = {seen.status for seen in gate.seen} & {409, 429, 500, 502, 503, 504}
        assert stormy, "there was no storm"

    with behind(cloud, tmp_path) as (world, gate):
        asyncio.run(scene(world, gate))


def test_a_token_that_ends_between_an_act_and_its_end_is_replaced(
    cloud: Cloud, tmp_path: Path
) -> None:
    ended: list[str] = []

    def ends(gate: Gate) -> Callable[[Seen], None]:
        def weather(seen: Seen) -> None:
            asked = any(s.act == "reboot" and s.status == 202 for s in gate.seen)
            if asked and not ended and seen.method == "GET":
                ended.append(seen.token)
                gate.weather = lambda s: (
                    (401, {"error": {"message": "expired"}}) if s.token in ended else None
                )

        return weather

    async def scene(world: World, gate: Gate) -> None:
        target = await world.made()
        gate.weather = ends(gate)
        done = await world.do("REBOOT", target, type="HARD")
        assert done.state is ProgressState.DONE, done.detail
        assert world.acts(target) == ["reboot", "create"]
        assert ended
        assert 401 in {seen.status for seen in gate.seen}

    with behind(cloud, tmp_path) as (world, gate):
        asyncio.run(scene(world, gate))
