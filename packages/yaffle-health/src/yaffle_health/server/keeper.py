"""The host's half of an endpoint that is served apart: it tells the health, and keeps one helper alive.

All of it is a ticker of the endpoint's one thread. Twice a second it glances at the health and gives a
sign of life; when the helper's channel ends it starts another one, at intervals that grow. The
sockets stay open here meanwhile, so that connections queue.
"""

from __future__ import annotations

import _socket
import contextlib
import logging
import os
import select
import time
from collections.abc import Sequence
from typing import Final

from yaffle_health.apart.memory import Writer
from yaffle_health.apart.plain import Settings
from yaffle_health.errors import BadOption
from yaffle_health.http.answer import HealthOf
from yaffle_health.server import natives, spawn
from yaffle_health.server.held import held
from yaffle_health.server.loop import Listener, Loop
from yaffle_health.server.published import Published
from yaffle_health.server.responder import complain_of

TICK_S: Final = 0.5
"""How often the host tells its health: nothing that is shown is older."""
BACKOFF_S_MAX: Final = 30.0
STABLE_S: Final = 10.0
"""After a helper that has lived for so long, the intervals begin anew."""
END_WAIT_S: Final = 1.0
_SAID_BYTES_MAX: Final = 4096
_LOG = logging.getLogger("yaffle_health")


class Keeper:
    """One endpoint's helper, whichever process that is at the moment."""

    def __init__(
        self,
        python: str,
        health_of: HealthOf,
        listeners: Sequence[Listener],
        settings: Settings,
    ) -> None:
        """Start the first helper; BadOption where the system refuses it."""
        self._python, self._listeners = python, listeners
        self._loop: Loop | None = None
        self._helper: spawn.Started | None = None
        self._said = b""
        self._since = self._due = 0.0
        self._backoff_s = TICK_S
        self._ended = False
        try:
            self._memory = held.open(Writer)
        except OSError as error:
            raise _refused(error) from error
        self._published = Published(health_of, self._memory, settings, complain_of)
        self._published.refresh()
        try:
            self._start()
        except BaseException as error:
            held.close(self._memory)
            if isinstance(error, OSError):
                raise _refused(error) from error
            raise

    @property
    def pid(self) -> int | None:
        """The helper's process; None before it has said so."""
        helper = self._helper
        return helper.pid or None if helper else None

    def join(self, loop: Loop) -> None:
        """From now on be looked after by that loop."""
        self._loop = loop
        self._watch()

    def tick(self) -> float:
        """Tell the health, and start a helper if there should be one again; never raises."""
        self._published.refresh()
        if self._helper is None and time.monotonic() >= self._due:
            self._start_again()
        return TICK_S

    def end(self) -> None:
        """End the helper, within a bound, and close everything; its loop has ended, or is stuck."""
        with held.lock:
            self._ended = True
            helper = self._helper
        if helper is not None:
            self._end_helper(helper)
            held.close(helper)
        for listener in self._listeners:
            held.close(listener.socket)
        held.close(self._memory)

    def _start(self) -> None:
        with held.lock:
            if self._ended:
                return
            sockets = [listener.socket for listener in self._listeners]
            self._helper = held.open(lambda: spawn.start(self._python, self._memory.fd, sockets))
            self._said, self._since = b"", time.monotonic()
        if self._loop is not None:
            self._watch()

    def _watch(self) -> None:
        assert self._loop is not None  # noqa: S101  it is this loop that calls
        if self._helper is not None:
            self._loop.watch(self._helper.channel.fileno(), self._hear)
            self._loop.watch(self._helper.child.fd, self._reap)

    def _reap(self) -> None:
        """The process that was started has forked and ended."""
        if self._loop is not None and self._helper is not None:
            self._loop.forget(self._helper.child.fd)
            spawn.reap(self._helper.child)

    def _hear(self) -> None:
        """Read what the helper says; the end of it is the helper's."""
        if self._helper is None:
            return
        data = _received(self._helper.channel)
        if data is None:
            return
        if data:
            self._note(self._helper, data)
        else:
            self._lost(self._helper)

    def _note(self, helper: spawn.Started, data: bytes) -> None:
        self._said = (self._said + data)[-_SAID_BYTES_MAX:]
        first, line_end, rest = self._said.partition(b"\n")
        if line_end and first.startswith(b"pid ") and first[4:].isdigit():
            self._said = rest
            helper.known_as(int(first[4:]))

    def _lost(self, helper: spawn.Started) -> None:
        assert self._loop is not None  # noqa: S101  it is this loop that calls
        self._loop.forget(helper.channel.fileno())
        if helper.child.fd >= 0:
            self._reap()
        spawn.reap(helper.process)
        held.close(helper)
        self._helper = None
        now = time.monotonic()
        if now - self._since >= STABLE_S:
            self._backoff_s = TICK_S
        self._due = now + self._backoff_s
        words = self._said.decode("utf-8", "replace").strip().rpartition("\n")[2]
        said = f" ({words})" if words else ""
        _warn(
            f"the helper that shows the health has ended{said}; in {self._backoff_s:g} s comes another"
        )
        self._backoff_s = min(self._backoff_s * 2, BACKOFF_S_MAX)

    def _start_again(self) -> None:
        try:
            self._start()
        except OSError as error:
            self._due = time.monotonic() + self._backoff_s
            why = os.strerror(error.errno or 0)
            _warn(
                f"no helper can be started to show the health: {why}; in {self._backoff_s:g} s again"
            )
            self._backoff_s = min(self._backoff_s * 2, BACKOFF_S_MAX)

    def _end_helper(self, helper: spawn.Started) -> None:
        with contextlib.suppress(OSError):
            helper.channel.send(b"end")
        if not self._gone(helper):
            # Stopped, perhaps. One that has not even begun will find its channel closed.
            helper.kill()
            if not self._gone(helper):
                return
        spawn.reap(helper.child)
        spawn.reap(helper.process)

    def _gone(self, helper: spawn.Started) -> bool:
        """Wait until nobody holds the other end of its channel, and then for the rest of it."""
        until = time.monotonic() + END_WAIT_S
        while (left_s := until - time.monotonic()) > 0:
            try:
                helper.channel.settimeout(left_s)
                data = helper.channel.recv(_SAID_BYTES_MAX)
            except TimeoutError:
                return False
            except OSError:
                data = b""
            if not data:
                # What was killed gives back the channel first, and then what it listens on.
                return helper.process.fd < 0 or _readable(helper.process.fd, left_s)
            self._note(helper, data)
        return False


def _received(channel: _socket.socket) -> bytes | None:
    """What has come, b"" at the end, None if nothing has."""
    try:
        return channel.recv(_SAID_BYTES_MAX)
    except (BlockingIOError, InterruptedError):
        return None
    except OSError:
        return b""


def _readable(fd: int, wait_s: float) -> bool:
    poll = held.open(natives.epoll)
    try:
        poll.register(fd, select.EPOLLIN)
        return bool(poll.poll(wait_s))
    finally:
        held.close(poll)


def _refused(error: OSError) -> BadOption:
    why = f"the helper cannot be started: {os.strerror(error.errno or 0)}"
    return BadOption("apart", True, why)


def _warn(sentence: str) -> None:
    # Not logging's where its locks are a hub's.
    if natives.is_patched():
        natives.complain(sentence)
    else:
        _LOG.warning("%s", sentence)
