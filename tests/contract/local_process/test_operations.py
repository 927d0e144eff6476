"""Every verb of a local process, on real processes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from pathlib import Path

import pytest
from tests.contract.local_process.world import PYTHON, SLEEP, World, environment_of, wait_for

from yaffle.drivers.profiles.local_process import LocalProcess
from yaffle.errors import ConfigError
from yaffle.model.ids import OperationId
from yaffle.model.operations import Operation, ProgressState, Target
from yaffle.ports import DriverContext

DONE, FAILED, ABSENT = ProgressState.DONE, ProgressState.FAILED, ProgressState.ABSENT


def script(text: str) -> list[str]:
    return [*PYTHON, text]


def pid_of(world: World, target: Target) -> int:
    return int(json.loads((world.folder(target) / "launch.json").read_text())["pid"])


def obey(ready: str = "ready") -> list[str]:
    """A node that tells when it listens to signals."""
    return script(
        "import signal, sys, pathlib, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\n"
        f"pathlib.Path({ready!r}).touch(); time.sleep(600)"
    )


def defy() -> list[str]:
    """A node that ignores the stop signal."""
    return script(
        "import signal, pathlib, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "pathlib.Path('ready').touch(); time.sleep(600)"
    )


def ready(world: World, target: Target) -> None:
    wait_for((world.folder(target) / "work" / "ready").exists)


def test_a_node_is_created_read_and_deleted(world: World) -> None:
    target = world.target()
    made = world.run("CREATE", target, "op-1")
    assert made.state is DONE, made
    assert made.physical_id
    reading = world.read(target)
    assert (reading.exists, reading.up, reading.backend_status) == (True, True, "running")
    assert reading.physical_id == made.physical_id

    pid = pid_of(world, target)
    assert os.getsid(pid) == pid
    marks = environment_of(pid)
    assert marks["YAFFLE_NODE_ID"] == target.node_id
    assert marks["YAFFLE_PHYSICAL_ID"] == made.physical_id
    assert marks["YAFFLE_OPERATION_ID"] == "op-1"
    assert (world.folder(target).stat().st_mode & 0o777) == 0o700

    gone = world.run("DELETE", target, "op-2")
    assert gone.state is DONE, gone
    assert "no carrier" in gone.detail
    assert not world.carriers()
    assert not world.folder(target).exists()
    reading = world.read(target)
    assert (reading.exists, reading.up, reading.backend_status) == (False, False, "gone")


def test_the_physical_id_follows_from_the_operation_alone(world: World, tmp_path: Path) -> None:
    other = World(state_dir=tmp_path / "other", tag=world.tag)
    first = world.run("CREATE", world.target(0), "op-1")
    second = other.run("CREATE", other.target(1), "op-1")
    assert first.physical_id == second.physical_id


def test_the_node_inherits_nothing_of_the_engine(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_THE_ENGINE", "x")
    old = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    try:
        target = world.target(env={"GREETING": "hello {nodename} {{}}"}, port="auto")
        assert world.run("CREATE", target).state is DONE
    finally:
        signal.signal(signal.SIGUSR1, old)
        os.close(reader)
        os.close(writer)
    pid = pid_of(world, target)
    marks = environment_of(pid)
    assert marks["GREETING"] == "hello web-0 {}"
    assert "SECRET_OF_THE_ENGINE" not in marks
    assert {fd.name for fd in Path(f"/proc/{pid}/fd").iterdir()} == {"0", "1", "2"}
    status = Path(f"/proc/{pid}/status").read_text()
    ignored = next(line for line in status.splitlines() if line.startswith("SigIgn"))
    assert not int(ignored.split()[1], 16) & (1 << (signal.SIGUSR1 - 1))


def test_expansions_reach_the_command(world: World) -> None:
    text = "{port}|{nodename}|{node_id}|{physical_id}|{index}|{cluster_name}|{node_ip}|{state_dir}"
    echo = "import sys, time; print(sys.argv[1], flush=True); time.sleep(600)"
    target = world.target(command=[*script(echo), text])
    made = world.run("CREATE", target)
    assert made.attributes
    log = world.folder(target) / "node.log"
    wait_for(lambda: log.read_text().endswith("\n"))
    work = world.folder(target) / "work"
    assert log.read_text().strip().split("|") == [
        str(made.attributes["port"]),
        "web-0",
        target.node_id,
        made.physical_id,
        "0",
        "web",
        "127.0.0.1",
        str(work),
    ]


def test_create_refuses_while_an_older_copy_runs(world: World) -> None:
    target = world.target()
    world.run("CREATE", target, "op-1")
    again = world.run("CREATE", target, "op-2")
    assert again.state is FAILED
    assert "older copy" in again.detail
    assert world.run("CREATE", target, "op-1").state is DONE
    assert len(world.carriers()) == 1


def test_reboot_hard_makes_a_new_process_with_the_same_identity(world: World) -> None:
    target = world.target(port="auto", command=defy())
    made = world.run("CREATE", target)
    old = pid_of(world, target)
    again = world.run("REBOOT", target)
    assert again.state is DONE, again
    assert again.physical_id == made.physical_id
    assert made.attributes is not None
    assert again.attributes == {**made.attributes, "pid": pid_of(world, target)}
    assert made.attributes["pid"] == old != pid_of(world, target)
    assert list(world.carriers()) == [pid_of(world, target)]


def test_reboot_soft_asks(world: World) -> None:
    target = world.target(command=obey(), stop_timeout=120)
    world.run("CREATE", target)
    ready(world, target)
    old = pid_of(world, target)
    assert world.run("REBOOT", target, type="SOFT").state is DONE
    assert pid_of(world, target) != old


def test_reboot_soft_fails_on_a_node_that_ignores_it_and_leaves_it_alone(world: World) -> None:
    target = world.target(command=defy(), stop_timeout=0.3)
    world.run("CREATE", target)
    ready(world, target)
    old = pid_of(world, target)
    failed = world.run("REBOOT", target, type="SOFT")
    assert failed.state is FAILED
    assert "SIGTERM" in failed.detail
    assert list(world.carriers()) == [old]


def test_an_unknown_kind_of_reboot_is_refused(world: World) -> None:
    target = world.target()
    world.run("CREATE", target)
    assert world.run("REBOOT", target, type="GENTLE").state is FAILED
    assert world.run("EVACUATE", target).state is FAILED


def test_delete_kills_a_node_that_ignores_the_stop_signal(world: World) -> None:
    target = world.target(command=defy(), stop_timeout=0.3)
    world.run("CREATE", target)
    ready(world, target)
    assert world.run("DELETE", target).state is DONE
    assert not world.carriers()


def test_stop_signal_is_the_one_asked_for(world: World) -> None:
    listen = (
        "import signal, sys, pathlib, time\n"
        "signal.signal(signal.SIGINT, lambda *_: (print('interrupted', flush=True), sys.exit(0)))\n"
        "pathlib.Path('ready').touch(); time.sleep(600)"
    )
    target = world.target(command=script(listen), stop_signal="INT", stop_timeout=120)
    world.run("CREATE", target)
    ready(world, target)
    assert world.run("STOP", target).state is DONE
    assert "interrupted" in (world.folder(target) / "node.log").read_text()


def test_stop_and_start(world: World) -> None:
    target = world.target(port="auto")
    made = world.run("CREATE", target)
    assert world.run("STOP", target).state is DONE
    assert world.read(target).backend_status == "off"
    assert world.read(target).exists is False
    started = world.run("START", target)
    assert started.state is DONE
    assert started.physical_id == made.physical_id
    assert started.attributes == {**(made.attributes or {}), "pid": pid_of(world, target)}
    again = world.run("START", target)
    assert "already" in again.detail
    assert len(world.carriers()) == 1


@pytest.mark.parametrize("kind", ["START", "STOP", "REBOOT", "REBUILD"])
def test_verbs_on_a_node_that_never_was_fail(world: World, kind: str) -> None:
    progress = world.run(kind, world.target())
    assert progress.state is FAILED
    assert "no such node" in progress.detail


def test_rebuild_wipes_the_work_files_and_keeps_identity_and_port(
    world: World, tmp_path: Path
) -> None:
    target = world.target(port="auto")
    made = world.run("CREATE", target)
    work = world.folder(target) / "work"
    (work / "deep" / "er").mkdir(parents=True)
    (work / "deep" / "data").write_text("old")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("kept")
    (work / "link").symlink_to(outside)
    rebuilt = world.run("REBUILD", target)
    assert rebuilt.state is DONE, rebuilt
    assert rebuilt.physical_id == made.physical_id
    assert rebuilt.attributes == {**(made.attributes or {}), "pid": pid_of(world, target)}
    assert list(work.iterdir()) == []
    assert (outside / "precious").read_text() == "kept"


def test_the_port_survives_delete_and_create(world: World) -> None:
    target = world.target(port="auto", port_range="21000-21999")
    made = world.run("CREATE", target)
    world.run("DELETE", target)
    again = world.run("CREATE", target)
    assert made.attributes
    assert again.attributes
    assert again.attributes["port"] == made.attributes["port"]
    assert again.physical_id != made.physical_id


def test_a_port_in_use_elsewhere_is_not_chosen(world: World) -> None:
    target = world.target(port="auto")
    made = world.run("CREATE", target)
    world.run("DELETE", target)
    assert made.attributes
    with socket.socket() as foreign:
        foreign.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        foreign.bind(("127.0.0.1", int(str(made.attributes["port"]))))
        foreign.listen()
        again = world.run("CREATE", target)
    assert again.attributes
    assert again.attributes["port"] != made.attributes["port"]


def test_a_fixed_port_of_another_node_is_refused(world: World) -> None:
    assert world.run("CREATE", world.target(0, port=21999)).state is DONE
    second = world.run("CREATE", world.target(1, port=21999))
    assert second.state is FAILED
    assert "21999" in second.detail


def test_delete_of_what_is_not_there_is_done_and_stays_done(world: World) -> None:
    target = world.target()
    assert world.run("DELETE", target, "op-1").state is DONE
    op = Operation(kind="DELETE", target=target)
    end = world.clock.monotonic_s() + 60
    assert world.worker().poll(op, OperationId("op-1"), end).state is DONE
    assert world.worker().poll(op, OperationId("op-2"), end).state is ABSENT


def test_an_empty_folder_left_by_a_crash_is_swept_away(world: World) -> None:
    target = world.target()
    world.run("CREATE", target)
    world.run("DELETE", target, "op-1")
    world.folder(target).mkdir()
    assert world.run("DELETE", target, "op-1").state is DONE
    assert not world.folder(target).exists()


def test_a_finished_operation_is_answered_after_later_ones_and_never_repeated(
    world: World,
) -> None:
    target = world.target()
    made = world.run("CREATE", target, "op-1")
    world.run("REBOOT", target, "op-2")
    world.run("DELETE", target, "op-3")
    op = Operation(kind="CREATE", target=target)
    end = world.clock.monotonic_s() + 60
    assert world.worker().poll(op, OperationId("op-1"), end).physical_id == made.physical_id
    # A late hand submits what was done, and undone, long ago.
    assert world.run("CREATE", target, "op-1").state is DONE
    assert world.run("REBOOT", target, "op-2").state is DONE
    assert not world.carriers()


def test_a_superseded_operation_is_absent_and_not_taken_up_again(world: World) -> None:
    target = world.target(command=defy(), stop_timeout=600)
    world.run("CREATE", target)
    ready(world, target)
    worker, end = world.worker(), world.clock.monotonic_s() + 120
    soft = Operation(kind="REBOOT", target=target, params={"type": "SOFT"})
    assert worker.submit(soft, OperationId("soft"), end).state is ProgressState.RUNNING
    assert world.run("REBOOT", target, "hard").state is DONE
    assert worker.poll(soft, OperationId("soft"), end).state is ABSENT
    assert worker.submit(soft, OperationId("soft"), end).state is FAILED
    assert len(world.carriers()) == 1


def test_an_operation_that_runs_out_of_time_fails(world: World) -> None:
    target = world.target(command=defy(), stop_timeout=600)
    world.run("CREATE", target)
    ready(world, target)
    progress = world.run("STOP", target, timeout_s=0.5)
    assert progress.state is FAILED
    assert "not done in time" in progress.detail


def test_capture_holds_the_processes_and_the_end_of_the_log(world: World) -> None:
    chatter = "import time; print('x' * 100_000); print('last words', flush=True); time.sleep(600)"
    target = world.target(command=script(chatter))
    world.run("CREATE", target)
    log = world.folder(target) / "node.log"
    wait_for(lambda: log.read_text().endswith("last words\n"))
    text = asyncio.run(world.profile().capture(target, deadline_s=60))
    assert "last words" in text
    assert f"pid {pid_of(world, target)} " in text
    assert len(text) < 20_000
    assert "none" in asyncio.run(world.profile().capture(world.target(9), deadline_s=60))


def test_the_log_of_a_restarting_node_is_bounded(world: World) -> None:
    chatter = "import time; print('x' * 5_000_000, flush=True); time.sleep(600)"
    target = world.target(command=script(chatter))
    world.run("CREATE", target)
    log = world.folder(target) / "node.log"
    for _ in range(3):
        wait_for(lambda: log.stat().st_size >= 5_000_000)
        assert world.run("REBOOT", target).state is DONE
    kept = sorted(path.name for path in world.folder(target).glob("node.log*"))
    assert kept == ["node.log", "node.log.1"]


def test_the_log_of_a_node_that_runs_for_long_is_bounded(world: World, tmp_path: Path) -> None:
    """Whoever looks cuts it; the process goes on appending."""
    go = tmp_path / "go"
    os.mkfifo(go)
    chatter = (
        "for n in range(3):\n"
        f" print('x' * 5_000_000 + str(n), flush=True); open({str(go)!r}).read()\n"
    )
    target = world.target(command=script(chatter))
    world.run("CREATE", target)
    log = world.folder(target) / "node.log"
    for number in range(3):
        wait_for(lambda number=number: log.read_text().endswith(f"{number}\n"))
        assert world.read(target).up
        assert log.stat().st_size == 0
        assert log.with_name("node.log.1").read_text().endswith(f"{number}\n")
        go.write_text("")
    assert {path.name for path in log.parent.glob("node.log*")} == {"node.log", "node.log.1"}


def test_the_async_face_does_the_same(world: World) -> None:
    async def story() -> None:
        profile = world.profile()
        op = Operation(kind="CREATE", target=world.target())
        name = OperationId("op-1")
        progress = await profile.submit(op, operation_id=name, deadline_s=60)
        async with asyncio.timeout(120):
            while progress.state is ProgressState.RUNNING:
                await asyncio.sleep(0.02)
                progress = await profile.poll(op, operation_id=name, deadline_s=60)
        assert progress.state is DONE
        readings = await profile.read([op.target, world.target(1)], deadline_s=60)
        assert [reading.up for reading in readings] == [True, False]

    asyncio.run(story())


def test_unknown_settings_are_refused(world: World) -> None:
    with pytest.raises(ConfigError, match="colour"):
        LocalProcess(
            DriverContext(
                clock=world.clock, state_dir=world.state_dir, settings={"colour": "green"}
            )
        )


def test_the_command_may_hold_no_port_at_all(world: World) -> None:
    made = world.run("CREATE", world.target(command=list(SLEEP)))
    assert made.attributes
    assert "port" not in made.attributes
