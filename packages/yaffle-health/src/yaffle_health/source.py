"""The slot that a decorated function writes on its way out: one store, no lock, no allocation.

A source is one writer's memory of one item. Two cells hold it: `passed_at`, overwritten by every
success without a lock, and `event`, the last warning or failure as one tuple, written under the
manager's lock. Whichever is later counts. A reader can therefore never see half of an event, and a
success that was measured before a failure can never hide it, however late its store arrives.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import NamedTuple

from yaffle_health.model import Status

NEVER = float("-inf")
# Owners of sources that nobody reads; never None, which is "no manager here". NOBODY matches a
# process without any manager, so that an undecided wrapper is quick as well; FORGOTTEN matches nothing.
NOBODY = object()
FORGOTTEN = object()


class Event(NamedTuple):
    """A report that was not a pass. `at` is monotonic seconds, `wall` seconds of the epoch."""

    at: float
    wall: float
    status: Status
    output: str


class Moment(NamedTuple):
    """What a source said last: when by both clocks, and what. `output` is as it was given."""

    at: float
    time: dt.datetime
    status: Status
    output: str | None = None


class Source:
    """One writer of one item. `owner` is FORGOTTEN once its manager has dropped it."""

    __slots__ = (
        "_time_of_pass",
        "component_type",
        "event",
        "now",
        "owner",
        "passed_at",
        "sticky",
        "ttl_s",
    )

    def __init__(
        self, owner: object, now: Callable[[], float], *, component_type: str, sticky: bool
    ) -> None:
        self.owner = owner
        self.now = now
        self.passed_at = NEVER
        self.event: Event | None = None
        self.ttl_s: float | None = None
        self.component_type = component_type
        self.sticky = sticky
        self._time_of_pass: tuple[float, dt.datetime] | None = None

    def record(self, event: Event) -> None:
        """Store a warning or a failure. The caller holds the manager's lock."""
        # Clearing the pass first makes the event count even where both clocks read the same.
        self.passed_at = NEVER
        self.event = event

    def forget_before(self, at: float) -> None:
        """Drop what was said before that monotonic moment. The caller holds the lock."""
        if self.event is not None and self.event.at < at:
            self.event = None
        if self.passed_at < at:
            self.passed_at = NEVER

    @property
    def is_empty(self) -> bool:
        """Whether nothing that was said is left."""
        return self.event is None and self.passed_at == NEVER

    def last(self, now: float, wall: float) -> Moment | None:
        """What this source said last, or None. The caller holds the lock.

        A pass knows only its monotonic moment: the wall time is worked out at the first look and
        remembered, so that it is the same at every further look, whatever the wall clock does.
        """
        passed_at, event = self.passed_at, self.event
        if event is not None and event.at > passed_at:
            return Moment(
                at=event.at, time=_utc(event.wall), status=event.status, output=event.output
            )
        if passed_at == NEVER:
            return None
        known = self._time_of_pass
        if known is None or known[0] != passed_at:
            known = (passed_at, _utc(wall - max(0.0, now - passed_at)))
            self._time_of_pass = known
        return Moment(at=passed_at, time=known[1], status=Status.PASS)


def _utc(seconds: float) -> dt.datetime:
    return dt.datetime.fromtimestamp(seconds, dt.UTC)
