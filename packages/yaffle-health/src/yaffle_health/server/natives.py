"""The kernel's own threads, locks and epoll, also in a program that eventlet or gevent has patched.

A patched thread would live on the loop whose health it shows: it would say nothing once that is
blocked, and its poll would be theirs (eventlet even takes select.epoll away). Sockets come from
`_socket`, which nobody patches. The patchers are asked only where the program has imported them.
"""

from __future__ import annotations

import _thread
import os
import select
import sys
from collections.abc import Callable
from types import ModuleType


def start_thread(run: Callable[[], None]) -> None:
    """Run it in a daemon thread of the kernel's."""
    _original("_thread", _thread).start_new_thread(run, ())


def allocate_lock() -> _thread.LockType:
    """A lock that blocks its thread and no hub."""
    lock: _thread.LockType = _original("_thread", _thread).allocate_lock()
    return lock


def get_ident() -> int:
    """The number of the kernel's thread that is running, whatever greenlet it runs."""
    ident: int = _original("_thread", _thread).get_ident()
    return ident


def epoll() -> select.epoll:
    """A new epoll object, closed on exec."""
    made: select.epoll = _original("select", select).epoll()
    return made


def is_patched() -> bool:
    """Whether `logging` and friends may only be used by the hub's own thread."""
    gevent = sys.modules.get("gevent.monkey")
    if gevent is not None and gevent.is_module_patched("threading"):
        return True
    eventlet = sys.modules.get("eventlet.patcher")
    return eventlet is not None and bool(eventlet.is_monkey_patched("thread"))


def complain(sentence: str) -> None:
    """Write to standard error, for a thread that may not use `logging`."""
    try:
        os.write(2, f"yaffle_health: {sentence}\n".encode(errors="replace"))
    except OSError:
        return


class _Originals:
    """The attributes of a module as they were before gevent replaced them."""

    def __init__(self, gevent: ModuleType, name: str) -> None:
        self._gevent, self._name = gevent, name

    def __getattr__(self, attribute: str) -> object:
        return self._gevent.get_original(self._name, attribute)


def _original(name: str, module: ModuleType) -> ModuleType:
    gevent = sys.modules.get("gevent.monkey")
    if gevent is not None and gevent.is_module_patched(name):
        return _Originals(gevent, name)  # type: ignore[return-value]
    eventlet = sys.modules.get("eventlet.patcher")
    if eventlet is not None and eventlet.is_monkey_patched(name.strip("_")):
        original: ModuleType = eventlet.original(name)
        return original
    return module
