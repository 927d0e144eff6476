"""How a process says of itself how it is: on its API's port, and on sockets that outlive its loop."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import urllib.request
from pathlib import Path

import pytest
from tests.functional.cli.support import Server, run, wait_for

from yaffle.api.diagnostics.report import Check
from yaffle.api.diagnostics.report import Status as Bad
from yaffle.api.self_health import Vitals
from yaffle.cli.client import address
from yaffle.config import HealthcheckSettings
from yaffle.engine.runtime.clock import SystemClock
from yaffle_health import Status
from yaffle_health.reader import Reading, target
from yaffle_health.reader import read as read_from


def read(place: str) -> Reading:
    return read_from(target(place), timeout_s=30)


def checks(reading: Reading) -> dict[str, Status]:
    assert reading.health is not None, reading
    return {check.name: check.status for check in reading.health.checks}


def address_of(server: Server) -> str:
    found = address.read(server.state_dir)
    assert found is not None
    return found.url


@pytest.fixture
def place(tmp_path: Path) -> str:
    return f"unix://{tmp_path}/health"


def test_a_server_says_how_it_is_on_a_socket_of_its_own(tmp_path: Path, place: str) -> None:
    server = Server(tmp_path / "state", env={"YAFFLE_HEALTHCHECK__URI": place})
    server.start()
    try:
        reading = wait_for(lambda: (r := read(place)).health and r)
        wait_for(lambda: checks(read(place)).get("engine") is Status.PASS)
        reading = read(place)
        assert checks(reading).keys() >= {"engine", "event_loop", "prober"}
        assert reading.health.service.description == "yaffle-serve"
        with urllib.request.urlopen(
            f"{address_of(server)}/health?format=ietf", timeout=60
        ) as answer:
            body = json.load(answer)
            assert answer.headers["Content-Type"] == "application/health+json"
        assert isinstance(body["checks"]["engine"], list)
    finally:
        server.stop()
    assert not (tmp_path / "health").exists(), "its socket goes with it"


def test_a_wrong_address_is_refused_by_name(tmp_path: Path) -> None:
    done = run(
        "serve", "--state-dir", str(tmp_path), env={"YAFFLE_HEALTHCHECK__URI": "tcp://h:424242"}
    )
    assert done.code != 0
    assert "healthcheck.uri" in done.err
    assert "424242" in done.err


def test_an_address_that_is_taken_is_told_and_ends_nothing(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        server = Server(
            tmp_path / "state", env={"YAFFLE_HEALTHCHECK__URI": f"tcp://127.0.0.1:{port}"}
        )
        server.start()
        try:
            line = server.running.line("no health endpoint")
            assert str(port) in line
            with urllib.request.urlopen(f"{address_of(server)}/health", timeout=60) as answer:
                assert answer.status == 200
        finally:
            server.stop()


def test_a_loop_that_hangs_is_seen_from_outside(place: str) -> None:
    """The thread of the endpoint answers while the loop does not."""
    hung, seen = threading.Event(), threading.Event()

    def outside() -> None:
        hung.wait(60)
        wait_for(lambda: checks(read(place)).get("event_loop") is Status.FAIL)
        seen.set()

    async def inside() -> None:
        vitals = Vitals(description="test", host="h")
        vitals.look = list
        with vitals.open(HealthcheckSettings(uri=place)):
            keeping = asyncio.create_task(vitals.keep(SystemClock(), hung_s=0.3))
            while checks(read(place)) != {"event_loop": Status.PASS}:
                await asyncio.sleep(0.01)
            hung.set()
            assert seen.wait(60), "nobody saw it"
            async with asyncio.timeout(60):
                while checks(read(place))["event_loop"] is Status.FAIL:
                    await asyncio.sleep(0.05)
            keeping.cancel()

    watcher = threading.Thread(target=outside)
    watcher.start()
    asyncio.run(inside())
    watcher.join()


def test_what_is_asked_about_no_more_is_forgotten() -> None:
    vitals = Vitals(description="test", host="h")
    vitals.refresh()
    assert vitals.manager.health().status is Status.FAIL
    assert [c.name for c in vitals.manager.health().checks] == ["database"]
    vitals.look = lambda: [Check(name="engine", status=Bad.WARN, detail="slow")]
    vitals.refresh()
    (only,) = vitals.manager.health().checks
    assert (only.name, only.status, only.output) == ("engine", Status.WARN, "slow")
