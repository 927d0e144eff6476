"""The node that everybody asks: a process of its own, which answers quickly and counts."""

from __future__ import annotations

import email.utils
import mmap
import os
import select
import signal
import socket
import struct
import time

_HEAD = (
    "HTTP/1.1 200 OK\r\nServer: bench\r\nDate: {date}\r\n{extra}Content-Type: text/plain\r\n"
    "Content-Length: 10\r\nConnection: close\r\n\r\n"
)
ARRIVALS_MAX = 200_000
_ARRIVAL = struct.Struct("Id")


class Responder:
    """A forked epoll server; its answers hold a date, as most servers' do, and a serial number.

    `unlike` puts a serial number into every head too, so that no two heads are alike. `mark` is
    searched in each request, and the number after it is noted with the time of arrival.
    """

    def __init__(self, *, unlike: bool = False, mark: bytes = b"") -> None:
        self._unlike, self._mark = unlike, mark
        self._count = mmap.mmap(-1, 16)
        self._arrivals = mmap.mmap(-1, ARRIVALS_MAX * _ARRIVAL.size if mark else 16)
        listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
        listener.setblocking(False)
        self.port: int = listener.getsockname()[1]
        self._pid = os.fork()
        if self._pid == 0:
            self._serve(listener)
        listener.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/health"

    def answers(self) -> int:
        """Sent so far."""
        count: int = struct.unpack("Q", self._count[:8])[0]
        return count

    def arrivals(self) -> list[tuple[int, float]]:
        """Number after the mark, and when; in order."""
        noted = struct.unpack("Q", self._count[8:])[0] * _ARRIVAL.size
        return list(_ARRIVAL.iter_unpack(self._arrivals[:noted]))

    def __enter__(self) -> Responder:
        return self

    def __exit__(self, *_: object) -> None:
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)

    def _serve(self, listener: socket.socket) -> None:
        poll = select.epoll()
        poll.register(listener.fileno(), select.EPOLLIN)
        open_socks: dict[int, socket.socket] = {}
        answers = 0
        while True:
            events = poll.poll()
            date = email.utils.formatdate(usegmt=True)
            head = _HEAD.format(date=date, extra="").encode()
            for fd, _ in events:
                if fd == listener.fileno():
                    self._accept(listener, poll, open_socks)
                    continue
                sock = open_socks.pop(fd)
                try:
                    request = sock.recv(4096)
                    if request:
                        if self._unlike:
                            extra = f"X-Request-Id: {answers:016x}\r\n"
                            head = _HEAD.format(date=date, extra=extra).encode()
                        sock.send(head + b"%010d" % answers)
                        answers += 1
                        if self._mark:
                            self._note(request)
                except OSError:
                    pass
                sock.close()
            self._count[:8] = struct.pack("Q", answers)

    def _accept(
        self, listener: socket.socket, poll: select.epoll, open_socks: dict[int, socket.socket]
    ) -> None:
        try:
            while True:
                sock, _ = listener.accept()
                sock.setblocking(False)
                open_socks[sock.fileno()] = sock
                poll.register(sock.fileno(), select.EPOLLIN)
        except BlockingIOError:
            return

    def _note(self, request: bytes) -> None:
        digits = request.partition(self._mark)[2].split(None, 1)[0].rstrip(b";")
        noted = struct.unpack("Q", self._count[8:])[0]
        if noted < ARRIVALS_MAX:
            place = noted * _ARRIVAL.size
            arrival = _ARRIVAL.pack(int(digits), time.monotonic())
            self._arrivals[place : place + _ARRIVAL.size] = arrival
            self._count[8:] = struct.pack("Q", noted + 1)
