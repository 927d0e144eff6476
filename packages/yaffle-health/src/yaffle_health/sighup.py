"""Forget on SIGHUP, for services that reload on it: opt-in, chained, and nothing done inside the handler.

The library installs no signal handler by itself, ever. Who calls `reset_on_sighup` gets one that
notes the moment (a single store: the interrupted thread may hold any lock) and then calls the
handler that was there. What was said before that moment no longer counts at the next look.
"""

from __future__ import annotations

import signal
from types import FrameType

from yaffle_health.errors import HealthError
from yaffle_health.manager import Manager


class Reset:
    """An installed handler; `close()` puts back what was there before."""

    def __init__(self, manager: Manager, signum: signal.Signals) -> None:
        self._manager, self._signum = manager, signum
        before = signal.getsignal(signum)
        if before is None:
            raise HealthError(
                f"{signum.name} is handled outside of Python (a server written in C?) and could not be "
                "chained: call Manager.reset() from that server's own reload hook instead"
            )
        self._before = before
        try:
            signal.signal(signum, self._handle)
        except ValueError as error:
            raise HealthError(
                f"a handler for {signum.name} can be installed from the main thread alone"
            ) from error

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        self._manager.reset_soon()
        # A default action would end the process, and who asks for a reset wants it to live on.
        if callable(self._before):
            self._before(signum, frame)

    def close(self) -> None:
        """Put the former handler back, unless somebody has installed another one since."""
        if signal.getsignal(self._signum) == self._handle:
            signal.signal(self._signum, self._before)


def reset_on_sighup(manager: Manager, *, signum: signal.Signals = signal.SIGHUP) -> Reset:
    """Let SIGHUP reset the manager, then do what it did before; main thread only.

    HealthError where it cannot be chained. Where SIGHUP had its default action, the process now
    lives on.
    """
    return Reset(manager, signum)
