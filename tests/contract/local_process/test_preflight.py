"""A process is not given up where it could not be started anew: a full disk, a command that is gone."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.contract.local_process.world import SLEEP, World
from tests.disks import fill, small_disk

from yaffle.model.operations import Operation, Outlook, ProgressState, Prospect, Target


@pytest.fixture
def small(tmp_path: Path) -> Iterator[World]:
    with small_disk(tmp_path / "small", "2m") as place:
        yield World(place)


def outlook(world: World, target: Target) -> Prospect:
    op = Operation(kind="CREATE", target=target, timeout_s=60.0)
    return asyncio.run(world.profile().foresee(op, deadline_s=30))


def made(world: World, target: Target) -> Target:
    done = world.run("CREATE", target)
    assert done.state is ProgressState.DONE, done
    return replace(target, physical_id=done.physical_id or "")


def test_what_runs_could_be_started_anew(world: World) -> None:
    target = made(world, world.target())
    assert outlook(world, target).outlook is Outlook.POSSIBLE
    assert not [p for p in world.folder(target).iterdir() if p.name.startswith("tmp")]
    world.run("DELETE", target)


def test_of_nothing_there_is_nothing_to_give_up(world: World) -> None:
    target = world.target(command=["no-such-command-anywhere"])
    assert outlook(world, target).outlook is Outlook.POSSIBLE


def test_a_full_disk_is_no_last_word(small: World) -> None:
    target = made(small, small.target())
    full = fill(small.state_dir)
    said = outlook(small, target)
    assert (said.outlook, "No space left" in said.detail) == (Outlook.UNKNOWN, True)
    full.unlink()
    assert outlook(small, target).outlook is Outlook.POSSIBLE
    small.run("DELETE", target)


def test_a_command_that_is_gone_could_not_be_started(world: World, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.symlink_to("/bin/sh")
    target = made(world, world.target(command=[str(program), "-c", "sleep 600 & wait"]))
    program.unlink()
    said = outlook(world, target)
    assert said.outlook is Outlook.IMPOSSIBLE
    assert said.detail.startswith(f"{program} is not there")
    world.run("DELETE", target)


def test_a_deletion_that_was_interrupted_bars_no_new_copy(world: World) -> None:
    target = made(world, world.target())
    world.run("KILL", target)
    # The engine died after the first of the node's files: the record goes last.
    shutil.rmtree(world.folder(target) / "work")
    assert outlook(world, target).outlook is Outlook.POSSIBLE
    assert world.run("DELETE", target).state is ProgressState.DONE
    world.run("DELETE", made(world, target))


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        pytest.param({"command": ["no-such-command"]}, "no-such-command is not on", id="on PATH"),
        pytest.param({"cwd": "/nowhere"}, "/nowhere is not there", id="working directory"),
        pytest.param({"command": ["./run"]}, "/run is not there", id="of the working directory"),
    ],
)
def test_what_a_profile_of_today_names_has_to_be_there(
    world: World, spec: dict[str, object], why: str
) -> None:
    target = made(world, world.target())
    other = {**world.target(**{"command": list(SLEEP), **spec}).spec}
    said = outlook(world, replace(target, spec=other))
    assert (said.outlook, why in said.detail) == (Outlook.IMPOSSIBLE, True), said
    world.run("DELETE", target)
