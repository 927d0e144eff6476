"""The helper: a small process of its own that answers for a host from the memory that they share.

It has no manager, no logging and no rfc3986: the listening sockets, a page of memory, the loop and the
faces. It ends when the host has ended, has closed its channel, or says so; nothing else stops it. A host
that has given no sign of life for too long is answered for with `fail`, which no thread of it could do.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import _socket
import contextlib
import marshal
import os
import select
import sys
import time
from types import ModuleType
from typing import Final


class _Later(ModuleType):
    """A module that is imported when somebody uses it: nobody does, and each takes 1 MB and 5 ms."""

    def __getattr__(self, name: str) -> object:
        sys.modules.pop(self.__name__, None)
        __import__(self.__name__)
        return getattr(sys.modules[self.__name__], name)


# dataclasses imports the first for classes without a docstring, urllib.parse the second for
# addresses in brackets.
for _name in ("inspect", "ipaddress"):
    sys.modules.setdefault(_name, _Later(_name))

import dataclasses  # noqa: E402

from yaffle_health.apart.memory import Reader  # noqa: E402
from yaffle_health.apart.plain import Document, Plain, Settings, check_of, restored, service_of  # noqa: E402
from yaffle_health.errors import UnknownGroup  # noqa: E402
from yaffle_health.http.answer import Options  # noqa: E402
from yaffle_health.model import Check, Health, Status  # noqa: E402
from yaffle_health.server.calls import PlainCalls  # noqa: E402
from yaffle_health.server.loop import Limits, Listener, Loop  # noqa: E402
from yaffle_health.server.responder import Responder  # noqa: E402
from yaffle_health.views import Shape  # noqa: E402

SILENT: Final = "process"
"""The item that says that the process says nothing."""
_CHANNEL_FD, _HOST_FD, _MEMORY_FD, _LISTENERS_FD = 2, 3, 4, 5
_FD_MAX: Final = 65_536
# A terminal's, and what `systemctl stop` and `kill` send to all processes of a unit: the host may go
# on for a while after them, and is answered for as long.
_IGNORED: Final = ("SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGUSR2")


class UntoldError(Exception):
    """The host's code raises when it is asked for its health; the host has logged it."""


class Shared:
    """The health that the host has told, and its silence."""

    def __init__(self, memory: Reader) -> None:
        """LookupError if the host has told nothing yet."""
        self._memory = memory
        self._number = 0
        self._document = self._read()
        self._made: dict[tuple[str | None, int | None], Health] = {}
        self._last_word = (0, 0.0)

    @property
    def settings(self) -> Settings:
        """How to answer."""
        return self._document[0]

    def health(self, group: str | None) -> Health:
        """With the ages of this moment."""
        told, quiet_s = self._of(group)
        if quiet_s is not None:
            return self._silent(told, quiet_s)
        return restored(told, time.monotonic())

    def seen(self, group: str | None) -> Health:
        """The same object while nothing new is to be seen."""
        told, quiet_s = self._of(group)
        found = self._made.get((group, quiet_s))
        if found is None:
            if len(self._made) > len(self._document[1]):
                self._made.clear()  # the seconds of a silence
            found = (
                restored(told, time.monotonic()) if quiet_s is None else self._silent(told, quiet_s)
            )
            self._made[group, quiet_s] = found
        return found

    def _of(self, group: str | None) -> tuple[Plain, int | None]:
        """What was told of a group; and for how many whole seconds nothing was, if that is too long."""
        with contextlib.suppress(LookupError):
            self._document = self._read()
            self._made.clear()
        settings, by_group, known = self._document
        told = by_group.get(group)
        if told is None:
            raise UnknownGroup(str(group), known)
        if isinstance(told, bool):
            raise UntoldError
        quiet_s = (time.monotonic_ns() - self._memory.beat_ns) / 1e9
        return told, int(quiet_s) if quiet_s > settings[7] else None

    def _read(self) -> Document:
        """What has been told anew; LookupError if nothing has."""
        found = self._memory.newer(self._number)
        if found is None:
            raise LookupError("nothing new has been told")
        self._number, data = found
        document: Document = marshal.loads(data)  # noqa: S302 - our own host's, and whole
        return document

    def _silent(self, told: Plain, quiet_s: int) -> Health:
        """Nobody knows how it is: it fails, and what it said last are tombstones."""
        _, speaker, rows, _ = told
        now, beat_ns = time.monotonic(), self._memory.beat_ns
        if self._last_word[0] != beat_ns:
            self._last_word = (beat_ns, time.time() - (now - beat_ns / 1e9))
        output = f"the process has said nothing for {quiet_s} s"
        quiet = check_of(
            (
                "fail",
                self._last_word[1],
                beat_ns / 1e9,
                SILENT,
                None,
                "component",
                output,
                False,
                "fail",
            ),
            now,
        )
        checks = [quiet, *(_tombstone(check_of(row, now)) for row in rows)]
        return Health(
            status=Status.FAIL,
            service=service_of(speaker),
            checks=tuple(sorted(checks, key=lambda check: (check.name, check.component_id or ""))),
        )


def _tombstone(check: Check) -> Check:
    if check.expired:
        return check
    said = f": {check.output}" if check.output else ""
    return dataclasses.replace(
        check,
        status=Status.WARN,
        output=f"unknown while the process says nothing; the last was {check.status}{said}",
        expired=True,
    )


def main(listeners: int) -> None:
    """Answer until the host ends."""
    for name in _IGNORED:
        _signal.signal(getattr(_signal, name), _signal.SIG_IGN)
    _close_from(_LISTENERS_FD + listeners)
    os.chdir("/")
    os.set_blocking(_CHANNEL_FD, False)
    _be_called("yaffle-health")
    shared = Shared(Reader(_MEMORY_FD))
    loop = _loop(shared, listeners)
    for fd in (_CHANNEL_FD, _HOST_FD):
        loop.watch(fd, loop.stop)
    loop.run()


def _loop(shared: Shared, listeners: int) -> Loop:
    ttl_s, cache_control, cache_cap, shape, group, connections, timeout_s, _, held = shared.settings
    options = Options(
        ttl_s=ttl_s,
        cache_control=cache_control,
        cache_cap=cache_cap,
        format=Shape(shape),
        group=group,
    )
    responder = Responder(shared.health, options, seen_of=shared.seen, complain=lambda _: None)
    sockets = [_socket.socket(fileno=_LISTENERS_FD + number) for number in range(listeners)]
    for each in sockets:
        each.setblocking(False)
    return Loop(
        [Listener(each, shared=one) for each, one in zip(sockets, held, strict=True)],
        responder,
        limits=Limits(connections_max=connections, timeout_s=timeout_s),
        # Here is nobody else for the interpreter to be kept from.
        calls=PlainCalls(),
        poll=select.epoll(),
    )


def _close_from(first: int) -> None:
    """Close what the host left open to programs that it starts: its own sockets, perhaps."""
    try:
        names = os.listdir("/proc/self/fd")  # noqa: PTH208 - no pathlib here
    except OSError:
        os.closerange(first, _FD_MAX)
        return
    for name in names:
        if int(name) >= first:
            with contextlib.suppress(OSError):
                os.close(int(name))


def _be_called(name: str) -> None:
    with contextlib.suppress(OSError), open("/proc/self/comm", "w") as comm:  # noqa: PTH123 - no pathlib here
        comm.write(name)
