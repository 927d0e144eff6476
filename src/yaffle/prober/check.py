"""Check of a URL: attempts, `retry_interval` apart, until one passes or all are used up.

Between attempts it holds no place and delays nobody. A failure is reported only when every attempt
failed: an attempt that could not be made leaves the check unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from yaffle.core.health.check_codes import OUTCOMES
from yaffle.model.health import Outcome
from yaffle.prober.attempt import Attempt
from yaffle.prober.keepalive import IdleSocket
from yaffle.prober.request import Unusable, build

if TYPE_CHECKING:
    from yaffle.prober.loop import Loop
    from yaffle.prober.request import Request
    from yaffle.prober.rules import Rules
    from yaffle.prober.wire import Ask

DETAIL_CHARS_MAX: Final = 400

_FINAL: Final = frozenset({"X-LATE", "X-REFUSED-ADDRESS"}) | {
    code for code, row in OUTCOMES.items() if row.outcome in (Outcome.PASS, Outcome.WARN)
}
"""Good, or such that trying again would not change it."""

Report = Callable[[int, str, str, int], None]
"""Id, code, detail, µs the last attempt took."""


class State(IntEnum):
    """The event that a check waits for."""

    RESTING = 0
    QUEUED = 1
    ASKING = 2
    BETWEEN = 3


# Names of a module are looked up much faster than members of an enum.
RESTING, QUEUED, ASKING, BETWEEN = State


class Check:
    """Reusable: a watch asks the same check again every round, one round at a time."""

    __slots__ = (
        "_attempt",
        "_doubt",
        "_left",
        "_loop",
        "_patience_s",
        "_report",
        "_request",
        "_rules",
        "due",
        "id",
        "idle",
        "state",
        "url",
    )

    def __init__(self, loop: Loop, ask: Ask, rules: Rules, report: Report) -> None:
        self._loop = loop
        self._rules = rules
        self._report = report
        self._request: Request | None = None
        self._attempt: Attempt | None = None
        self._doubt: tuple[str, str] | None = None
        self._left = 0
        self._patience_s = 0.0
        self.id = ask.id
        self.url = ask.url
        self.idle: IdleSocket | None = None
        self.state = RESTING
        self.due = 0

    def begin(self, patience_s: float) -> None:
        """Ask; waiting longer than `patience_s` for a place ends it as X-LATE."""
        self._left = self._rules.attempts
        self._doubt = None
        self._patience_s = patience_s
        attempt = self._attempt
        if attempt is None and not self._prepare():
            return
        if attempt is not None and self._loop.has_place():
            # What `_ask` would do, but most checks come this way.
            self.state = ASKING
            attempt.start()
        else:
            self._ask()

    def _prepare(self) -> bool:
        """Build what every attempt needs, or end; on first use, so that a big schedule stops nobody."""
        if self._rules.fault:
            self._end("X-BUG", self._rules.fault, 0)
            return False
        try:
            self._request = build(self.url, keep_alive=self._rules.keep_alive)
        except Unusable as error:
            self._end(error.code, str(error), 0)
            return False
        self._attempt = Attempt(self._loop, self._request, self._rules, self)
        return True

    def abandon(self) -> None:
        """Stop without a report, and close everything."""
        self._loop.wheel.cancel(self)
        self._loop.leave_queue(self)
        if self._attempt is not None:
            self._attempt.abandon()
        if self.idle is not None:
            self.idle.drop()
        self.state = RESTING

    def explain(self, what: str, took_us: int = 0) -> str:
        """Return the detail: what was asked, and `what` came of it."""
        request = self._request
        if request is None:
            return _line(f"GET {self.url[:200]}: {what}")
        # Not `:.0f`: formatting a float costs as much as the rest of the line.
        took = f" in {(took_us + 500) // 1000} ms" if took_us else ""
        attempts = self._rules.attempts - self._left
        tried = f", attempt {attempts} of {self._rules.attempts}" if attempts > 1 else ""
        return _line(f"GET {request.shown}: {what}{took}{tried}")

    def _ask(self) -> None:
        loop = self._loop
        if loop.has_place():
            self.place_free()
        else:
            self.state = QUEUED
            loop.waiting[self] = None
            loop.wheel.put(self, loop.now + self._patience_s)

    def place_free(self) -> None:
        """Make the next attempt, for there is a place."""
        if self.due:
            self._loop.wheel.cancel(self)
        self.state = ASKING
        if self._attempt is not None:
            self._attempt.start()

    def fire(self) -> None:
        """Waited long enough: for a place, or between two attempts."""
        if self.state is QUEUED:
            self._loop.leave_queue(self)
            self._end("X-LATE", f"not asked: no place within {self._patience_s:g} s", 0)
        elif self.state is BETWEEN:
            self._ask()

    def attempt_ended(self, code: str, what: str, took_us: int) -> None:
        """Report, or try again later."""
        self._left -= 1
        if code in _FINAL:
            self._end(code, what, took_us)
            return
        if self._doubt is None and OUTCOMES[code].outcome is Outcome.UNKNOWN:
            self._doubt = (code, what)
        if self._left > 0:
            self.state = BETWEEN
            self._loop.wheel.put(self, self._loop.now + self._rules.retry_interval_s)
        else:
            self._end(*(self._doubt or (code, what)), took_us)

    def _end(self, code: str, what: str, took_us: int) -> None:
        self.state = RESTING
        self._report(self.id, code, self.explain(what, took_us), took_us)


def _line(text: str) -> str:
    text = text[:DETAIL_CHARS_MAX]
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)
