"""Threads that never pile up: deadlines, a full queue, a cloud that takes requests and says nothing."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from tests.given import Given

from yaffle.engine.runtime.clock import SystemClock
from yaffle.errors import ConfigError
from yaffle.integrations.driver_settings import Section
from yaffle.integrations.openstack import (
    ApplicationCredential,
    Client,
    Cloud,
    CloudBusy,
    CloudsYaml,
    CloudUnavailable,
    read_credentials,
)
from yaffle.integrations.openstack import client as client_module

CLOCK = SystemClock()


@contextmanager
def silent() -> Iterator[str]:
    """A port that accepts connections, and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v3"


def cloud(url: str, *, threads: int = 2, queue: int = 2) -> Cloud:
    credentials = ApplicationCredential(auth_url=url, id="id", secret="secret")
    return Cloud(credentials, CLOCK, threads=threads, queue=queue)


def ask(client: Client) -> str:
    client.get("compute", "/servers")
    return "answered"


def test_a_cloud_that_says_nothing_ends_within_the_deadline_and_frees_its_thread() -> None:
    async def scene(url: str) -> None:
        made = cloud(url, threads=1)
        await made.call(lambda _: None, 30.0)
        with Given() as time_given:
            with pytest.raises((CloudUnavailable, TimeoutError)):
                await made.call(ask, 1.0)
            assert time_given.s < 2.5
        await made.call(lambda _: None, 30.0)

    with silent() as url:
        asyncio.run(scene(url))


def test_a_port_where_nobody_listens_was_not_sent_to() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(CloudUnavailable) as error:
        asyncio.run(cloud(f"http://127.0.0.1:{port}/v3").call(ask, 10.0))
    assert error.value.sent is False


def test_nothing_is_sent_too_late_to_hear_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    # All times a hundred times as long: our own thread may be held up for longer than they are.
    monkeypatch.setattr(client_module, "_ACT_MIN_S", 100 * client_module._ACT_MIN_S)

    def late(client: Client) -> None:
        client.act("POST", "compute", "/servers")

    with silent() as url, pytest.raises(CloudBusy, match="too late"):
        asyncio.run(_warm(cloud(url), late, 25.0))


async def _warm(made: Cloud, work: object, deadline_s: float) -> object:
    """Call after the libraries are loaded, which takes longer than a short deadline."""
    await made.call(lambda _: None, 30.0)
    return await made.call(work, deadline_s)  # type: ignore[arg-type]


def test_a_full_queue_refuses_at_once_and_recovers() -> None:
    release = threading.Event()

    async def scene() -> None:
        made = cloud("http://127.0.0.1:1/v3", threads=2, queue=2)
        await made.call(lambda _: None, 30.0)
        async with asyncio.TaskGroup() as tasks:
            held = [
                tasks.create_task(made.call(lambda _: release.wait(60.0), 60.0)) for _ in range(4)
            ]
            await asyncio.sleep(0)
            with pytest.raises(CloudBusy, match="wait already"):
                await made.call(lambda _: None, 30.0)
            release.set()
            assert all([await one for one in held])
        await made.call(lambda _: None, 30.0)

    asyncio.run(scene())


def test_what_waited_too_long_in_our_queue_is_not_begun() -> None:
    release, begun, busy = threading.Event(), threading.Event(), threading.Event()

    def hold(_: Client) -> None:
        busy.set()
        release.wait(60.0)

    async def scene() -> None:
        made = cloud("http://127.0.0.1:1/v3", threads=1, queue=2)
        await made.call(lambda _: None, 30.0)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(made.call(hold, 60.0))
            assert await asyncio.to_thread(busy.wait, 60.0)
            with pytest.raises(TimeoutError):
                await made.call(lambda _: begun.set(), 0.2)
            release.set()
        await made.call(lambda _: None, 30.0)

    asyncio.run(scene())
    assert not begun.is_set()


def test_a_cloud_that_is_not_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "clouds.yaml"
    file.write_text("clouds:\n  mine: {auth: {auth_url: 'http://127.0.0.1:1'}}\n")
    made = Cloud(CloudsYaml(name="yours", file=file), CLOCK)
    with pytest.raises(CloudUnavailable, match="yours"):
        asyncio.run(made.call(ask, 30.0))


def test_settings_name_a_cloud_and_a_file_that_is_there(tmp_path: Path) -> None:
    for values, fault in (
        ({}, r"drivers\.x\.cloud must be"),
        ({"cloud": "c", "clouds_file": str(tmp_path / "no")}, "there is no such file"),
    ):
        read_credentials(section := Section("drivers.x", values))
        with pytest.raises(ConfigError, match=fault):
            section.finish()
    assert read_credentials(Section("drivers.x", {"cloud": "c"})) == CloudsYaml(name="c")


def test_secrets_are_not_shown() -> None:
    assert "hidden" not in repr(ApplicationCredential(auth_url="u", id="i", secret="hidden"))


def test_an_operator_may_know_better_than_the_catalog(tmp_path: Path) -> None:
    asked: list[str] = []

    class Service(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

    with HTTPServer(("127.0.0.1", 0), Service) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        here = f"http://127.0.0.1:{server.server_address[1]}"
        file = tmp_path / "clouds.yaml"
        file.write_text(
            "clouds:\n  lab:\n    auth_type: none\n"
            f"    auth: {{endpoint: {here}/other}}\n    workflow_endpoint_override: {here}/there\n"
        )
        made = Cloud(CloudsYaml(name="lab", file=file), CLOCK)
        asyncio.run(made.call(lambda client: client.get("workflow", "/executions"), 30.0))
        asyncio.run(made.call(lambda client: client.get("image", "/images"), 30.0))
        server.shutdown()
    assert asked == ["/there/executions", "/other/images"]
