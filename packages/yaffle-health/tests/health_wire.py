"""The endpoint's tests speak to it in bytes: connect, send, read to the end, all within a bound."""

from __future__ import annotations

import contextlib
import dataclasses
import socket
import threading
import time
from collections.abc import Callable, Iterator

from yaffle_health.manager import Manager
from yaffle_health.server import Endpoint
from yaffle_health.uris import Address, Tcp

GET = b"GET /health HTTP/1.1\r\nHost: test\r\n\r\n"
PATIENCE_S = 60.0
"""For broken code only: the machine of the tests may stand still for seconds."""


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """What came back, split."""

    status: int
    headers: dict[str, str]
    body: bytes


def connected(address: Address, timeout_s: float = PATIENCE_S) -> socket.socket:
    """A connection to it."""
    if isinstance(address, Tcp):
        return socket.create_connection((address.host, address.port), timeout=timeout_s)
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    client.settimeout(timeout_s)
    try:
        client.connect(address.path)
    except OSError:
        client.close()
        raise
    return client


def read_all(client: socket.socket) -> bytes:
    """Everything up to the end of the connection; a reset is an end."""
    pieces: list[bytes] = []
    with contextlib.suppress(ConnectionResetError):
        while piece := client.recv(65536):
            pieces.append(piece)
    return b"".join(pieces)


def ask(address: Address, data: bytes = GET, timeout_s: float = PATIENCE_S) -> Answer:
    """Send that, read the whole answer."""
    with connected(address, timeout_s) as client:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            client.sendall(data)
        return split(read_all(client))


def split(data: bytes) -> Answer:
    """Take an answer apart."""
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines[1:])
    return Answer(int(lines[0].split()[1]), headers, body)


def eventually(holds: Callable[[], object], what: str = "") -> None:
    """Look until it is so."""
    until = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < until, what or "it never came to be"
        time.sleep(0.01)


class Given:
    """The time that this process was given: one that stands still with its machine promises nothing.

    Counts the naps of a thread of its own; one that took longer than it should counts as one.
    """

    NAP_S = 0.02

    def __init__(self) -> None:
        self._naps = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._nap, daemon=True)

    @property
    def s(self) -> float:
        """Seconds since the beginning, without those that were taken away."""
        return self._naps * self.NAP_S

    def _nap(self) -> None:
        while not self._over.is_set():
            time.sleep(self.NAP_S)
            self._naps += 1

    def __enter__(self) -> Given:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


@contextlib.contextmanager
def serving(manager: Manager | None = None, **options: object) -> Iterator[Endpoint]:
    """An endpoint on a free port of 127.0.0.1 (or `uri`) that shows a manager's health."""
    shown = manager or Manager(description="test", host="here")
    given: dict[str, object] = {
        "uri": "tcp://127.0.0.1:0",
        "ephemeral": True,
        "required": True,
        # Who is merely held up has not fallen silent; where a test is about that, it says less.
        "silent_max_s": 60.0,
    }
    with Endpoint(shown.health, **(given | options)) as endpoint:  # type: ignore[arg-type]
        yield endpoint
