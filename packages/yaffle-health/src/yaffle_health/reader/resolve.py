"""A name's addresses, found in bounded time: the resolver itself knows no deadline.

getaddrinfo() waits as long as resolv.conf says, half a minute and more; so a name is looked up by a
thread that is left behind when the time is over.
"""

from __future__ import annotations

import dataclasses
import queue
import socket
import threading


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SocketAddress:
    """What connect() takes: a path, or the tuple that getaddrinfo() made."""

    family: int
    address: str | tuple[str | int | bytes, ...]


def resolve(host: str, port: int, timeout_s: float) -> tuple[SocketAddress, ...] | str:
    """Return the addresses of a host in the resolver's order, or why there are none."""
    found = _lookup(host, port, socket.AI_NUMERICHOST)
    if not isinstance(found, str):
        return found
    answers: queue.SimpleQueue[tuple[SocketAddress, ...] | str] = queue.SimpleQueue()
    threading.Thread(
        target=lambda: answers.put(_lookup(host, port, 0)), name="resolver", daemon=True
    ).start()
    try:
        return answers.get(timeout=max(0.0, timeout_s))
    except queue.Empty:
        return f"the name {host} was not resolved within {timeout_s:.1f} s"


def _lookup(host: str, port: int, flags: int) -> tuple[SocketAddress, ...] | str:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
    except (OSError, UnicodeError) as error:
        return f"the name {host} has no address: {getattr(error, 'strerror', None) or error}"
    return tuple(SocketAddress(family=family, address=address) for family, *_, address in found)
