"""Floods from outside, without credentials, against a real `yaffle serve`: the healing goes on."""

from __future__ import annotations

import json
import os
import resource
import selectors
import signal
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import httpx
import pytest
from tests.functional.cli.support import (
    POLICY,
    Server,
    pages,
    profile_document,
    serving,
    swept,
    wait_for,
)

REQUEST = b"GET %b HTTP/1.1\r\nHost: localhost\r\n\r\n"
LOG_MAX = 256 * 1024
"""What a flood may make of the log (bytes); an engine that heals writes some of it."""


@dataclass
class Besieged:
    """A server with a cluster of two pages, and where it listens."""

    server: Server
    mark: str
    address: tuple[str, int] = field(init=False)

    def __post_init__(self) -> None:
        card = json.loads((self.server.state_dir / "server.json").read_text())
        host, _, port = card["url"].removeprefix("http://").rpartition(":")
        self.address = host, int(port)

    @property
    def log(self) -> str:
        assert self.server.running is not None
        return self.server.running.text

    def ask(self, method: str, path: str, body: object = None) -> httpx.Response:
        """Ask on a connection of its own, again where it is told to come again."""

        def tried() -> httpx.Response | None:
            with suppress(httpx.TransportError):
                url = f"http://{self.address[0]}:{self.address[1]}{path}"
                answer = httpx.request(method, url, json=body, timeout=60, verify=False)
                if "retry-after" not in answer.headers:
                    return answer
            return None

        found = wait_for(tried, within_s=90)
        assert found is not None
        return found

    def heals(self) -> None:
        """Kill a page and see another in its place."""
        before = serving(self.mark)
        victim = min(before)
        os.kill(victim, signal.SIGKILL)
        wait_for(
            lambda: len(serving(self.mark) - {victim}) == len(before),
            within_s=120,
            why=lambda: self.log[-4000:],
        )

    def holds(self) -> None:
        """Be well, heal, and obey, whatever else goes on."""
        assert self.ask("GET", "/health").status_code == 200
        self.heals()
        assert self.ask("POST", "/yaffle/v1/stop", {"reason": "flood"}).is_success
        pause = {"reason": "flood", "scope": "cluster", "target": "web", "for_s": 600}
        assert self.ask("POST", "/yaffle/v1/maintenance", pause).is_success
        assert self.ask("DELETE", "/yaffle/v1/stop").is_success
        # One that lost its lease has begun another session.
        assert self.log.count('"session began"') == 1, self.log[-4000:]
        assert len(self.log) < LOG_MAX


@contextmanager
def besieged(path: Path, files: tuple[int, int] | None = None) -> Iterator[Besieged]:
    """Start a server, with limits of descriptors if given, and wait until it is well."""
    mark = f"flood-{uuid.uuid4().hex}"
    # Longer than usual: a busy machine alone must not end it.
    server = Server(path / "state", env={"YAFFLE_ENGINE__LEASE": "30"})
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with swept(mark):
        if files is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (files[0], before[1]))
        try:
            server.start()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
        assert server.running is not None
        try:
            if files is not None:
                resource.prlimit(server.running.process.pid, resource.RLIMIT_NOFILE, files)
            server.ok("profile", "create", "page", "-", given=profile_document(mark))
            server.ok("policy", "create", "care", "-", given=POLICY)
            made = ("cluster", "create", "web", "--profile", "page", "--size", "2")
            server.ok(*made, "--policy", "care")
            wait_for(lambda: len(serving(mark)) == 2)
            assert len(pages(mark)) == 2
            yield Besieged(server, mark)
        finally:
            if server.running is not None:
                server.stop()


