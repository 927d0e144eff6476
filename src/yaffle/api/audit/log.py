"""Writes the audit log in a thread, so that a slow or full disk keeps no request waiting."""

from __future__ import annotations

import datetime as dt
import errno
import os
import queue
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import structlog

from yaffle.api.audit.chain import Chain
from yaffle.api.masking import masked_path

if TYPE_CHECKING:
    from pathlib import Path

    from prometheus_client import Counter
    from starlette.types import Scope

    from yaffle.config import AuditSettings
    from yaffle.ports import Clock

log = structlog.get_logger()

WAITING_MAX: Final = 10_000
"""Entries that wait for the disk; more are lost, and counted."""
REFUSALS_MAX: Final = 50
"""Refusals of strangers that are listed in a second: a flood must not turn the log over."""
PACE_S: Final = 1.0
STOP_S: Final = 5.0
TEXT_MAX: Final = 500
BESIDE_MAX: Final = 16
"""Processes of one kind in one state directory."""
READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
REFUSED: Final = frozenset({401, 403, 421, 429})

Facts = Mapping[str, object]


class Audit:
    """Writes down who changed what and who was refused; `note` never waits and never fails."""

    def __init__(self, folder: Path, role: str, settings: AuditSettings, clock: Clock) -> None:
        self._folder = folder
        self._role = role
        self._settings = settings
        self._clock = clock
        self._queue: queue.Queue[Facts | None] = queue.Queue(WAITING_MAX)
        self._chain: Chain | None = None
        self._guard = threading.Lock()
        self._lost = 0
        self._losses = 0
        self._counter: Counter | None = None
        self._unlisted = 0
        self._second = 0
        self._refusals = 0
        self._failing = False
        self._thread = threading.Thread(target=self._work, name="audit", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self.note({"event": "started", "pid": os.getpid()})
        self._thread.start()

    def close(self) -> None:
        """Write what waits, for `STOP_S` at most."""
        try:
            self._queue.put(None, timeout=STOP_S)
        except queue.Full:
            return
        self._thread.join(STOP_S)

    def count_in(self, counter: Counter) -> None:
        """Count there what is lost, and what has been so far."""
        with self._guard:
            self._counter = counter
            counter.inc(self._losses)

    @property
    def lost(self) -> int:
        """The number of lost entries that the log does not tell of yet."""
        return self._lost

    def visited(self, scope: Scope, status: int) -> None:
        """Note a request that changed something or was refused; nothing of any other."""
        if scope["method"] in READS and status not in REFUSED:
            return
        who, client = scope.get("yaffle.asked_by"), scope.get("client")
        proved = bool(scope.get("yaffle.user"))
        if status >= 400 and not proved and self._is_flood():
            return
        facts: dict[str, object] = {
            "event": "request",
            "request": scope.get("yaffle.request_id", ""),
            "user": _bounded(who.user if who is not None else ""),
            "proved": proved,
            "project": _bounded(who.project if who is not None else ""),
            "peer": str(client[0]) if client else "",
            "method": _bounded(scope["method"]),
            "path": _bounded(masked_path(scope["path"])),
            "status": status,
        }
        self.note(facts)

    def note(self, facts: Facts) -> None:
        """Have an entry written."""
        now = dt.datetime.fromtimestamp(self._clock.now_us() / 1e6, dt.UTC)
        try:
            self._queue.put_nowait({"time": now.isoformat(timespec="milliseconds"), **facts})
        except queue.Full:
            self._lose(1)

    def _is_flood(self) -> bool:
        """Whether this refusal is only counted."""
        second = int(self._clock.monotonic_s())
        with self._guard:
            if second != self._second:
                self._second, self._refusals = second, 0
            self._refusals += 1
            self._unlisted += self._refusals > REFUSALS_MAX
            return self._refusals > REFUSALS_MAX

    def _lose(self, count: int) -> None:
        with self._guard:
            self._lost += count
            self._losses += count
            if self._counter is not None:
                self._counter.inc(count)

    # --- in the thread ---

    def _work(self) -> None:
        while True:
            try:
                facts = self._queue.get(timeout=PACE_S)
            except queue.Empty:
                facts = {}
            if facts is None:
                break
            self._write(facts)
        if self._chain is not None:
            self._chain.close()

    def _write(self, facts: Facts) -> None:
        """Write an entry and what is owed beside it; what cannot be written is counted."""
        owed = {"lost": self._lost, "refusals not listed": self._unlisted}
        left = [facts] if facts else []
        try:
            chain = self._opened()
            for event, count in owed.items():
                if count:
                    chain.append({"time": self._time(), "event": event, "count": count})
                    self._paid(event, count)
            while left:
                chain.append(left[0])
                left.pop()
            if self._queue.empty():
                chain.sync()
        except OSError as error:
            self._lose(len(left))
            if not self._failing and (left or self._lost):
                log.error("audit log cannot be written", error=str(error))  # noqa: TRY400
                self._failing = True
            return
        if self._failing:
            log.warning("audit log is written again", lost=owed["lost"])
            self._failing = False

    def _opened(self) -> Chain:
        if self._chain is None:
            self._chain = self._free_chain()
            if self._chain.torn:
                torn = {"event": "torn line removed", "bytes": self._chain.torn}
                self._chain.append({"time": self._time(), **torn})
        return self._chain

    def _free_chain(self) -> Chain:
        """Return a log that no other process writes: engines may share a state directory."""
        roles = (self._role, *(f"{self._role}-{number}" for number in range(2, BESIDE_MAX + 1)))
        for role in roles:
            with suppress(BlockingIOError):
                return Chain(
                    self._folder,
                    role,
                    file_max=self._settings.file_size,
                    files_max=self._settings.files,
                )
        raise BlockingIOError(errno.EAGAIN, f"{BESIDE_MAX} other processes write in {self._folder}")

    def _paid(self, event: str, count: int) -> None:
        with self._guard:
            if event == "lost":
                self._lost -= count
            else:
                self._unlisted -= count

    def _time(self) -> str:
        now = dt.datetime.fromtimestamp(self._clock.now_us() / 1e6, dt.UTC)
        return now.isoformat(timespec="milliseconds")


def _bounded(text: object) -> str:
    return str(text)[:TEXT_MAX]
