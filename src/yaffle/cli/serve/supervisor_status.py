"""Status for a supervisor: how a process stands in one line, and when it counts as started.

Ready means: it does its work, or it waits for a database that is away and goes on by itself when
that is back. Such a process must not be restarted, again and again, for what is not its fault.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from yaffle.engine.runtime.clock import SystemClock
from yaffle.model.counts import count

if TYPE_CHECKING:
    from yaffle.cli.serve.systemd import Systemd
    from yaffle.engine.engine import Engine
    from yaffle.engine.runtime.change_poller import ChangePoller

PACE_S: Final = 0.1
FAULT_MAX: Final = 300
PATIENCE_S: Final = 20.0
"""After so long a process that still tries has started: a restart would only make it try anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The present state of the supervisor."""

    text: str
    settled: bool
    """Whether it has started, or waits for others."""
    patience_s: float = PATIENCE_S
    """After so long since its beginning it counts as started all the same."""


OPENING: Final = Standing(text="opening the database", settled=False)


def waiting(fault: str) -> Standing:
    """Return how a process stands whose database cannot be opened."""
    return Standing(text=f"waiting for the database: {_line(fault)}", settled=True)


def of_api(ticker: ChangePoller) -> Standing:
    """Return how an API without an engine stands."""
    if ticker.fault:
        return Standing(text=f"the database is away: {_line(ticker.fault)}", settled=True)
    return Standing(text="answering", settled=True)


def of_engine(engine: Engine, ticker: ChangePoller) -> Standing:
    """Return how an engine stands: with a session it may act, without one it tries to begin it."""
    session = engine.session
    if session is None and ticker.fault:
        return Standing(text=f"not acting: {_line(ticker.fault)}", settled=True)
    if session is None:
        return Standing(text="registering", settled=False)
    if session.left_s() <= 0:
        return Standing(
            text=f"not acting: the lease of epoch {session.epoch} is over", settled=True
        )
    clusters = count(len(engine.watches), "cluster")
    return Standing(text=f"acting under epoch {session.epoch}, watching {clusters}", settled=True)


class Announcer:
    """Tells the supervisor each change of how the process stands, and once that it has started."""

    def __init__(self, supervisor: Systemd, *, prefix: str, on_ready: Callable[[], None]) -> None:
        self._supervisor = supervisor
        self._prefix = prefix
        self._on_ready = on_ready
        self._ready = False
        self._told = ""
        self.look: Callable[[], Standing] = lambda: OPENING
        """Replaced as the process gets further."""

    async def run(self) -> None:
        """Look until cancelled."""
        clock = SystemClock()
        began_s = clock.monotonic_s()
        while True:
            now = self.look()
            self._tell(now, late=clock.monotonic_s() > began_s + now.patience_s)
            await clock.sleep(PACE_S)

    def _tell(self, now: Standing, *, late: bool) -> None:
        first = (now.settled or late) and not self._ready
        if first:
            self._ready = True
            self._on_ready()
        if first or now.text != self._told:
            self._told = now.text
            state = "READY=1\n" if first else ""
            self._supervisor.tell(f"{state}STATUS={self._prefix}{now.text}")


def _line(text: str) -> str:
    """Return the text as one line of bounded length: a datagram holds one state a line."""
    return " ".join(text.split())[:FAULT_MAX]
