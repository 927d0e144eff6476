"""The real `socket` and `poll`, also in a program that eventlet or gevent has patched.

Their replacements need a hub in the thread that calls them, and eventlet takes `select.poll` away
altogether. The modules are looked up only where the program has imported them already.
"""

from __future__ import annotations

import select
import socket
import sys


def real_socket() -> type[socket.socket]:
    """Return the class that makes sockets which belong to no hub."""
    eventlet, gevent = _patchers()
    if gevent is not None:
        return gevent.get_original("socket", "socket")  # type: ignore[no-any-return,attr-defined]
    if eventlet is not None:
        return eventlet.original("socket").socket  # type: ignore[no-any-return,attr-defined]
    return socket.socket


def real_poll() -> select.poll:
    """Return a poll object of the kernel's."""
    eventlet, gevent = _patchers()
    if gevent is not None:
        return gevent.get_original("select", "poll")()  # type: ignore[no-any-return,attr-defined]
    if eventlet is not None:
        return eventlet.original("select").poll()  # type: ignore[no-any-return,attr-defined]
    return select.poll()


def _patchers() -> tuple[object | None, object | None]:
    return sys.modules.get("eventlet.patcher"), sys.modules.get("gevent.monkey")
