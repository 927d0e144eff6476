"""Tells a program that runs from one whose loop stands still: items about the loop, told by the loop.

A process can hold its port, answer /health from another thread, and do nothing at all. A heart beats
on the loop that is being judged; the endpoint's own thread sees when it stops, because the item's
silence is a warning (`warn_after_s`) and then a failure in itself (`fail_after_s`). Each is opt-in,
and in the group `live`.
"""

from __future__ import annotations

import threading
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from yaffle_health.errors import BadOption
from yaffle_health.forks import renew_in_children
from yaffle_health.manager import Manager
from yaffle_health.model import Status

if TYPE_CHECKING:
    import asyncio

INTERVAL_S: Final = 1.0
WARN_AFTER_S: Final = 0.5
FAIL_AFTER_S: Final = 10.0
# A probe comes every ten seconds or so: a hiccup between two of them is shown for that long.
HOLD_S: Final = 15.0


class Heart:
    """One item that is fed by beats: pass, warn when one is overdue and for a while after, then fail.

    `warn_after_s` and `fail_after_s` are how late a beat may be before the silence is a warning and
    a failure. A warning stays for `hold_s`, so that the next probe sees it.
    """

    def __init__(
        self,
        manager: Manager,
        name: str,
        *,
        interval_s: float = INTERVAL_S,
        warn_after_s: float = WARN_AFTER_S,
        fail_after_s: float = FAIL_AFTER_S,
        hold_s: float = HOLD_S,
    ) -> None:
        for option, value in (("interval_s", interval_s), ("fail_after_s", fail_after_s)):
            if value <= 0:
                raise BadOption(option, value, "give a number of seconds above 0")
        self.name = name
        self.interval_s = interval_s
        self._manager = manager
        self._warn_after_s = warn_after_s
        self._hold_beats = max(1, round(hold_s / interval_s))
        self._held, self._worst_s = 0, 0.0
        manager.register(
            name,
            groups=("live",),
            ttl_s=0,
            # It cannot say itself that it stands still: whoever asks sees that a beat is overdue.
            warn_after_s=interval_s + warn_after_s,
            fail_after_s=interval_s + fail_after_s,
        )
        renew_in_children(self)

    def start_afresh_after_fork(self) -> None:
        """Forget how late the parent's beats were."""
        self._held, self._worst_s = 0, 0.0

    def beat(self, late_s: float) -> None:
        """Say that the heart beats, and by how many seconds it was late this time."""
        if late_s >= self._warn_after_s:
            self._worst_s = max(late_s, self._worst_s if self._held else 0.0)
            self._held = self._hold_beats
        if self._held:
            self._held -= 1
            self._manager.report(
                self.name, Status.WARN, f"it stood still for {self._worst_s:.1f} s"
            )
        else:
            self._manager.passed(self.name)

    def forget(self) -> None:
        """Take the item away: a heart that was stopped on purpose is no failure."""
        self._manager.unregister(self.name)


class LoopLag:
    """The item `event_loop`: beats on an asyncio loop, of uvloop's make as well.

    It is no task: a timer that sets the next one. Start it on the loop, or as `with LoopLag(manager):`
    inside a coroutine.
    """

    def __init__(self, manager: Manager, heart: Heart | None = None) -> None:
        self._heart = heart or Heart(manager, "event_loop")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0

    def start(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """Begin to beat on that loop, or on the one that runs here."""
        if loop is None:
            import asyncio

            loop = asyncio.get_running_loop()
        self._loop, self._due = loop, loop.time()
        self._beat()

    def stop(self) -> None:
        """Stop, and take the item away. Call it on the loop's thread."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._heart.forget()

    def _beat(self) -> None:
        assert self._loop is not None  # noqa: S101  start() set it
        now = self._loop.time()
        self._heart.beat(now - self._due)
        self._due = now + self._heart.interval_s
        self._timer = self._loop.call_at(self._due, self._beat)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()


class ThreadLag:
    """The item `threads`: beats on a thread of the host's own kind.

    In a plain program that is a native thread, and it lags where something holds the interpreter. In
    one that eventlet or gevent has patched it is a greenlet, and it lags where the hub is blocked,
    while the endpoint's thread, which is native in both, goes on to say so. Start it after a fork.
    """

    def __init__(self, manager: Manager, heart: Heart | None = None) -> None:
        self._heart = heart or Heart(manager, "threads")
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        renew_in_children(self)

    def start_afresh_after_fork(self) -> None:
        """The thread stayed in the parent, maybe in the middle of the event's lock.

        A greenlet goes on in the child, and finds the new event at its next turn.
        """
        self._stop = threading.Event()

    def start(self) -> None:
        """Begin to beat on a daemon thread."""
        self._stop.clear()
        self._thread = threading.Thread(target=self._run, name="yaffle-health-lag", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop, wait for the thread for one interval and a bit, and take the item away."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(self._heart.interval_s + 1)
            self._thread = None
            self._heart.forget()

    def _run(self) -> None:
        import time

        late_s = 0.0
        while not self._stop.is_set():
            self._heart.beat(late_s)
            due = time.monotonic() + self._heart.interval_s
            self._stop.wait(self._heart.interval_s)
            late_s = time.monotonic() - due

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()
