"""Whose process is it, and does it live: escapes, recycled pids, frozen and half-dead processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.contract.local_process.world import PYTHON, SLEEP, World, wait_for

from yaffle.drivers.profiles.local_process import process_table, signals
from yaffle.drivers.profiles.local_process.procfs import Identity, Procfs, parse_stat
from yaffle.model.operations import ProgressState, Target

DONE, FAILED, RUNNING = ProgressState.DONE, ProgressState.FAILED, ProgressState.RUNNING
FREEZER = Path("/sys/fs/cgroup/freezer")

ESCAPE = (
    "import os, sys, time, pathlib\n"
    "if os.fork() == 0:\n"
    "    os.setsid()\n"
    "    if os.fork(): os._exit(0)\n"
    "    pathlib.Path('ready').touch()\n"
    "    time.sleep(600)\n"
)
"""Leaves a grandchild in a session of its own; what follows is the parent's."""

HALF_DEAD = (
    "import ctypes, threading, time, pathlib\n"
    "threading.Thread(target=time.sleep, args=(600,)).start()\n"
    "pathlib.Path('ready').touch()\n"
    "ctypes.CDLL(None).syscall(60, 0)\n"  # SYS_exit: the main thread alone
)


def launch_file(world: World, target: Target) -> Path:
    return world.folder(target) / "launch.json"


def pid_of(world: World, target: Target) -> int:
    return int(json.loads(launch_file(world, target).read_text())["pid"])


def created(world: World, text: str, **spec: object) -> Target:
    target = world.target(command=[*PYTHON, text], **spec)
    assert world.run("CREATE", target).state is DONE
    wait_for((world.folder(target) / "work" / "ready").exists)
    return target


@pytest.fixture
def innocent() -> Iterator[subprocess.Popen[bytes]]:
    """A stranger in a session of its own, with a child that shares it."""
    with subprocess.Popen(SLEEP, start_new_session=True) as process:
        yield process
        process.kill()


@pytest.mark.parametrize("kind", ["DELETE", "KILL", "REBOOT"])
def test_what_moved_to_another_session_is_found_and_killed(world: World, kind: str) -> None:
    target = created(world, ESCAPE + "time.sleep(600)")
    # The one between them may not have ended yet.
    wait_for(lambda: len(world.carriers()) == 2)
    before = set(world.carriers())
    assert world.run(kind, target).state is DONE
    assert before.isdisjoint(world.carriers())


def test_what_outlives_its_parent_still_counts_as_a_copy(world: World) -> None:
    target = created(world, ESCAPE + "time.sleep(600)")
    os.kill(pid_of(world, target), signal.SIGKILL)
    wait_for(lambda: world.read(target).up is False)
    reading = world.read(target)
    assert (reading.exists, reading.up) == (True, False)
    assert world.run("CREATE", target).state is FAILED
    assert world.run("START", target).state is FAILED
    assert world.run("DELETE", target).state is DONE
    assert world.read(target).exists is False


@pytest.mark.usefixtures("unhurried")
def test_a_command_that_goes_to_the_background_is_told_so(world: World) -> None:
    target = world.target(command=["sh", "-c", "setsid sleep 600 &"])
    progress = world.run("CREATE", target)
    assert progress.state is FAILED
    assert "foreground" in progress.detail


def test_members_of_the_session_are_found_without_their_marker(world: World) -> None:
    hide = (
        "import subprocess, time; subprocess.Popen(['sleep', '600'], env=dict()); time.sleep(600)"
    )
    target = world.target(command=[*PYTHON, hide])
    world.run("CREATE", target)
    session = pid_of(world, target)

    def members() -> list[int]:
        living = process_table.take(Procfs()).living
        return [stat.pid for stat in living if stat.session == session]

    wait_for(lambda: len(members()) == 2)
    os.kill(session, signal.SIGKILL)
    wait_for(lambda: len(members()) == 1)
    assert world.read(target).exists
    assert world.run("KILL", target).state is DONE
    assert members() == []


