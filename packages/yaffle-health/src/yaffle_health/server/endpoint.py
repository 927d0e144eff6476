"""The life of the endpoint: opened loudly, closed with the process, and never alive by half after a fork.

A forked child has the descriptors but not the thread: clients that its parent refused would hang in
it for ever. So it closes them before any other code of it runs (held.py), and starts again only if it
was told to, on sockets of its own.
"""

from __future__ import annotations

import atexit
import dataclasses
import logging
import os
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Literal, Self

from yaffle_health import uris
from yaffle_health.apart import interpreter
from yaffle_health.errors import BadOption, BindFailed, HealthError
from yaffle_health.http import Options
from yaffle_health.http.answer import HealthOf
from yaffle_health.options import is_number, whole
from yaffle_health.server import activation, natives, spawn, tcp_socket, unix_socket
from yaffle_health.server.calls import Calls, PlainCalls, best_calls
from yaffle_health.server.held import held
from yaffle_health.server.keeper import Keeper
from yaffle_health.server.loop import Limits, Listener, Loop, Ticker
from yaffle_health.server.published import settings_of
from yaffle_health.server.responder import Responder
from yaffle_health.uris import Address, Tcp, Unix
from yaffle_health.views import Shape

STOP_WAIT_S: Final = 2.0
TIMEOUT_MAX_S: Final = 86_400
SILENT_S_MIN: Final = 2.0
"""Some heartbeats may be late on a machine that is busy."""
_LOG = logging.getLogger("yaffle_health")


