"""What cannot be done is said in one sentence, and leaves nothing running."""

from __future__ import annotations

import asyncio
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from tests.contract.local_process.world import PYTHON, World

from yaffle.drivers.profiles.local_process.folder import Busy, Folder
from yaffle.model.ids import NodeId, OperationId
from yaffle.model.operations import Operation, ProgressState, Target

DONE, FAILED, RUNNING = ProgressState.DONE, ProgressState.FAILED, ProgressState.RUNNING


def refused(world: World, target: Target) -> str:
    progress = world.run("CREATE", target, "op-1")
    assert progress.state is FAILED, progress
    assert not world.carriers()
    reading = world.read(target)
    assert (reading.exists, reading.up) == (False, False)
    return progress.detail


def test_command_not_found(world: World) -> None:
    target = world.target(command=["no-such-command-anywhere"])
    assert "'no-such-command-anywhere': not found on PATH" in refused(world, target)
    assert "not found" in world.read(target).detail
    # A successor gets the same answer, and a repaired node can be made afterwards.
    op = Operation(kind="CREATE", target=target)
    end = world.clock.monotonic_s() + 60
    assert world.worker().poll(op, OperationId("op-1"), end).state is FAILED
    assert world.run("CREATE", world.target(), "op-2").state is DONE


def test_command_without_permission(world: World, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n")
    assert "Permission denied" in refused(world, world.target(command=[str(program)]))


def test_command_that_is_no_program(world: World, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("words")
    program.chmod(0o700)
    assert "Exec format error" in refused(world, world.target(command=[str(program)]))


def test_working_directory_missing(world: World) -> None:
    assert "cannot enter the working directory /nowhere" in refused(
        world, world.target(cwd="/nowhere")
    )


def test_log_file_that_cannot_be_opened(world: World) -> None:
    target = world.target(log_file="/nowhere/node.log")
    assert "cannot open the log file /nowhere/node.log" in refused(world, target)


@pytest.mark.usefixtures("unhurried")
def test_a_command_that_ends_at_once_is_quoted(world: World) -> None:
    target = world.target(command=["sh", "-c", "echo out of cheese >&2; exit 3"])
    assert "out of cheese" in refused(world, target)


@pytest.mark.usefixtures("unhurried")
def test_a_copy_that_ended_at_once_is_told_of_and_deleted_with_its_folder_and_port(
    world: World,
) -> None:
    first = world.run("CREATE", world.target(port="auto"))
    known = replace(world.target(), physical_id=str(first.physical_id))
    assert world.run("DELETE", known).state is DONE
    crash = world.target(command=[*PYTHON, "raise SystemExit(3)"], port="auto")
    assert not world.run("CREATE", crash).physical_id, "a first copy that ended was never made"
    assert world.run("DELETE", crash).state is DONE
    crashing = replace(crash, physical_id=str(first.physical_id))
    begun = world.run("CREATE", crashing)
    assert begun.state is FAILED, begun
    assert begun.physical_id not in {None, "", first.physical_id}
    assert world.run("DELETE", replace(crashing, physical_id=begun.physical_id)).state is DONE
    assert not world.folder(crashing).exists()
    assert [p.name for p in (world.state_dir / "ports").iterdir() if p.name != ".lock"] == []


def test_wrong_properties_fail_but_do_not_keep_a_node_from_being_deleted(world: World) -> None:
    target = world.target()
    world.run("CREATE", target)
    broken = Target(
        node_id=target.node_id,
        name="web",
        physical_id="",
        profile_type=target.profile_type,
        spec={"command": "not a list"},
    )
    assert "command" in world.run("REBOOT", broken).detail
    assert world.run("DELETE", broken).state is DONE
    assert not world.carriers()


@pytest.mark.parametrize("name", ["../escape", "", ".hidden", "a/b", "x" * 200])
def test_a_node_id_that_is_no_file_name_is_refused(world: World, name: str) -> None:
    target = Target(
        node_id=NodeId(name),
        name="web",
        physical_id="",
        profile_type="yaffle.local.process-1.0",
        spec={"command": ["true"]},
    )
    assert world.run("CREATE", target).state is FAILED
    assert world.read(target).up is None


def test_a_state_directory_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    world = World(state_dir=tmp_path / "file")
    progress = world.run("CREATE", world.target())
    assert progress.state is FAILED
    assert not world.carriers()


@pytest.fixture
def small_disk(tmp_path: Path) -> Path:
    if os.geteuid() != 0:
        pytest.skip("needs root to mount a small disk")
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)]
    if subprocess.run(command, check=False, capture_output=True).returncode != 0:
        pytest.skip("may not mount")
    return disk


@pytest.mark.root
def test_on_a_full_disk_nothing_is_started_and_fencing_still_works(small_disk: Path) -> None:
    world = World(state_dir=small_disk / "state")
    try:
        target = world.target()
        assert world.run("CREATE", target).state is DONE
        with (small_disk / "ballast").open("wb", buffering=0) as ballast:
            try:
                for _ in range(100_000):
                    ballast.write(b"x" * 512)
            except OSError:
                pass
        refused_ = world.run("CREATE", world.target(1))
        assert refused_.state is FAILED
        assert "No space left" in refused_.detail
        assert len(world.carriers()) == 1
        result = asyncio.run(
            world.fencer().fence(target, operation_id=OperationId("fence-1"), deadline_s=60)
        )
        assert result.verdict == "confirmed", result
        assert not world.carriers()
    finally:
        world.clean()
        subprocess.run(["umount", str(small_disk)], check=True)


def test_while_somebody_holds_the_lock_the_answer_is_busy(world: World) -> None:
    target = world.target()
    op, name = Operation(kind="CREATE", target=target), OperationId("op-1")
    with Folder(world.state_dir, target.node_id).locked():
        with pytest.raises(Busy):
            world.worker().poll(op, name, world.clock.monotonic_s() + 1)
        for call in (world.profile().submit, world.profile().poll):
            progress = asyncio.run(call(op, operation_id=name, deadline_s=0.2))
            assert progress.state is RUNNING
            assert "busy" in progress.detail
        assert world.read(target).exists is False
    assert not world.carriers()


def test_an_unreadable_record_is_unclear_and_nothing_is_done(world: World) -> None:
    target = world.target()
    world.run("CREATE", target)
    (world.folder(target) / "record.json").write_text("{")
    assert world.read(target).up is None
    for kind in ("CREATE", "REBOOT", "KILL", "DELETE"):
        assert world.run(kind, target).state is FAILED
    assert len(world.carriers()) == 1
