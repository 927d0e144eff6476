"""The API of `yaffle serve` is a process of its own: whatever becomes of it, the healing goes on."""

from __future__ import annotations

import errno
import json
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import httpx
import psutil
import pytest
from tests.functional.cli.support import (
    API,
    POLICY,
    Server,
    profile_document,
    serving,
    swept,
    wait_for,
)

from yaffle import config
from yaffle.api.http.server import bind
from yaffle.cli.serve import link
from yaffle.config import Settings
from yaffle.prober.wire import Frames


@dataclass
class Watched:
    """A server with one page that it heals."""

    server: Server
    mark: str

    @property
    def pid(self) -> int:
        assert self.server.running is not None
        return self.server.running.process.pid

    @property
    def log(self) -> str:
        assert self.server.running is not None
        return self.server.running.text

    @property
    def url(self) -> str:
        return str(json.loads((self.server.state_dir / "server.json").read_text())["url"])

    def status(self, path: str) -> int:
        """Return how a request ends; 0 where nobody answers it within a second."""
        with suppress(httpx.TransportError):
            return httpx.get(self.url + path, timeout=1, verify=False).status_code
        return 0

    def heals(self) -> None:
        """Kill the page and see another in its place."""
        (victim,) = wait_for(lambda: serving(self.mark)) or set()
        os.kill(victim, signal.SIGKILL)
        wait_for(lambda: serving(self.mark) - {victim}, within_s=120, why=lambda: self.log[-4000:])


def refused(host: str, port: int) -> bool:
    """Whether nobody holds the listening socket any more."""
    with socket.socket() as sock:
        return sock.connect_ex((host, port)) == errno.ECONNREFUSED


@contextmanager
def watched(path: Path) -> Iterator[Watched]:
    mark = f"api-{uuid.uuid4().hex}"
    # The usual lease, of which an API process that stands still amid a write may cost a half.
    server = Server(path / "state")
    with swept(mark):
        server.start()
        assert server.running is not None
        try:
            server.ok("profile", "create", "page", "-", given=profile_document(mark))
            server.ok("policy", "create", "care", "-", given=POLICY)
            made = ("cluster", "create", "web", "--profile", "page", "--size", "1")
            server.ok(*made, "--policy", "care")
            wait_for(lambda: serving(mark))
            yield Watched(server, mark)
        finally:
            if server.running is not None:
                with suppress(ProcessLookupError):
                    server.running.signal(signal.SIGCONT)
                server.stop()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "frozen"])
def test_killed_or_frozen_it_is_replaced_and_the_healing_does_not_wait_for_it(
    tmp_path: Path, number: signal.Signals
) -> None:
    with watched(tmp_path) as here:
        before = here.server.api()
        before.send_signal(number)
        wait_for(lambda: here.status("/readyz") == 200, within_s=45)
        assert here.server.api().pid != before.pid
        here.server.api().send_signal(number)
        here.heals()
        wait_for(lambda: here.status("/readyz") == 200)
        assert here.log.count('"session began"') == 1, here.log[-4000:]
        row = next(
            check
            for check in here.server.ok("doctor", "--json").json["checks"]
            if check["name"] == "engine"
        )
        assert row["status"] == "ok"


def test_frozen_in_the_middle_of_a_write_it_costs_no_lease(tmp_path: Path) -> None:
    with watched(tmp_path) as here, ExitStack() as stack:
        over = threading.Event()
        profile = json.loads(profile_document(here.mark))

        def write() -> None:
            with httpx.Client(base_url=here.url, timeout=5, verify=False) as client:
                while not over.is_set():
                    body = {"profile": {"name": uuid.uuid4().hex, "spec": profile}}
                    with suppress(httpx.TransportError):
                        client.post("/v1/profiles", json=body)

        writers = [threading.Thread(target=write) for _ in range(6)]
        stack.callback(lambda: [writer.join(60) for writer in writers])
        stack.callback(over.set)
        for writer in writers:
            writer.start()
        for _ in range(3):
            frozen = here.server.api()
            wait_for(lambda: here.status("/readyz") == 200, within_s=120)
            frozen.send_signal(signal.SIGSTOP)
            # That it was replaced is seen before it could have been by the lease.
            wait_for(lambda old=frozen.pid: here.server.api().pid != old, within_s=60)
        over.set()
        here.heals()
        assert here.log.count('"session began"') == 1, here.log[-4000:]