class Endpoint:
    """Shows what `health_of` says at GET /health, while it is started.

    BadOption for options that cannot be meant. An address that cannot be had is logged and kept in
    `failures`; with `required` it is raised by `start`, and nothing is started.
    """

    def __init__(  # noqa: PLR0913 - one keyword for each option that a service may set
        self,
        health_of: HealthOf,
        *,
        uri: str | None = "",
        ttl_s: float = 300,
        cache_control: int | None = None,
        cache_cap: bool = False,
        format: Shape | str = Shape.NOVA,  # noqa: A002 - the option is called so
        group: str | None = None,
        socket_mode: int = 0o660,
        socket_group: str | int | None = None,
        required: bool = False,
        max_connections: int = 32,
        timeout_s: float = 5.0,
        activation: bool | str = False,
        after_fork: Literal["close", "restart"] = "close",
        ephemeral: bool = False,
        tickers: Sequence[Ticker] = (),
        calls: Calls | None = None,
        apart: bool = False,
        silent_max_s: float = 5.0,
    ) -> None:
        """`activation`: take systemd's sockets, all or those of one name, instead of `uri`'s.

        `after_fork="restart"` needs UNIX paths with `{pid}` alone. `ephemeral` allows port 0.
        `apart`: a small process of its own answers, from what this one tells it twice a second; it
        answers `fail` when nothing has been told for more than `silent_max_s` seconds.
        """
        if not callable(health_of):
            raise BadOption("source", health_of, "give a manager, or a function of a group's name")
        self._wanted = uris.parse(uri, ephemeral=ephemeral)
        self._rights = unix_socket.rights(socket_mode, socket_group)
        options = Options(
            ttl_s=ttl_s,
            cache_control=cache_control,
            cache_cap=cache_cap,
            format=_shape(format),
            group=group,
        )
        self._limits = _limits(max_connections, timeout_s)
        self._health_of, self._options = health_of, options
        self._required, self._activation = required, _activated(activation)
        self._restarts = _restarts(after_fork, self._wanted)
        self._tickers = _ticking(tickers)
        self._calls = calls
        self._apart, self._silent_max_s = _aside(apart), _patience(silent_max_s)
        self._failures: list[HealthError] = []
        self._running: _Running | None = None

    @property
    def addresses(self) -> tuple[Address, ...]:
        """Where it listens now, with the real ports."""
        return self._running.addresses if self._running else ()

    @property
    def failures(self) -> tuple[HealthError, ...]:
        """What could not be had at the last start."""
        return tuple(self._failures)

    @property
    def running(self) -> bool:
        """Whether its thread serves."""
        return self._running is not None and not self._running.ended

    @property
    def helper_pid(self) -> int | None:
        """The process that answers, if it is another (`apart`), runs, and has said who it is."""
        keeper = self._running.keeper if self._running else None
        return keeper.pid if keeper else None

    def start(self) -> Self:
        """Listen and serve; without any address, and with no ticker, it does nothing."""
        if self._running is not None:
            return self
        self._failures = []
        python = self._interpreter()
        opened = _Opened()
        try:
            self._open(opened)
            if opened.listeners or self._tickers:
                self._serve(opened, python if opened.listeners else None)
        except BaseException:
            opened.close()
            raise
        return self

    def add(self, *tickers: Ticker) -> None:
        """Do these small things too, from the next start on."""
        self._tickers += tickers

    def note(self, failure: HealthError) -> None:
        """Keep the reason why this endpoint does not serve."""
        self._failures.append(failure)

    def close(self) -> None:
        """Stop serving, close the connections and remove the sockets' files; once more is nothing."""
        with held.lock:
            running, self._running = self._running, None
            _started.discard(self)
        if running is not None:
            running.end()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _open(self, opened: _Opened) -> None:
        fds = activation.passed(self._activation, os.environ, os.getpid())
        for fd in fds:
            with self._reported():
                opened.take(activation.listener(fd))
        for address in () if fds else self._wanted:
            with self._reported():
                opened.listen(address, self._rights)

    def _reported(self) -> _Reported:
        return _Reported(self._failures, required=self._required)

    def _interpreter(self) -> str | None:
        """What a helper is run with, if there is to be one."""
        if not self._apart or not (self._wanted or self._activation):
            return None
        spawn.refuse_where_impossible()
        return interpreter.find()

    def _serve(self, opened: _Opened, python: str | None) -> None:
        responder = Responder(self._health_of, self._options)
        calls = self._calls or (best_calls() if python is None else PlainCalls())
        keeper = None if python is None else self._keeper(python, opened)
        own = () if keeper is None else (Ticker(keeper.tick),)

        def make() -> Loop:
            loop = Loop(
                opened.listeners if keeper is None else (),
                responder,
                limits=self._limits,
                calls=calls,
                poll=natives.epoll(),
                tickers=(*own, *self._tickers),
            )
            if keeper is not None:
                keeper.join(loop)
            return loop

        try:
            # At a fork it runs or it does not: a child must know which.
            with held.lock:
                running = _Running(held.open(make), opened, keeper)
                running.begin()
                self._running = running
                _started.add(self)
        except BaseException:
            if keeper is not None:
                keeper.end()
            raise
        for address in running.addresses:
            _LOG.info("health is shown at %s", address)

    def _keeper(self, python: str, opened: _Opened) -> Keeper:
        settings = settings_of(
            self._options,
            connections_max=self._limits.connections_max,
            timeout_s=self._limits.timeout_s,
            silent_max_s=self._silent_max_s,
            shared=[listener.shared for listener in opened.listeners],
        )
        return Keeper(python, self._health_of, opened.listeners, settings)

    def _after_fork(self) -> None:
        """In the child: what was open is closed already, and the sockets' files are the parent's."""
        self._running = None
        if self._restarts:
            self.start()


class _Opened:
    """Sockets that listen, and the files among them that are ours to remove."""

    def __init__(self) -> None:
        self.listeners: list[Listener] = []
        self.addresses: list[Address] = []
        self.owned: list[unix_socket.Owned] = []

    def take(self, listener: Listener) -> None:
        self.listeners.append(listener)
        self.addresses.append(activation.address_of(listener.socket))

    def listen(self, address: Address, rights: unix_socket.Rights) -> None:
        ours = [*self.addresses, *(place for each in list(_started) for place in each.addresses)]
        if isinstance(address, Unix):
            own = address.of_process(os.getpid())
            listener, owned = unix_socket.listen(own, rights, ours)
            self.owned.append(owned)
            self.listeners.append(Listener(listener))
            self.addresses.append(own)
            return
        for each in tcp_socket.listen(address, ours):
            self.take(Listener(each))

    def close(self) -> None:
        for listener in self.listeners:
            held.close(listener.socket)
        for owned in self.owned:
            unix_socket.remove(owned)


