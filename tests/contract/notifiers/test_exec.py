"""The `exec` alert driver: a program of the operator's, whose exit code is the answer."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.contract.notifiers.test_http_json import FAILURE
from tests.waiting import wait_for

from yaffle.drivers.alerts.exec import ExecAlerts
from yaffle.engine.runtime.clock import SystemClock
from yaffle.errors import ConfigError
from yaffle.model.operations import Delivery
from yaffle.ports.context import DriverContext
from yaffle.testing import check_alert_driver


def driver(program: object, **more: object) -> ExecAlerts:
    settings = {"program": str(program), **more} if program else more
    context = DriverContext(
        clock=SystemClock(),
        state_dir=Path("/nonexistent"),
        settings=settings,
        section="alerts.recovery",
    )
    return ExecAlerts(context)


def write(folder: Path, text: str) -> Path:
    program = folder / "recover"
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)
    return program


def send(program: Path, deadline_s: float = 15.0) -> tuple[Delivery, str]:
    return asyncio.run(driver(program).send(FAILURE, deadline_s=deadline_s))


def test_it_keeps_the_promises_of_the_port(tmp_path: Path) -> None:
    program = write(tmp_path, f"test -e {tmp_path}/hang && exec sleep 60; cat > /dev/null")

    @asynccontextmanager
    async def hanging() -> AsyncIterator[None]:
        (tmp_path / "hang").touch()
        yield
        (tmp_path / "hang").unlink()

    asyncio.run(check_alert_driver(driver(program), clock=SystemClock(), hang=hanging))


def test_the_program_is_given_the_json_of_the_seed_and_nothing_else(tmp_path: Path) -> None:
    program = write(tmp_path, f'cat > {tmp_path}/told; echo "$#" > {tmp_path}/words; echo taken')
    assert send(program) == (Delivery.ACCEPTED, "exit 0: taken")
    assert json.loads((tmp_path / "told").read_text()) == FAILURE.document()
    assert (tmp_path / "words").read_text() == "0\n"


@pytest.mark.parametrize(
    ("text", "delivery", "said"),
    [
        ("exit 0", Delivery.ACCEPTED, "exit 0"),
        ("echo no such host >&2; exit 65", Delivery.REFUSED, "exit 65: no such host"),
        ("echo later; exit 1", Delivery.RETRY, "exit 1: later"),
        ("exit 75", Delivery.RETRY, "exit 75"),
        ("kill -9 $$", Delivery.RETRY, ""),
        ("exec sleep 60", Delivery.RETRY, ""),
    ],
)
def test_only_an_exit_with_0_takes_a_failure_over(
    tmp_path: Path, text: str, delivery: Delivery, said: str
) -> None:
    found, line = send(write(tmp_path, text), deadline_s=5.0)
    assert found is delivery
    assert line.startswith(said)
    assert line, "why is said"


def test_what_it_starts_does_not_outlive_its_time(tmp_path: Path) -> None:
    program = write(tmp_path, f"setsid sleep 300 & echo $! > {tmp_path}/pid; sleep 300")
    began_s = time.monotonic()
    assert send(program, deadline_s=5.0)[0] is Delivery.RETRY
    assert time.monotonic() - began_s < 8
    pid = int((tmp_path / "pid").read_text())
    wait_for(lambda: not Path(f"/proc/{pid}").exists())


def test_a_program_that_was_removed_is_told_to_later(tmp_path: Path) -> None:
    program = write(tmp_path, "exit 0")
    alerts = driver(program)
    program.unlink()
    assert asyncio.run(alerts.send(FAILURE, deadline_s=5.0))[0] is Delivery.RETRY


@pytest.mark.parametrize(
    ("program", "more", "named"),
    [
        ("", {}, "alerts.recovery.program is missing"),
        ("recover", {}, "alerts.recovery.program must be an absolute path"),
        ("/nonexistent/recover", {}, "which is no program that may be run here"),
        ("/etc/passwd", {}, "which is no program that may be run here"),
        ("/bin/true", {"args": ["x"]}, "args"),
    ],
)
def test_settings_that_could_lose_a_failure_are_refused(
    program: str, more: dict[str, object], named: str
) -> None:
    with pytest.raises(ConfigError, match=named):
        driver(program, **more)
