"""Answers that come thick and fast and help nobody, in the middle of an act: it is done once, later."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from tests.openstack.bad_days.clouds import through
from tests.openstack.bad_days.gate import Gate, Refusal, Seen, standing
from tests.openstack.bad_days.outages import STORMS
from tests.openstack.cloud import Cloud
from tests.openstack.nova.world import World

from yaffle.model.operations import ProgressState

GUSTS = 6
"""So many requests the storm answers: it is over only when a few polls were in it."""


@contextmanager
def behind(cloud: Cloud, folder: Path) -> Iterator[tuple[World, Gate]]:
    """Give a world whose requests pass a gate."""
    with standing(cloud.lab) as gate:
        clouds = through(gate, cloud, folder)
        mine = replace(cloud.credentials, clouds_yaml=clouds)
        yield World(cloud=Cloud(lab=cloud.lab, credentials=mine), state_dir=folder), gate


def _break_out(gate: Gate, storm: Callable[[Seen], Refusal | None]) -> None:
    """Have the gate answer so, until it has done so often enough."""
    answered: list[Refusal] = []

    def weather(seen: Seen) -> Refusal | None:
        if len(answered) >= GUSTS:
            return None
        if (refusal := storm(seen)) is not None:
            answered.append(refusal)
        return refusal

    gate.weather = weather


@pytest.mark.parametrize("storm", list(STORMS))
def test_an_act_in_a_storm_is_done_once_when_it_is_over(
    cloud: Cloud, tmp_path: Path, storm: str
) -> None:
    async def scene(world: World, gate: Gate) -> None:
        target = await world.made()
        _break_out(gate, STORMS[storm]())
        done = await world.do("REBOOT", target, type="HARD")
        assert done.state is ProgressState.DONE, done.detail
        assert world.acts(target) == ["reboot", "create"]
        stormy = [s for s in gate.seen if s.status in {409, 429, 500, 502, 503, 504}]
        assert len(stormy) >= GUSTS

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
