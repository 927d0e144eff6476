"""The world of one test; nothing that it started outlives it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.contract.local_process.world import World

from yaffle.drivers.profiles.local_process import phases


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """What ends at once has time to do so on a busy machine: a node is watched for longer first."""
    monkeypatch.setattr(phases, "_SETTLE_S", 30.0)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(state_dir=tmp_path / "state")
    try:
        yield world
    finally:
        world.clean()
    assert not world.carriers()
