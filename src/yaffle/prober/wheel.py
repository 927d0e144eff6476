"""A ring of 20 ms slots that holds every schedule and deadline; adding and cancelling cost O(1).

Timers never fire early and at most one slot late, as long as the loop keeps up: it fires a bounded
number at a time, so that a loop that does not keep up still looks at what came in between.
"""

from __future__ import annotations

from typing import Final, Protocol

SLOT_S: Final = 0.02
"""Checks that begin together share the cost of waking up: at 1,000 a second a fifth of their CPU."""
FIRES_MAX: Final = 256
"""At a time; about 10 ms of work."""
_SLOTS: Final = 2048
_SLOTS_PER_S: Final = 50
_MASK: Final = _SLOTS - 1


class Timer(Protocol):
    """Anything with a place on the wheel; one place at a time."""

    due: int
    """The tick at which it fires, written by the wheel; 0 while it is not waiting."""

    def fire(self) -> None:
        """Called once, after the timer left the wheel."""
        ...


class Wheel:
    """Timers by tick. What lies further ahead than the ring is long passes by until its turn comes."""

    __slots__ = ("_done", "_seen", "_slots", "waiting")

    def __init__(self, now_s: float) -> None:
        self._slots: list[dict[Timer, None]] = [{} for _ in range(_SLOTS)]
        self._seen = int(now_s * _SLOTS_PER_S)
        """The newest tick we were told of: nothing is put before it any more."""
        self._done = self._seen
        """Up to this tick everything was fired; behind `_seen` while there is too much to do."""
        self.waiting = 0

    def put(self, timer: Timer, at_s: float) -> None:
        """Let `timer` fire at `at_s`, or on the next tick where that is past."""
        tick = int(at_s * _SLOTS_PER_S) + 1
        if tick <= self._seen:
            tick = self._seen + 1
        timer.due = tick
        self._slots[tick & _MASK][timer] = None
        self.waiting += 1

    def cancel(self, timer: Timer) -> None:
        """Take `timer` off the wheel; harmless where it is not on it."""
        if timer.due:
            del self._slots[timer.due & _MASK][timer]
            timer.due = 0
            self.waiting -= 1

    def advance(self, now_s: float) -> None:
        """Fire what is due at `now_s`, FIRES_MAX at most; what is put meanwhile waits for its turn."""
        last = int(now_s * _SLOTS_PER_S)
        if last <= self._done:
            return
        self._seen = max(self._seen, last)
        first, room = self._done + 1, FIRES_MAX
        # After a long sleep one round of the ring visits every slot there is.
        for tick in range(first, first + min(last - self._done, _SLOTS)):
            slot = self._slots[tick & _MASK]
            if slot:
                room = self._fire(slot, last, room)
                if room < 0:
                    self._done = tick - 1
                    return
        self._done = last

    def _fire(self, slot: dict[Timer, None], last: int, room: int) -> int:
        """Fire what is due, `room` at most; return how many more may fire, -1 where some are left."""
        for timer in list(slot):
            # Later rounds of the ring wait here too; one that fired may have cancelled this one.
            if 0 < timer.due <= last:
                if not room:
                    return -1
                room -= 1
                del slot[timer]
                timer.due = 0
                self.waiting -= 1
                timer.fire()
        return room

    def idle_s(self, now_s: float, longest_s: float) -> float:
        """Return how long nothing is due, counted from `now_s` and at most `longest_s`."""
        if not self.waiting:
            return longest_s
        first, slots = self._done + 1, self._slots
        for tick in range(first, first + int(longest_s * _SLOTS_PER_S)):
            if slots[tick & _MASK]:
                return max(0.0, min(tick * SLOT_S - now_s, longest_s))
        return longest_s
