"""The five system calls of an answer, made without giving the interpreter away.

Python's own socket calls let other threads run meanwhile. Beside a busy host that is dear: after
each call the thread waits for the switch interval (5 ms) and takes the interpreter by force. These
sockets never block, so there is nothing to wait for: called through `ctypes.PyDLL` the five calls
keep the interpreter for some microseconds, and only epoll gives it away. Measured in ADR 0013.
"""

from __future__ import annotations

import _socket
import errno
import os
from typing import Final, Protocol

RECV_MAX: Final = 16 * 1024
_NOT_YET = frozenset({errno.EAGAIN, errno.EINTR})
# The same for whoever accepts: there is none to be had.
_NONE_TO_ACCEPT = _NOT_YET | {errno.ECONNABORTED, errno.EPROTO, errno.EPERM}
_ACCEPTED: Final = _socket.SOCK_NONBLOCK | _socket.SOCK_CLOEXEC
_FLAGS: Final = _socket.MSG_DONTWAIT | _socket.MSG_NOSIGNAL
_SHUT_WR: Final = 1
_POLLIN: Final = 1


class Calls(Protocol):
    """What the loop does with descriptors; OSError where the connection is lost."""

    def accept(self, listener: _socket.socket) -> int:
        """The next connection's descriptor, not blocking, closed on exec; -1 if there is none."""

    def more(self, listener: _socket.socket) -> bool:
        """Whether another connection waits; True where asking costs as much as accept."""

    def recv(self, fd: int) -> bytes | None:
        """What has come, b"" at the end, None if nothing has come yet."""

    def send(self, fd: int, data: bytes) -> int:
        """How many bytes were taken; 0 if there is no room yet."""

    def shutdown(self, fd: int) -> None:
        """Say that no more will be sent."""

    def close(self, fd: int) -> None:
        """Give the descriptor back."""


class PlainCalls:
    """Python's own calls, for where ctypes is missing."""

    def __init__(self) -> None:
        self._sockets: dict[int, _socket.socket] = {}

    def accept(self, listener: _socket.socket) -> int:
        return plain_accept(listener)

    def more(self, listener: _socket.socket) -> bool:
        return True

    def recv(self, fd: int) -> bytes | None:
        try:
            return self._socket(fd).recv(RECV_MAX, _FLAGS)
        except (BlockingIOError, InterruptedError):
            return None

    def send(self, fd: int, data: bytes) -> int:
        try:
            return self._socket(fd).send(data, _FLAGS)
        except (BlockingIOError, InterruptedError):
            return 0

    def shutdown(self, fd: int) -> None:
        self._socket(fd).shutdown(_SHUT_WR)

    def close(self, fd: int) -> None:
        self._socket(fd).close()
        del self._sockets[fd]

    def _socket(self, fd: int) -> _socket.socket:
        found = self._sockets.get(fd)
        if found is None:
            found = self._sockets[fd] = _socket.socket(fileno=fd)
        return found


def plain_accept(listener: _socket.socket) -> int:
    """Accept with the interpreter given away: what a shared listener needs, whose other owner may
    have made it blocking. Descriptor or -1."""
    try:
        fd, _ = listener._accept()  # type: ignore[attr-defined] # noqa: SLF001 - socket.accept() uses it
    except (BlockingIOError, InterruptedError, ConnectionAbortedError):
        return -1
    os.set_blocking(fd, False)
    return int(fd)


class DirectCalls:
    """The C library's calls, with the interpreter kept."""

    def __init__(self) -> None:
        import ctypes

        library = ctypes.PyDLL(None, use_errno=True)
        size, ssize, whole = ctypes.c_size_t, ctypes.c_ssize_t, ctypes.c_int
        pointer = ctypes.c_void_p
        self._accept4 = library.accept4
        self._accept4.argtypes = (whole, pointer, pointer, whole)
        self._poll = library.poll
        self._poll.argtypes = (pointer, ctypes.c_ulong, whole)
        # struct pollfd: a descriptor, what is asked about it, what is answered.
        asked = ctypes.create_string_buffer(8)
        self._asked_fd = whole.from_buffer(asked)
        ctypes.c_short.from_buffer(asked, ctypes.sizeof(whole)).value = _POLLIN
        self._asked_at = ctypes.addressof(asked)
        self._recv = library.recv
        self._recv.argtypes, self._recv.restype = (whole, pointer, size, whole), ssize
        self._send = library.send
        self._send.argtypes, self._send.restype = (whole, ctypes.c_char_p, size, whole), ssize
        self._shutdown = library.shutdown
        self._shutdown.argtypes = (whole, whole)
        self._close = library.close
        self._close.argtypes = (whole,)
        self._buffer = ctypes.create_string_buffer(RECV_MAX)
        self._address = ctypes.addressof(self._buffer)
        self._view = memoryview(self._buffer)
        self._errno = ctypes.get_errno

    def accept(self, listener: _socket.socket) -> int:
        fd: int = self._accept4(listener.fileno(), None, None, _ACCEPTED)
        if fd < 0 and (number := self._errno()) not in _NONE_TO_ACCEPT:
            raise OSError(number, os.strerror(number))
        return fd

    def more(self, listener: _socket.socket) -> bool:
        # An accept that finds nothing has made a socket first: 5 µs, and this is less than 1.
        self._asked_fd.value = listener.fileno()
        ready: int = self._poll(self._asked_at, 1, 0)
        return ready > 0

    def recv(self, fd: int) -> bytes | None:
        size: int = self._recv(fd, self._address, RECV_MAX, _FLAGS)
        if size < 0:
            self._lost_or_later()
            return None
        return self._view[:size].tobytes()

    def send(self, fd: int, data: bytes) -> int:
        size: int = self._send(fd, data, len(data), _FLAGS)
        if size < 0:
            self._lost_or_later()
            return 0
        return size

    def shutdown(self, fd: int) -> None:
        if self._shutdown(fd, _SHUT_WR) < 0:
            self._lost_or_later()

    def close(self, fd: int) -> None:
        self._close(fd)

    def _lost_or_later(self) -> None:
        number = self._errno()
        if number not in _NOT_YET:
            raise OSError(number, os.strerror(number))


def best_calls() -> Calls:
    """The direct ones, where ctypes can find them."""
    try:
        return DirectCalls()
    except (ImportError, OSError, AttributeError):
        return PlainCalls()