def test_a_doubtful_member_blocks_the_proof_and_is_not_signalled() -> None:
    """No leader to vouch for the session's number, no marker, no file of ours: perhaps a stranger's."""
    parent = "import os, time\nif os.fork() == 0: print(os.getpid(), flush=True); time.sleep(600)"
    leader = subprocess.Popen(
        [*PYTHON, parent], start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    with leader:
        assert leader.stdout
        orphan = int(leader.stdout.readline())
        leader.wait(60)
        procfs = Procfs()
        try:
            gone = Identity(pid=leader.pid, start=1, boot=procfs.boot())
            found = process_table.of_node(
                procfs, process_table.take(procfs), "nobody", started=gone, folder=Path("/nowhere")
            )
            assert [stat.pid for stat in found.doubtful] == [orphan]
            assert found.members == ()
            assert not found.empty
        finally:
            os.kill(orphan, signal.SIGKILL)


def test_a_recycled_pid_is_never_mistaken(world: World, innocent: subprocess.Popen[bytes]) -> None:
    target = world.target()
    world.run("CREATE", target)
    note = json.loads(launch_file(world, target).read_text())
    world.clean()
    launch_file(world, target).write_text(json.dumps({**note, "pid": innocent.pid}))
    reading = world.read(target)
    assert (reading.exists, reading.up, reading.backend_status) == (False, False, "gone")
    for kind in ("STOP", "KILL", "REBOOT", "DELETE"):
        launch_file(world, target).write_text(json.dumps({**note, "pid": innocent.pid}))
        assert world.run(kind, target).state is DONE
        assert innocent.poll() is None
    assert Procfs().stat(innocent.pid)


def test_a_record_of_another_boot_names_nobody(
    world: World, innocent: subprocess.Popen[bytes]
) -> None:
    target = world.target()
    world.run("CREATE", target)
    note = json.loads(launch_file(world, target).read_text())
    world.clean()
    stat = Procfs().stat(innocent.pid)
    assert stat
    forged = {**note, "pid": stat.pid, "start": stat.start, "boot": "another"}
    launch_file(world, target).write_text(json.dumps(forged))
    assert world.read(target).backend_status == "gone"
    assert world.run("KILL", target).state is DONE
    assert innocent.poll() is None


def test_a_signal_checks_the_start_time_after_the_handle_is_open(
    innocent: subprocess.Popen[bytes],
) -> None:
    procfs = Procfs()
    stat = procfs.stat(innocent.pid)
    assert stat
    stale = parse_stat(
        f"{stat.pid} (python) S 1 {stat.pid} {stat.pid} 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 1 0"
    )
    sent = signals.send(procfs, [stale], signal.SIGKILL, wait_s=0)
    assert sent.reached == ()
    assert innocent.poll() is None


def test_we_do_not_signal_ourselves() -> None:
    me = Procfs().stat(os.getpid())
    assert me
    sent = signals.send(Procfs(), [me], signal.SIGKILL, wait_s=0)
    assert sent.denied == (os.getpid(),)


def test_a_stopped_node_is_down_and_can_be_killed(world: World) -> None:
    target = world.target(stop_timeout=60)
    world.run("CREATE", target)
    os.kill(pid_of(world, target), signal.SIGSTOP)
    wait_for(lambda: world.read(target).up is False)
    reading = world.read(target)
    assert (reading.exists, reading.backend_status) == (True, "stopped (frozen)")
    assert world.run("START", target).state is FAILED
    assert world.run("REBOOT", target, type="SOFT").state is FAILED
    assert world.run("DELETE", target).state is DONE
    assert not world.carriers()


def test_a_zombie_is_gone(world: World) -> None:
    """A zombie that nobody reaps: its parent, a stranger to the node, sleeps."""
    target = world.target()
    world.run("CREATE", target)
    note = json.loads(launch_file(world, target).read_text())
    world.clean()
    with subprocess.Popen([*PYTHON, "pass"]) as child:
        procfs = Procfs()
        wait_for(lambda: (stat := procfs.stat(child.pid)) is not None and stat.state == "Z")
        stat = procfs.stat(child.pid)
        assert stat
        forged = {**note, "pid": stat.pid, "start": stat.start}
        launch_file(world, target).write_text(json.dumps(forged))
        reading = world.read(target)
        assert (reading.exists, reading.up, reading.backend_status) == (False, False, "zombie")
        assert world.run("KILL", target).state is DONE


def test_a_main_thread_that_ended_does_not_make_a_zombie(world: World) -> None:
    target = created(world, HALF_DEAD)
    pid = pid_of(world, target)
    procfs = Procfs()
    wait_for(lambda: (stat := procfs.stat(pid)) is not None and stat.state == "Z")
    reading = world.read(target)
    assert (reading.exists, reading.up) == (True, True)
    assert process_table.take(procfs).nodes[pid] == target.node_id
    assert world.run("KILL", target).state is DONE
    stat = procfs.stat(pid)
    assert stat is None or not stat.alive


def test_without_proc_nothing_is_known_and_nothing_is_done(world: World, tmp_path: Path) -> None:
    import asyncio

    target = world.target()
    world.run("CREATE", target)
    blind = Procfs(tmp_path / "no-proc")
    reading = asyncio.run(world.profile(blind).read([target], deadline_s=60))[0]
    assert (reading.exists, reading.up) == (True, None)
    assert world.run("DELETE", target, worker=world.worker(blind)).state is FAILED
    assert world.run("CREATE", world.target(1), worker=world.worker(blind)).state is FAILED
    assert len(world.carriers()) == 1


def test_another_namespaces_proc_is_not_believed(world: World, tmp_path: Path) -> None:
    import asyncio

    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "self").symlink_to("1")
    target = world.target()
    world.run("CREATE", target)
    blind = Procfs(tmp_path / "proc")
    assert asyncio.run(world.profile(blind).read([target], deadline_s=60))[0].up is None


