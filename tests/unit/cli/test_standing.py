"""What a supervisor is told: each change once, and once that the process has started."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from yaffle.cli.serve import supervisor_status
from yaffle.cli.serve.supervisor_status import OPENING, Announcer, Standing
from yaffle.cli.serve.systemd import Systemd
from yaffle_health.sdnotify import Notifier

ACTING = Standing(text="acting under epoch 3, watching 2 clusters", settled=True)


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(tmp_path / "notify"))
        sock.setblocking(False)
        yield sock


def said(supervisor: socket.socket) -> list[str]:
    """Return everything that has arrived."""
    found = []
    while True:
        try:
            found.append(supervisor.recv(4096).decode())
        except BlockingIOError:
            return found


def test_each_change_is_told_once(supervisor: socket.socket, tmp_path: Path) -> None:
    started: list[bool] = []
    announcer = Announcer(
        Systemd(notifier=Notifier(str(tmp_path / "notify")), watchdog_s=None),
        prefix="listening on h:1; ",
        on_ready=lambda: started.append(True),
    )
    away = supervisor_status.waiting("database postgresql://h/y:\n connection refused")
    for now in (OPENING, OPENING, away, away, ACTING, ACTING):
        announcer._tell(now, late=False)
    assert said(supervisor) == [
        "STATUS=listening on h:1; opening the database",
        (
            "READY=1\nSTATUS=listening on h:1; waiting for the database:"
            " database postgresql://h/y: connection refused"
        ),
        "STATUS=listening on h:1; acting under epoch 3, watching 2 clusters",
    ]
    assert started == [True]


def test_who_still_tries_has_started_after_a_while(
    supervisor: socket.socket, tmp_path: Path
) -> None:
    started: list[bool] = []
    announcer = Announcer(
        Systemd(notifier=Notifier(str(tmp_path / "notify")), watchdog_s=None),
        prefix="",
        on_ready=lambda: started.append(True),
    )
    announcer._tell(OPENING, late=False)
    assert started == []
    announcer._tell(OPENING, late=True)
    announcer._tell(OPENING, late=True)
    assert started == [True]
    assert said(supervisor) == [
        "STATUS=opening the database",
        "READY=1\nSTATUS=opening the database",
    ]


def test_a_long_fault_fits_a_datagram() -> None:
    assert len(supervisor_status.waiting("x" * 10_000).text) < 400
