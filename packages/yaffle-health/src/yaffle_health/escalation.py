"""A connection that breaks is a warning; one that stays away is a failure (seed 4, "warn vs fail").

bus = Connection("message_bus")
bus.lost(error)            # warn
with bus.attempt():        # fail, if it raises; pass, if it does not
    connect()
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Final

from yaffle_health import redact
from yaffle_health.current import find
from yaffle_health.errors import BadOption
from yaffle_health.forks import renew_in_children
from yaffle_health.locks import NativeRLock
from yaffle_health.manager import Manager
from yaffle_health.model import Status

ATTEMPTS: Final = 1


class Connection:
    """One connection's way from pass over warn to fail and back, reported to the manager.

    `attempts` is how many reconnects may fail before the warning becomes a failure; 1 is the seed's.
    Without `manager` it is found at each report, as decorators do. May be used from every thread.
    In a forked child it begins as one of which nothing is known.
    """

    def __init__(
        self,
        name: str,
        *,
        manager: Manager | None = None,
        component_id: str | None = None,
        attempts: int = ATTEMPTS,
        ttl_s: float | None = None,
    ) -> None:
        if attempts < 1:
            raise BadOption("attempts", attempts, "at least one reconnect has to fail")
        self.name = name
        self._manager, self._component_id, self._ttl_s = manager, component_id, ttl_s
        self._attempts = attempts
        self._lock = NativeRLock()
        # How many reconnects have failed since it was lost; None while it is up.
        self._failed: int | None = None
        renew_in_children(self)

    def start_afresh_after_fork(self) -> None:
        """Know nothing of the parent's connection; called in the child of a fork (forks.py)."""
        self._lock = NativeRLock()
        self._failed = None

    def up(self) -> None:
        """It works: pass."""
        with self._lock:
            self._failed = None
            self._report(Status.PASS, None)

    def lost(self, reason: str | BaseException) -> None:
        """It broke: warn. One that had already failed to come back stays failed."""
        with self._lock:
            self._failed = self._failed or 0
            self._complain(reason)

    def retry_failed(self, reason: str | BaseException) -> None:
        """An attempt to connect failed: fail, or warn if it was the first sign of trouble."""
        with self._lock:
            self._failed = 0 if self._failed is None else self._failed + 1
            self._complain(reason)

    @contextlib.contextmanager
    def attempt(self) -> Iterator[None]:
        """Report what comes of the block, an attempt to connect; its error goes on to the caller."""
        try:
            yield
        except Exception as error:
            self.retry_failed(error)
            raise
        self.up()

    def _complain(self, reason: str | BaseException) -> None:
        failed = self._failed or 0
        status = Status.FAIL if failed >= self._attempts else Status.WARN
        words = "the connection is lost"
        if failed:
            words += f", {failed} {'attempt' if failed == 1 else 'attempts'} to reconnect failed"
        self._report(status, f"{words}: {self._told(reason)}")

    def _told(self, reason: str | BaseException) -> str:
        if isinstance(reason, str):
            return reason
        manager = self._manager or find()
        return redact.told(reason, message=manager is None or manager.error_messages)

    def _report(self, status: Status, output: str | None) -> None:
        manager = self._manager or find()
        if manager is not None:
            manager.report(
                self.name, status, output, component_id=self._component_id, ttl_s=self._ttl_s
            )
