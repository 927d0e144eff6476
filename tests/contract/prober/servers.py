"""Small honest servers, each with one way of misbehaving; every one runs in threads of its own."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

from tests.servers.process import free_port
from tests.waiting import wait_for

__all__ = ["free_port"]
Behaviour = Callable[[socket.socket], None]


def answer(body: bytes = b"ok", status: str = "200 OK", headers: str = "") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{headers}\r\n"
    return head.encode() + body


class Server:
    """Accepts on a free loopback port and hands each connection to `behave`."""

    def __init__(self, behave: Behaviour, host: str = "127.0.0.1") -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, 0), family=family, backlog=512)
        self._behave = behave
        self._open: set[socket.socket] = set()
        self.host = host
        self.port: int = self._listener.getsockname()[1]
        self.connections = 0
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}/health"

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._open.add(sock)
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        with contextlib.suppress(OSError):
            self._behave(sock)
        self._open.discard(sock)
        sock.close()

    def close(self) -> None:
        # shutdown wakes the accepting thread; close alone leaves it in the system call.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for sock in list(self._open):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_request(sock: socket.socket) -> bytes:
    """One whole request, or what came before the other side closed."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = sock.recv(4096)
        if not more:
            break
        data += more
    return data


def says(data: bytes) -> Behaviour:
    def behave(sock: socket.socket) -> None:
        read_request(sock)
        sock.sendall(data)

    return behave


def pieces(data: bytes, size: int, gap_s: float) -> Behaviour:
    def behave(sock: socket.socket) -> None:
        read_request(sock)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for start in range(0, len(data), size):
            sock.sendall(data[start : start + size])
            time.sleep(gap_s)

    return behave


def endless(first: bytes, then: bytes) -> Behaviour:
    def behave(sock: socket.socket) -> None:
        read_request(sock)
        sock.sendall(first)
        while True:
            sock.sendall(then)

    return behave


def silent(sock: socket.socket) -> None:
    while sock.recv(4096):
        pass


def closes(sock: socket.socket) -> None:
    read_request(sock)


def unread(sock: socket.socket) -> int:
    """Return how many bytes wait for whoever is at the other end, as the kernel tells."""
    ends = f":{sock.getpeername()[1]:04X}", f":{sock.getsockname()[1]:04X}"
    for line in Path("/proc/net/tcp").read_text().splitlines():
        _, local, remote, _, queues, *_ = line.split()
        if local.endswith(ends[0]) and remote.endswith(ends[1]):
            return int(queues.partition(":")[2], 16)
    return 0


def resets(first: bytes = b"") -> Behaviour:
    def behave(sock: socket.socket) -> None:
        read_request(sock)
        if first:
            sock.sendall(first)
            # The first bytes must be read before the reset destroys them.
            wait_for(lambda: unread(sock) == 0, every_s=0.01)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    return behave


def answers_anything(data: bytes) -> Behaviour:
    """To whatever comes first, even if it is no request."""

    def behave(sock: socket.socket) -> None:
        sock.recv(4096)
        sock.sendall(data)

    return behave


def resets_anything(sock: socket.socket) -> None:
    sock.recv(4096)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def keeps(count: list[int]) -> Behaviour:
    """Answers on and on over one connection; counts the requests."""

    def behave(sock: socket.socket) -> None:
        while read_request(sock):
            count[0] += 1
            sock.sendall(answer())

    return behave


def over_tls(cert: Path, behave: Behaviour) -> Behaviour:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, cert.with_suffix(".key"))

    def behave_tls(sock: socket.socket) -> None:
        with context.wrap_socket(sock, server_side=True) as wrapped:
            behave(wrapped)

    return behave_tls


class Backlog:
    """A port that listens but whose queue is full: connections are neither accepted nor refused."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=0)
        self._fillers: list[socket.socket] = []
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/"
        for _ in range(8):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(self._listener.getsockname())
            self._fillers.append(filler)

    def __enter__(self) -> Backlog:
        return self

    def __exit__(self, *_: object) -> None:
        for sock in [*self._fillers, self._listener]:
            sock.close()


def certificate(folder: Path, name: str, san: str, *, expired: bool = False) -> Path:
    """A self-signed certificate made by openssl; the key lies beside it."""
    cert = folder / f"{name}.pem"
    # openssl req knows no start in the past on every version: x509 with a negative number of days.
    dates = ["-days", "-1" if expired else "2"]
    key = str(cert.with_suffix(".key"))
    request = folder / f"{name}.csr"
    extensions = folder / f"{name}.ext"
    extensions.write_text(f"subjectAltName={san}\nbasicConstraints=critical,CA:TRUE\n")
    _openssl(
        "req", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-subj", f"/CN={name}",
        "-out", str(request),
    )  # fmt: skip
    _openssl(
        "x509", "-req", "-in", str(request), "-signkey", key, "-extfile", str(extensions),
        *dates, "-out", str(cert),
    )  # fmt: skip
    return cert


def _openssl(*args: str) -> None:
    subprocess.run(["openssl", *args], check=True, capture_output=True, timeout=60)