@contextmanager
def child(settings: Settings) -> Iterator[socket.socket]:
    """Be the engine of an API process, and yield our end of the pipe to it."""
    ours, theirs = socket.socketpair()
    with ours, theirs, bind("127.0.0.1:0") as listening:
        words = [sys.executable, "-P", "-m", API, str(theirs.fileno()), str(listening.fileno())]
        process = subprocess.Popen(
            [*words, str(os.getpid())], pass_fds=(theirs.fileno(), listening.fileno())
        )
        theirs.close()
        ours.sendall(link.frame(link.Begin(pickle.dumps(settings))))
        ours.sendall(link.frame(link.Open()))
        try:
            yield ours
        finally:
            process.kill()
            process.wait(60)


def failed(pipe: socket.socket) -> link.Failed:
    """Return the error that it ends with."""
    pipe.settimeout(120)
    frames = Frames()
    while data := pipe.recv(65_536):
        for body in frames.feed(data):
            message = link.to_engine.decode(body)
            if isinstance(message, link.Failed):
                return message
    raise AssertionError("it ended without a word")


def test_what_it_cannot_start_with_is_told_and_only_a_setting_ends_the_engine(
    tmp_path: Path,
) -> None:
    damaged = tmp_path / "damaged.db"
    damaged.write_bytes(b"no database at all" * 100)
    damaged.chmod(0o600)
    for flags, permanent, said in (
        ({"server": {"listen": "0.0.0.0:0"}}, True, "server.token_file"),
        ({"database": {"url": f"sqlite:///{damaged}"}}, False, "not a database"),
    ):
        settings = config.load(None, {"state_dir": tmp_path / "state", **flags})
        with child(settings) as pipe:
            told = failed(pipe)
        assert (told.permanent, said in told.error) == (permanent, True), told


def test_settings_reach_it_as_they_are(tmp_path: Path) -> None:
    flags = {"engine": {"lease": float("inf")}, "drivers": {"x": {"on": date(2026, 11, 25)}}}
    settings = config.load(None, {"state_dir": tmp_path, **flags})
    assert pickle.loads(pickle.dumps(settings)) == settings


def test_it_ends_with_its_engine(tmp_path: Path) -> None:
    with watched(tmp_path) as here:
        api, url = here.server.api(), here.url
        # No signal of a terminal or a supervisor ends it on its own.
        api.send_signal(signal.SIGTERM)
        api.send_signal(signal.SIGINT)
        assert here.status("/livez") == 200
        os.kill(here.pid, signal.SIGKILL)
        host, _, port = url.removeprefix("http://").rpartition(":")
        wait_for(lambda: refused(host, int(port)), within_s=30)
        assert here.server.running is not None
        here.server.running.end()
        here.server.running = None
        here.server.start()
        here.heals()


def test_an_engine_that_stands_still_is_not_called_well(tmp_path: Path) -> None:
    with watched(tmp_path) as here:
        os.kill(here.pid, signal.SIGSTOP)
        wait_for(lambda: here.status("/health") == 503, within_s=60)
        assert here.status("/livez") == 200
        told = httpx.get(here.url + "/health", timeout=60, verify=False).json()
        assert told["checks"]["engine"]["status"] == "fail", told
        assert httpx.get(here.url + "/metrics", timeout=60, verify=False).status_code == 503
        rows = here.server.cli("doctor", "--json").json["checks"]
        assert [row["status"] for row in rows if row["name"] == "engine"] == ["fail"], rows
        os.kill(here.pid, signal.SIGCONT)
        wait_for(lambda: here.status("/health") == 200, within_s=120)
        here.heals()


def test_no_client_takes_a_descriptor_of_the_engine(tmp_path: Path) -> None:
    with watched(tmp_path) as here, ExitStack() as stack:
        engine = psutil.Process(here.pid)
        host, _, port = here.url.removeprefix("http://").rpartition(":")
        before, api_before = engine.num_fds(), here.server.api().num_fds()
        for _ in range(300):
            stack.enter_context(socket.create_connection((host, int(port)), timeout=60))
        wait_for(lambda: here.server.api().num_fds() > api_before + 200, within_s=60)
        assert engine.num_fds() < before + 50
