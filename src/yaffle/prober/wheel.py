"""A ring of 10 ms slots that holds every schedule and timeout; adding and cancelling cost O(1).

Timers never fire early and at most one slot late, as long as the loop turns.
"""

from __future__ import annotations

from typing import Final, Protocol

SLOT_S: Final = 0.01
_SLOTS: Final = 4096
_SLOTS_PER_S: Final = 100
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

    __slots__ = ("_now", "_slots", "waiting")

    def __init__(self, now_s: float) -> None:
        self._slots: list[dict[Timer, None]] = [{} for _ in range(_SLOTS)]
        self._now = int(now_s * _SLOTS_PER_S)
        self.waiting = 0

    def put(self, timer: Timer, at_s: float) -> None:
        """Let `timer` fire at `at_s`, or on the next tick where that is past."""
        tick = int(at_s * _SLOTS_PER_S) + 1
        if tick <= self._now:
            tick = self._now + 1
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
        """Fire everything that is due at `now_s`; a timer put meanwhile waits for a later tick."""
        last = int(now_s * _SLOTS_PER_S)
        if last <= self._now:
            return
        first = self._now + 1
        # After a long sleep one round of the ring visits every slot there is.
        steps = min(last - self._now, _SLOTS)
        self._now = last
        for tick in range(first, first + steps):
            slot = self._slots[tick & _MASK]
            if slot:
                self._fire(slot, last)

    def _fire(self, slot: dict[Timer, None], last: int) -> None:
        for timer in list(slot):
            # Later rounds of the ring wait here too; one that fired may have cancelled this one.
            if 0 < timer.due <= last:
                del slot[timer]
                timer.due = 0
                self.waiting -= 1
                timer.fire()

    def idle_s(self, now_s: float, longest_s: float) -> float:
        """How long nothing is due, counted from `now_s` and at most `longest_s`."""
        if not self.waiting:
            return longest_s
        first, slots = self._now + 1, self._slots
        for tick in range(first, first + int(longest_s * _SLOTS_PER_S)):
            if slots[tick & _MASK]:
                return max(0.0, min(tick * SLOT_S - now_s, longest_s))
        return longest_s
