"""What systemd is told: READY once, WATCHDOG only while the process does not fail."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from yaffle_health.manager import Manager
from yaffle_health.model import Health
from yaffle_health.sdnotify import READY_POLL_S, Notifier, Supervisor, watchdog_s


@contextlib.contextmanager
def service_manager(place: str) -> Iterator[Callable[[], list[str]]]:
    """The other end of NOTIFY_SOCKET: gives the lines of the next datagram."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind("\0" + place[1:] if place.startswith("@") else place)
        listener.settimeout(60)
        yield lambda: listener.recv(4096).decode().split("\n")


@pytest.fixture(params=["file", "abstract"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"{tmp_path}/notify" if request.param == "file" else f"@test-{secrets.token_hex(8)}"


WATCHDOGS = [
    ({}, None),
    ({"WATCHDOG_USEC": "30000000"}, 30.0),
    ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "7"}, 30.0),
    ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "8"}, None),
    ({"WATCHDOG_USEC": "0"}, None),
    ({"WATCHDOG_USEC": "-5"}, None),
    ({"WATCHDOG_USEC": "soon"}, None),
]


@pytest.mark.parametrize(("environment", "seconds"), WATCHDOGS)
def test_how_patient_systemd_is(environment: dict[str, str], seconds: float | None) -> None:
    assert watchdog_s(environment, 7) == seconds


@pytest.mark.parametrize("where", ["", "vsock:2:1234", "relative"])
def test_nobody_listens(where: str) -> None:
    assert Notifier.of({"NOTIFY_SOCKET": where}) is None
    assert Supervisor.of({"NOTIFY_SOCKET": where}, Manager().health) is None


def test_a_service_manager_that_is_gone_does_no_harm(tmp_path: Path) -> None:
    supervisor = Supervisor(Notifier(f"{tmp_path}/gone"), Manager().health, watchdog=1)
    assert supervisor.tick() == READY_POLL_S


def test_it_is_fed_at_half_the_interval_and_only_while_it_does_not_fail(place: str) -> None:
    manager = Manager()
    with service_manager(place) as received:
        supervisor = Supervisor(Notifier(place), manager.health, watchdog=30)
        manager.report("database", "fail", "down")
        assert supervisor.tick() == READY_POLL_S
        assert received() == ["STATUS=health: fail"]
        manager.passed("database")
        assert supervisor.tick() == 15
        assert received() == ["READY=1", "WATCHDOG=1", "STATUS=health: pass"]
        assert supervisor.tick() == 15
        assert received() == ["WATCHDOG=1"]
        manager.report("database", "warn", "slow")
        supervisor.tick()
        assert received() == ["WATCHDOG=1", "STATUS=health: warn"]
        manager.report("database", "fail", "down")
        assert supervisor.tick() == 15
        assert received() == ["STATUS=health: fail"]
        supervisor.tick()  # nothing
        manager.passed("database")
        supervisor.tick()
        assert received() == ["WATCHDOG=1", "STATUS=health: pass"]


def test_without_a_watchdog_nothing_is_left_to_do_once_ready(place: str) -> None:
    with service_manager(place) as received:
        supervisor = Supervisor(Notifier(place), Manager().health, watchdog=None)
        assert supervisor.tick() is None
        assert received() == ["READY=1", "STATUS=health: pass"]


def test_a_health_that_cannot_be_told_is_not_fed(place: str) -> None:
    def broken() -> Health:
        raise RuntimeError

    with service_manager(place) as received:
        supervisor = Supervisor(Notifier(place), broken, watchdog=30)
        assert supervisor.tick() == READY_POLL_S
        Notifier(place).send("END=1")
        assert received() == ["END=1"]


PROGRAM = """
import sys, yaffle_health as y
manager = y.Manager()
manager.register("loop", groups=["live"])
endpoint = y.serve(manager, notify=True, notify_group="live")   # no address: systemd alone
for line in sys.stdin:
    name, status = line.split()
    manager.report(name, status, "so said the test")
"""


def test_a_whole_process(place: str) -> None:
    environment = os.environ | {"NOTIFY_SOCKET": place, "WATCHDOG_USEC": "100000"}
    with (
        service_manager(place) as received,
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, env=environment, text=True
        ) as child,
    ):
        assert child.stdin is not None
        assert received() == ["READY=1", "WATCHDOG=1", "STATUS=health: pass"]
        assert received() == ["WATCHDOG=1"]
        child.stdin.write("database fail\n")  # a neighbour: not in "live"
        child.stdin.flush()
        for _ in range(5):
            assert received() == ["WATCHDOG=1"]
        child.stdin.write("loop fail\n")
        child.stdin.flush()
        while (states := received()) == ["WATCHDOG=1"]:
            pass
        assert states == ["STATUS=health: fail"]
        child.stdin.write("loop pass\n")
        child.stdin.flush()
        assert received() == ["WATCHDOG=1", "STATUS=health: pass"]