@contextmanager
def silent(address: tuple[str, int], count: int) -> Iterator[list[socket.socket]]:
    """Hold connections that never say a word; those that are ended are opened again."""
    held: list[socket.socket] = []
    over = threading.Event()
    opened = [0]

    def hold() -> None:
        while not over.is_set():
            while len(held) < count and not over.is_set():
                try:
                    held.append(socket.create_connection(address, timeout=5))
                except OSError:
                    break
                opened[0] += 1
            for one in list(held):
                one.setblocking(False)
                with suppress(BlockingIOError):
                    try:
                        gone = one.recv(4096) == b""
                    except ConnectionError:
                        gone = True
                    if gone:
                        one.close()
                        held.remove(one)
            over.wait(0.2)

    holder = threading.Thread(target=hold)
    holder.start()
    try:
        wait_for(lambda: opened[0] >= count, within_s=60)
        yield held
    finally:
        over.set()
        holder.join(60)
        for one in held:
            one.close()


def test_a_thousand_silent_connections_with_a_thousand_descriptors(tmp_path: Path) -> None:
    with besieged(tmp_path, (1024, 4096)) as siege, silent(siege.address, 1100):
        siege.holds()


def test_out_of_descriptors_it_says_so_once_a_second_and_goes_on(tmp_path: Path) -> None:
    with besieged(tmp_path) as siege:
        pid = siege.server.api().pid
        used = sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
        # Less than it believed to have when it started: descriptors run out for other reasons, too.
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (used + 60, used + 60))
        began = time.monotonic()
        with silent(siege.address, 100):
            wait_for(lambda: "cannot accept" in siege.log, within_s=60)
            assert siege.ask("GET", "/health").status_code in {200, 503}
            told = siege.log.count("cannot accept")
            assert told <= time.monotonic() - began + 2
            # They are the API's: the engine's are its own.
            siege.heals()
        assert siege.ask("GET", "/health").status_code == 200


@contextmanager
def flooded(address: tuple[str, int], count: int, said: bytes, *, read: bool) -> Iterator[None]:
    """Say the same again and again on so many connections, whether or not the answers are read."""
    over = threading.Event()

    def flood() -> None:
        with selectors.DefaultSelector() as ready, ExitStack() as stack:
            mask = selectors.EVENT_WRITE | (selectors.EVENT_READ if read else 0)

            def connect() -> None:
                sock = stack.enter_context(socket.socket())
                sock.setblocking(False)
                sock.connect_ex(address)
                # What has been sent of a whole round of requests.
                ready.register(sock, mask, data=[0])

            for _ in range(count):
                connect()
            while not over.is_set():
                for key, found in ready.select(0.1):
                    sock, sent = cast("socket.socket", key.fileobj), key.data
                    try:
                        if found & selectors.EVENT_WRITE:
                            sent[0] = (sent[0] + sock.send(said[sent[0] :])) % len(said)
                        if found & selectors.EVENT_READ and not sock.recv(1 << 20):
                            raise ConnectionResetError
                    except BlockingIOError:
                        continue
                    except OSError:
                        ready.unregister(sock)
                        sock.close()
                        connect()

    thread = threading.Thread(target=flood)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(60)


@pytest.mark.parametrize("path", [b"/docs", b"/v1/clusters"])
def test_pipelining_takes_no_lease(tmp_path: Path, path: bytes) -> None:
    with besieged(tmp_path) as siege, flooded(siege.address, 200, REQUEST % path * 50, read=True):
        siege.holds()


def test_answers_that_nobody_reads_hold_nobody_up(tmp_path: Path) -> None:
    with (
        besieged(tmp_path) as siege,
        flooded(siege.address, 200, REQUEST % b"/docs" * 50, read=False),
    ):
        siege.holds()


def test_bodies_that_never_end_hold_nobody_up(tmp_path: Path) -> None:
    said = b"POST /yaffle/v1/policies/validate HTTP/1.1\r\nHost: localhost\r\n"
    said += b"Content-Type: application/json\r\nContent-Length: 100000\r\n\r\n"
    with besieged(tmp_path) as siege, ExitStack() as stack:
        for _ in range(200):
            sock = stack.enter_context(socket.create_connection(siege.address, timeout=60))
            sock.sendall(said)
        siege.holds()
        assert siege.ask("GET", "/v1/clusters").status_code == 200
