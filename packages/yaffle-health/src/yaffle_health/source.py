"""The slot that a decorated function writes on its way out: one store, no lock, no allocation.

A source is one writer's memory of one item. Two cells hold it: `passed_at`, overwritten by every
success without a lock, and `event`, the last warning or failure as one object, written under the
manager's lock. Whichever is later counts. A reader can therefore never see half of an event, and a
success that was measured before a failure can never hide it, however late its store arrives.

What a reader makes of the two is kept as `moment`: another object only when something else was said.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

from yaffle_health.model import Status

NEVER = float("-inf")
# Owners of sources that nobody reads; never None, which is "no manager here". NOBODY matches a
# process without any manager, so that an undecided wrapper is quick as well; FORGOTTEN matches nothing.
NOBODY = object()
FORGOTTEN = object()

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_US = 1_000_000


class Moment:
    """What a source said: when by both clocks, and what.

    `at` is monotonic seconds, `wall_us` microseconds of the epoch. `output` is as it was given,
    `shown` what may be shown of it, worked out by the first who looks.
    """

    __slots__ = ("at", "output", "shown", "status", "wall_us")

    def __init__(self, at: float, wall: float, status: Status, output: str | None = None) -> None:
        self.at = at
        self.wall_us = round(wall * _US)
        self.status = status
        self.output = output
        self.shown: str | None = None

    @property
    def time(self) -> dt.datetime:
        """The wall clock's moment, aware UTC."""
        return _EPOCH + dt.timedelta(microseconds=self.wall_us)

    def looks_like(self, other: Moment) -> bool:
        """Whether both are passes that nobody can tell apart, since times are shown in seconds."""
        return (
            self.status is Status.PASS is other.status
            and self.wall_us // _US == other.wall_us // _US
        )


class Source:
    """One writer of one item. `owner` is FORGOTTEN once its manager has dropped it.

    `heard` is the `passed_at` that `moment` knows of; `alone` whether no other source feeds the item.
    """

    __slots__ = (
        "alone",
        "component_type",
        "event",
        "heard",
        "moment",
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
        self.passed_at = self.heard = NEVER
        self.event: Moment | None = None
        self.moment: Moment | None = None
        self.ttl_s: float | None = None
        self.component_type = component_type
        self.sticky = sticky
        self.alone = True

    def record(self, event: Moment) -> None:
        """Store a warning or a failure. The caller holds the manager's lock."""
        # Clearing the pass first makes the event count even where both clocks read the same.
        self.passed_at = self.heard = NEVER
        self.event = self.moment = event

    def forget_before(self, at: float) -> None:
        """Drop what was said before that monotonic moment. The caller holds the lock."""
        if self.event is not None and self.event.at < at:
            self.event = None
        if self.passed_at < at:
            self.passed_at = self.heard = NEVER
        if self.moment is not None and self.moment.at < at:
            self.moment = self.event

    @property
    def is_empty(self) -> bool:
        """Whether nothing that was said is left."""
        return self.event is None and self.passed_at == NEVER

    def listen(self, passed_at: float, now: float, wall: float) -> bool:
        """Take that `passed_at` into account; whether anything else is to be seen for it.

        The caller holds the lock, and stores it as `heard` afterwards. A pass knows only its monotonic
        moment: the wall time is worked out here, once, so that it is the same at every further look,
        whatever the wall clock does.
        """
        event, before = self.event, self.moment
        if passed_at == NEVER or (event is not None and event.at > passed_at):
            # A success from before the failure, whose store came late.
            self.moment = event
            return before is not event
        passed = Moment(passed_at, wall - max(0.0, now - passed_at), Status.PASS)
        self.moment = passed
        return before is None or not self.alone or not passed.looks_like(before)
