"""Resolves names away from the loop: `getaddrinfo` blocks, and it alone knows this host's rules.

A few threads ask; answers are cached for a short time, failures for a shorter one. A resolver that
hangs costs its threads, never the loop: whoever waits gives up by its own timeout.
"""

from __future__ import annotations

import os
import queue
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

THREADS: Final = 4
FRESH_S: Final = 30.0
FAILURE_FRESH_S: Final = 3.0
HOSTS_MAX: Final = 20_000

# What these mean is "that name has no address"; everything else is a name server in trouble.
_NO_SUCH_NAME: Final = {socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Addresses as (family, ip, scope id), in the resolver's order, or the row of the failure."""

    addresses: Sequence[tuple[int, str, int]] = ()
    code: str = ""
    why: str = ""


Waiter = Callable[[Found], None]


class Resolver:
    """Called on the loop's thread only; `fd` becomes readable when `collect` has something to do."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._cache: dict[str, tuple[float, Found]] = {}
        self._waiting: dict[str, list[Waiter]] = {}
        # Bounded by `_waiting`: each host is in the queues at most once.
        self._asked: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._answered: queue.SimpleQueue[tuple[str, Found]] = queue.SimpleQueue()
        self._threads = 0
        self.fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def ask(self, host: str, waiter: Waiter) -> Found | None:
        """Return what is known and fresh; else None, and `waiter` is called later, once."""
        cached = self._cache.get(host)
        if cached is not None and cached[0] > self._clock():
            return cached[1]
        waiters = self._waiting.get(host)
        if waiters is not None:
            waiters.append(waiter)
            return None
        if len(self._waiting) >= HOSTS_MAX:
            return Found(code="X-DNS", why="too many names are being resolved")
        self._waiting[host] = [waiter]
        self._start_thread()
        self._asked.put(host)
        return None

    def collect(self) -> None:
        """Hand out what the threads have found."""
        try:
            os.eventfd_read(self.fd)
        except BlockingIOError:
            return
        while not self._answered.empty():
            host, found = self._answered.get()
            self._remember(host, found)
            for waiter in self._waiting.pop(host, ()):
                waiter(found)

    def _remember(self, host: str, found: Found) -> None:
        if len(self._cache) >= HOSTS_MAX:
            del self._cache[next(iter(self._cache))]
        fresh_s = FAILURE_FRESH_S if found.code else FRESH_S
        self._cache[host] = (self._clock() + fresh_s, found)

    def _start_thread(self) -> None:
        if self._threads < THREADS:
            self._threads += 1
            # A daemon: a hung name server must not keep a dying process alive.
            threading.Thread(target=self._work, name="resolver", daemon=True).start()

    def _work(self) -> None:
        while True:
            host = self._asked.get()
            self._answered.put((host, _resolve(host)))
            os.eventfd_write(self.fd, 1)


def failure(number: int, why: str) -> Found:
    """Return the failure that an EAI number means: there is no such name, or nobody could say."""
    return Found(code="L3-DNS" if number in _NO_SUCH_NAME else "X-DNS", why=why)


def _resolve(host: str) -> Found:
    try:
        infos = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        return failure(error.errno or 0, str(error.strerror))
    except UnicodeError as error:
        return Found(code="X-BAD-URL", why=f"not a host name: {error}")
    except OSError as error:
        return Found(code="X-DNS", why=str(error))
    addresses = tuple(
        (int(family), str(address[0]), int(address[3]) if len(address) == 4 else 0)
        for family, _, _, _, address in infos
    )
    return Found(addresses=addresses)
