"""A server that cannot answer now is asked again when it says, for reads, within the command's limit."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from yaffle.cli.client.deadlines import Deadline, limited
from yaffle.cli.client.native import Api, Refused, ServerAway

AWAY = {"error": {"code": 503, "type": "Unavailable", "message": "the database is away"}}
FINE = {"clusters": []}


class Front(ThreadingHTTPServer):
    """What stands before several servers: answers from a script, then well."""

    daemon_threads = True

    def __init__(self, script: list[tuple[int, str, bytes]]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.script = script
        self.asked: list[str] = []


class Handler(BaseHTTPRequestHandler):
    server: Front
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.server.asked.append(f"{self.command} {self.path}")
        fine = (200, "", json.dumps(FINE).encode())
        status, after, body = self.server.script.pop(0) if self.server.script else fine
        if status == 0:
            # A server that is killed: the connection ends before any answer.
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        self.send_response(status)
        if after:
            self.send_header("Retry-After", after)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET  # noqa: N815 - the name is the library's

    def log_message(self, *_: object) -> None:
        return


@contextmanager
def front(*script: tuple[int, str, bytes]) -> Iterator[Front]:
    server = Front(list(script))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join(10)
        server.server_close()


def api(server: Front) -> Api:
    return Api(f"http://127.0.0.1:{server.server_address[1]}")


def away(after: str) -> tuple[int, str, bytes]:
    return 503, after, json.dumps(AWAY).encode()


def test_a_read_is_sent_again_when_the_server_says(capsys: pytest.CaptureFixture[str]) -> None:
    with front(away("0"), away("0")) as server, api(server) as client:
        assert client.get("clusters") == FINE
        assert len(server.asked) == 3
    assert capsys.readouterr().err.count("asking again") == 1


def test_its_time_is_kept() -> None:
    with front(away("1")) as server, api(server) as client:
        began = time.monotonic()
        assert client.get("clusters") == FINE
        assert time.monotonic() - began >= 1


def test_what_changes_something_is_sent_once() -> None:
    with front(away("0")) as server, api(server) as client:
        with pytest.raises(Refused, match="the database is away"):
            client.post("stop")
        assert len(server.asked) == 1


@pytest.mark.parametrize("after", ["", "5", "soon"])
def test_the_commands_own_limit_ends_it(after: str) -> None:
    with front(away(after)) as server, api(server) as client, limited(Deadline(2)):
        with pytest.raises(Refused) as refused:
            client.get("clusters")
        assert refused.value.status == 503
        assert len(server.asked) == 1


def test_a_page_of_what_stands_before_the_servers() -> None:
    with front((503, "", b"<html>no server is available")) as server, api(server) as client:
        assert client.get("clusters") == FINE


def test_a_server_that_dies_in_the_middle_costs_one_more_read() -> None:
    with front((0, "", b"")) as server, api(server) as client:
        assert client.get("clusters") == FINE
        server.script[:] = [(0, "", b""), (0, "", b"")]
        with pytest.raises(ServerAway, match="in the middle"):
            client.get("clusters")
        server.script[:] = [(0, "", b"")]
        with pytest.raises(ServerAway, match="whether it was done is unknown"):
            client.post("stop")
        assert server.script == []
