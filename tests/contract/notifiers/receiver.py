"""A real HTTP receiver on a free loopback port whose manners a test chooses per request."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Seen:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


Manner = Callable[[BaseHTTPRequestHandler, Seen], None]


def say(status: int, body: bytes = b"", **headers: str) -> Manner:
    """Answer properly, and say that the connection is over: a client that keeps it would lose
    the next request in the close."""

    def manner(handler: BaseHTTPRequestHandler, seen: Seen) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", str(len(body)))
        handler.send_header("Connection", "close")
        handler.end_headers()
        handler.wfile.write(body)

    return manner


def raw(data: bytes) -> Manner:
    """Write these bytes and close."""
    return lambda handler, seen: void(handler.wfile.write(data))


def reset(handler: BaseHTTPRequestHandler, seen: Seen) -> None:
    """Answer with a RST."""
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")


def void(value: object) -> None:
    """Drop a value."""


@dataclass
class Receiver:
    """Records every request; plays `manners` in turn, the last one for ever."""

    port: int
    manners: list[Manner]
    seen: list[Seen] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def hang(self, handler: BaseHTTPRequestHandler, seen: Seen) -> None:
        """Take the request and say nothing until the test is over."""
        self.over.wait(60)

    def flood(self, handler: BaseHTTPRequestHandler, seen: Seen) -> None:
        """Answer with a body that has no end."""
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
        while not self.over.is_set():
            handler.wfile.write(b"." * 65_536)

    def drip(self, handler: BaseHTTPRequestHandler, seen: Seen) -> None:
        """Answer one byte at a time, for ever, each well within any read timeout."""
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        while not self.over.wait(0.05):
            handler.wfile.write(b".")
            handler.wfile.flush()


@contextlib.contextmanager
def receiver(
    *manners: Manner, wrap: Callable[[socket.socket], socket.socket] | None = None
) -> Iterator[Receiver]:
    """Serve until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            length = int(self.headers.get("Content-Length", "0"))
            seen = Seen(self.command, self.path, dict(self.headers), self.rfile.read(length))
            number = len(state.seen)
            state.seen.append(seen)
            self.close_connection = True
            with contextlib.suppress(OSError):
                state.manners[min(number, len(state.manners) - 1)](self, seen)

        do_POST = do_GET = handle_any  # noqa: N815 - the names that http.server looks for

        def log_message(self, *args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False

        def handle_error(self, request: object, client_address: object) -> None:
            pass

        def shutdown_request(self, request: socket.socket) -> None:  # type: ignore[override]
            linger = request.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8)
            if linger[:1] != b"\1":
                super().shutdown_request(request)
            else:
                request.close()

    server = Server(("127.0.0.1", 0), Handler)
    if wrap is not None:
        server.socket = wrap(server.socket)
    state = Receiver(server.server_address[1], list(manners) or [say(200)])
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield state
    finally:
        state.over.set()
        server.shutdown()
        server.server_close()
        thread.join(60)