def test_a_lost_record_is_unclear_and_never_doubled(world: World) -> None:
    import asyncio
    import shutil

    from yaffle.model.ids import OperationId
    from yaffle.model.operations import Operation

    target = world.target()
    world.run("CREATE", target, "op-1")
    shutil.rmtree(world.state_dir)
    assert world.read(target).up is None
    op = Operation(kind="CREATE", target=target)
    polled = asyncio.run(world.profile().poll(op, operation_id=OperationId("op-1"), deadline_s=60))
    assert polled.state is FAILED
    assert world.run("CREATE", target).state is FAILED
    assert len(world.carriers()) == 1
    assert world.run("DELETE", target).state is DONE
    assert not world.carriers()


@pytest.mark.root
def test_a_frozen_control_group_is_down_and_cannot_be_proved_dead(world: World) -> None:
    group = FREEZER / f"yaffle-test-{world.tag}"
    try:
        group.mkdir()
    except OSError:
        pytest.skip("no writable freezer hierarchy")
    target = world.target(stop_timeout=0.2)
    world.run("CREATE", target)
    try:
        (group / "cgroup.procs").write_text(str(pid_of(world, target)))
        (group / "freezer.state").write_text("FROZEN")
        wait_for(lambda: (group / "freezer.state").read_text().strip() == "FROZEN")
        reading = world.read(target)
        assert (reading.exists, reading.up) == (True, False)
        assert "frozen" in reading.backend_status
        import asyncio

        result = asyncio.run(
            world.fencer().fence(target, operation_id="fence-1", deadline_s=1.5)  # type: ignore[arg-type]
        )
        # A killed process in a frozen group of the old kind lives until it is thawed.
        assert result.verdict == "unknown"
        assert result.proof is None
    finally:
        (group / "freezer.state").write_text("THAWED")
    assert world.run("KILL", target).state is DONE
    wait_for(lambda: not (group / "cgroup.procs").read_text())
    end = time.monotonic() + 10
    while group.exists() and time.monotonic() < end:
        try:
            group.rmdir()
        except OSError:
            time.sleep(0.05)


def test_stat_survives_parentheses_in_the_name() -> None:
    text = "7 (a) b (c)) R 1 2 3 0 -1 0 0 0 0 0 0 0 0 0 20 0 4 0 99 0 0"
    stat = parse_stat(text)
    assert (stat.command, stat.state, stat.session) == ("a) b (c)", "R", 3)
    assert (stat.threads, stat.start) == (4, 99)
