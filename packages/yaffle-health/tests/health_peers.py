"""Peers for the reader: a listener that answers with bytes that a test wrote by hand."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

Script = Callable[[socket.socket], None]


def saying(*pieces: bytes) -> Script:
    """Return a script that reads a request and answers with these pieces, then closes."""

    def script(connection: socket.socket) -> None:
        connection.recv(65536)
        for piece in pieces:
            connection.sendall(piece)

    return script


def answer(status: int, body: str, *headers: str) -> bytes:
    """Return an HTTP answer with a Content-Length."""
    whole = body.encode()
    lines = [f"HTTP/1.1 {status} Words", f"Content-Length: {len(whole)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + whole


@contextlib.contextmanager
def listening(where: Path | None, script: Script, *, backlog: int = 16) -> Iterator[socket.socket]:
    """Listen at a path, or on a free TCP port, and play the script to each who connects."""
    family = socket.AF_INET if where is None else socket.AF_UNIX
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.bind(("127.0.0.1", 0) if where is None else str(where))
        listener.listen(backlog)
        threading.Thread(target=_serve, args=(listener, script), daemon=True).start()
        try:
            yield listener
        finally:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)


def _serve(listener: socket.socket, script: Script) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=_play, args=(connection, script), daemon=True).start()


def _play(connection: socket.socket, script: Script) -> None:
    with connection, contextlib.suppress(OSError):
        script(connection)


def port_of(listener: socket.socket) -> int:
    """Return the TCP port of a listener."""
    port: int = listener.getsockname()[1]
    return port
