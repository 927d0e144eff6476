"""The child's end of the pipe: obeys the engine's messages and sends back results in batches.

When the pipe closes the engine is gone and the process ends. When the engine does not read, what
cannot be kept is dropped and said so: the engine must know that it was blind.
"""

from __future__ import annotations

import ipaddress
import os
import select
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Final, assert_never

from yaffle.core.addresses import AddressRules
from yaffle.prober import wire
from yaffle.prober.check import Check
from yaffle.prober.loop import Gate, Loop
from yaffle.prober.rules import ready
from yaffle.prober.tls import Contexts
from yaffle.prober.watches import Watches

if TYPE_CHECKING:
    from collections.abc import Callable

FLUSH_S: Final = 0.04
BACKLOG_BYTES_MAX: Final = 8 * 1024 * 1024

_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


class Service:
    """Owns the loop's watches and probes, and the pipe to the engine."""

    def __init__(self, loop: Loop, pipe: socket.socket) -> None:
        self._loop = loop
        self._pipe = pipe
        self._frames = wire.Frames()
        self._backlog = bytearray()
        self._batch: list[wire.Seen] = []
        self._watches = Watches(loop, self._seen)
        self._probes: set[ProbeRun] = set()
        self._checks = 0
        self._dropped = 0
        self._dropped_told = 0
        self.due = 0
        pipe.setblocking(False)
        loop.handlers[pipe.fileno()] = self
        loop.epoll.register(pipe.fileno(), select.EPOLLIN)
        loop.on_late = self._late

    # --- from the engine ---

    def on_event(self, mask: int) -> None:
        """Read what the engine says; write what it has room for."""
        if mask & select.EPOLLOUT:
            self._write()
        if not mask & ~select.EPOLLOUT:
            return
        try:
            data = self._pipe.recv(256 * 1024)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._loop.stopping = True
            return
        for body in self._frames.feed(data):
            self._obey(wire.requests.decode(body))

    def _obey(self, request: wire.Request) -> None:
        match request:
            case wire.Configure():
                self._configure(request)
            case wire.Schedule():
                self._watches.replace(request)
            case wire.Unschedule():
                self._watches.remove(request.watch_id)
            case wire.Probe():
                run = ProbeRun(self._loop, request, self._probed)
                self._probes.add(run)
                run.begin()
            case wire.Ping():
                self._send(self._pong(request.number))
            case _:
                assert_never(request)

    def _configure(self, request: wire.Configure) -> None:
        self._loop.gate = Gate(
            AddressRules(
                allow=tuple(map(ipaddress.ip_network, request.allow)),
                deny=tuple(map(ipaddress.ip_network, request.deny)),
            )
        )
        self._loop.tls = Contexts(request.ca_file)
        self._loop.sockets_max = request.sockets_max

    # --- to the engine ---

    def _seen(self, ask_id: int, code: str, detail: str, took_us: int) -> None:
        self._checks += 1
        self._batch.append(wire.Seen(ask_id, code, detail, self._loop.wall_us, took_us))
        if not self.due:
            self._loop.wheel.put(self, self._loop.now + FLUSH_S)

    def fire(self) -> None:
        """Time to send the batch."""
        batch, self._batch = self._batch, []
        if len(self._backlog) > BACKLOG_BYTES_MAX:
            self._dropped += len(batch)
        else:
            self._send(wire.Results(batch))

    def _probed(self, run: ProbeRun, seen: list[wire.Seen]) -> None:
        self._checks += len(seen)
        self._probes.discard(run)
        if len(self._backlog) <= BACKLOG_BYTES_MAX:
            self._send(wire.Answer(run.request.request_id, seen))

    def _late(self, lost_s: float) -> None:
        if len(self._backlog) <= BACKLOG_BYTES_MAX:
            self._send(wire.Late(lost_s, f"the prober's own loop was late by {lost_s:.1f} s"))

    def _pong(self, number: int) -> wire.Pong:
        return wire.Pong(
            number,
            self._checks,
            len(self._loop.attempts),
            len(self._loop.waiting),
            self._loop.lost_s,
            self._loop.lag_s_max,
            self._dropped,
            _rss_bytes(),
        )

    def _send(self, reply: wire.Reply) -> None:
        was_empty = not self._backlog
        self._backlog += wire.frame(reply)
        if was_empty:
            self._write()

    def _write(self) -> None:
        try:
            sent = self._pipe.send(self._backlog) if self._backlog else 0
        except BlockingIOError:
            sent = 0
        except OSError:
            self._loop.stopping = True
            return
        del self._backlog[:sent]
        wanted = select.EPOLLIN | (select.EPOLLOUT if self._backlog else 0)
        self._loop.epoll.modify(self._pipe.fileno(), wanted)
        if not self._backlog and self._dropped > self._dropped_told:
            dropped, self._dropped_told = self._dropped - self._dropped_told, self._dropped
            self._send(wire.Late(0.0, f"the engine did not read: {dropped} results were dropped"))


class ProbeRun:
    """The run of one `Probe` request: every answer, or X-DEADLINE for what is missing at the deadline."""

    __slots__ = ("_checks", "_done", "_loop", "_seen", "due", "request")

    def __init__(
        self,
        loop: Loop,
        request: wire.Probe,
        done: Callable[[ProbeRun, list[wire.Seen]], None],
    ) -> None:
        rules = ready(request.options)
        self._loop = loop
        self._done = done
        self._seen: dict[int, wire.Seen] = {}
        self._checks = [Check(loop, ask, rules, self._report) for ask in request.asks]
        self.request = request
        self.due = 0

    def begin(self) -> None:
        """Ask everything now."""
        self._loop.wheel.put(self, self._loop.now + self.request.deadline_s)
        for check in self._checks:
            check.begin(self.request.deadline_s)
        if not self._checks:
            self._finish()

    def fire(self) -> None:
        """The deadline: what is not answered is unknown, for it did not have its whole time."""
        what = f"not answered within the deadline of {self.request.deadline_s:g} s"
        for check in self._checks:
            if check.id not in self._seen:
                check.abandon()
                self._note(check.id, "X-DEADLINE", check.explain(what), 0)
        self._finish()

    def _report(self, ask_id: int, code: str, detail: str, took_us: int) -> None:
        self._note(ask_id, code, detail, took_us)
        if len(self._seen) == len(self._checks):
            self._loop.wheel.cancel(self)
            self._finish()

    def _note(self, ask_id: int, code: str, detail: str, took_us: int) -> None:
        self._seen[ask_id] = wire.Seen(ask_id, code, detail, self._loop.wall_us, took_us)

    def _finish(self) -> None:
        for check in self._checks:
            if check.idle is not None:
                check.idle.drop()
        self._loop.wheel.cancel(self)
        self._done(self, list(self._seen.values()))


def _rss_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_BYTES
