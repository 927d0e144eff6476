"""Sockets passed by systemd: taken only if they are for us, and never unlinked."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from health_wire import ask, eventually

from yaffle_health.errors import BadOption, BindFailed
from yaffle_health.server import activation
from yaffle_health.uris import Unix

ME = 4321
PASSED = [
    (True, {"LISTEN_PID": "4321", "LISTEN_FDS": "2"}, [3, 4]),
    (True, {"LISTEN_PID": "4322", "LISTEN_FDS": "2"}, []),
    (True, {"LISTEN_FDS": "2"}, []),
    (True, {"LISTEN_PID": "4321"}, []),
    (True, {}, []),
    (False, {"LISTEN_PID": "4321", "LISTEN_FDS": "2"}, []),
    (
        "health",
        {"LISTEN_PID": "4321", "LISTEN_FDS": "3", "LISTEN_FDNAMES": "api:health:health"},
        [4, 5],
    ),
    ("health", {"LISTEN_PID": "4321", "LISTEN_FDS": "2", "LISTEN_FDNAMES": "api:web"}, []),
    ("health", {"LISTEN_PID": "4321", "LISTEN_FDS": "1"}, []),
]


@pytest.mark.parametrize(("wanted", "environment", "fds"), PASSED)
def test_which_descriptors_are_ours(
    wanted: bool | str, environment: dict[str, str], fds: list[int]
) -> None:
    assert activation.passed(wanted, environment, ME) == fds


@pytest.mark.parametrize("count", ["-1", "two", "99999999", "\u0662"])
def test_a_count_that_is_none(count: str) -> None:
    with pytest.raises(BadOption, match="LISTEN_FDS"):
        activation.passed(True, {"LISTEN_PID": "4321", "LISTEN_FDS": count}, ME)


@pytest.fixture
def datagram() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        yield made


def test_only_a_listening_stream_is_taken(datagram: socket.socket) -> None:
    with socket.socket() as deaf, Path("/dev/null").open() as file:
        before = len(list(Path("/proc/self/fd").iterdir()))
        for wrong in (deaf.fileno(), datagram.fileno(), file.fileno(), 999_999):
            with pytest.raises(BindFailed, match=f"descriptor {wrong}"):
                activation.listener(wrong)
        assert len(list(Path("/proc/self/fd").iterdir())) == before


PROGRAM = """
import os, sys, yaffle_health as y
manager = y.Manager()
with y.serve(manager, uri="tcp://127.0.0.1:1", activation="health", required=True) as endpoint:
    print(*endpoint.addresses, flush=True)
    sys.stdin.read()
"""


def test_the_passed_socket_is_served_and_stays(tmp_path: Path) -> None:
    """As systemd does it: descriptor 3, the process id known only after the fork."""
    path = tmp_path / "health.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        shell = f'LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=health exec "$0" "$@" 3<&{listener.fileno()}'
        with subprocess.Popen(
            ["bash", "-c", shell, sys.executable, "-c", PROGRAM],
            pass_fds=[listener.fileno()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as child:
            assert child.stdout is not None
            assert child.stdout.readline().strip() == f"unix://{path}"
            assert ask(Unix(str(path))).status == 200
            child.communicate("", timeout=60)
    assert path.is_socket()


@pytest.mark.skipif(not shutil.which("systemd-socket-activate"), reason="systemd is not installed")
def test_systemd_s_own_tool(tmp_path: Path) -> None:
    path = tmp_path / "health.sock"
    command = ["systemd-socket-activate", "-l", str(path), "--fdname=health", sys.executable]
    with subprocess.Popen(
        [*command, "-c", PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ,
    ) as child:
        eventually(path.is_socket)
        assert ask(Unix(str(path))).status == 200
        child.communicate(b"", timeout=60)
    assert path.is_socket()