class _Running:
    """A loop, its thread, and how to end both."""

    def __init__(self, loop: Loop, opened: _Opened, keeper: Keeper | None) -> None:
        self.addresses = tuple(opened.addresses)
        self.keeper = keeper
        self.ended = False
        self._loop, self._owned = loop, opened.owned
        self._thread = 0
        self._done = natives.allocate_lock()

    def begin(self) -> None:
        self._done.acquire()
        try:
            natives.start_thread(self._run)
        except BaseException:
            held.close(self._loop)
            raise

    def _run(self) -> None:
        self._thread = natives.get_ident()
        try:
            self._loop.run()
        finally:
            self.ended = True
            self._done.release()

    def end(self) -> None:
        """Bounded: a host that never lets the thread run is not waited for."""
        for owned in self._owned:
            unix_socket.remove(owned)
        self._loop.stop()
        # In its own thread (the host's code called us from there) there is nothing to wait for.
        if natives.get_ident() != self._thread:
            self._done.acquire(timeout=STOP_WAIT_S)
        if self.keeper is not None:
            self.keeper.end()


@dataclasses.dataclass(frozen=True, slots=True)
class _Reported:
    """Makes a refused address loud, and fatal only where the service said so."""

    failures: list[HealthError]
    required: bool

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if not isinstance(error, BindFailed) or self.required:
            return False
        _LOG.error("%s; the service goes on without", error)
        self.failures.append(error)
        return True


def _shape(name: str) -> Shape:
    try:
        return Shape(name)
    except ValueError:
        why = "must be one of " + ", ".join(Shape)
        raise BadOption("format", name, why) from None


def _limits(max_connections: int, timeout_s: float) -> Limits:
    whole("max_connections", max_connections, least=1)
    if not is_number(timeout_s) or not 0 < timeout_s <= TIMEOUT_MAX_S:
        why = f"must be a number of seconds above 0, {TIMEOUT_MAX_S} at most"
        raise BadOption("timeout", timeout_s, why)
    return Limits(connections_max=max_connections, timeout_s=timeout_s)


def _aside(wanted: bool) -> bool:
    if not isinstance(wanted, bool):
        raise BadOption("apart", wanted, "must be True or False")
    return wanted


def _patience(silent_max_s: float) -> float:
    if not is_number(silent_max_s) or not SILENT_S_MIN <= silent_max_s <= TIMEOUT_MAX_S:
        why = f"must be a number of seconds from {SILENT_S_MIN:g} to {TIMEOUT_MAX_S}"
        raise BadOption("silent_max", silent_max_s, why)
    return float(silent_max_s)


def _activated(wanted: bool | str) -> bool | str:
    if not isinstance(wanted, bool | str):
        raise BadOption("activation", wanted, "must be True, False or the name of a descriptor")
    return wanted


def _ticking(tickers: Sequence[Ticker]) -> tuple[Ticker, ...]:
    if not isinstance(tickers, Sequence) or not all(isinstance(t, Ticker) for t in tickers):
        raise BadOption("tickers", tickers, "must be a list of Ticker")
    return tuple(tickers)


def _restarts(after_fork: str, wanted: Sequence[Address]) -> bool:
    # Not a set: whatever was given instead of a word may have no hash.
    if after_fork not in ("close", "restart"):
        raise BadOption("after_fork", after_fork, "must be close or restart")
    if after_fork == "close":
        return False
    for address in wanted:
        if isinstance(address, Tcp) or uris.PID not in address.path:
            why = f"a child cannot have its parent's {address}: only unix:///…{uris.PID}… can"
            raise BadOption("after_fork", after_fork, why)
    return True


_started: set[Endpoint] = set()


def _after_fork_in_child() -> None:
    forgotten = list(_started)
    _started.clear()
    for endpoint in forgotten:
        endpoint._after_fork()  # noqa: SLF001 - of this module


def _at_exit() -> None:
    for endpoint in list(_started):
        endpoint.close()


os.register_at_fork(after_in_child=_after_fork_in_child)
atexit.register(_at_exit)
