"""The timer wheel against a dumb twin: everything fires once, never early, at most a slot late."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from yaffle.prober.wheel import FIRES_MAX, SLOT_S, Wheel


class Alarm:
    def __init__(self, at_s: float, fired: list[Alarm]) -> None:
        self.at_s = at_s
        self.due = 0
        self._fired = fired

    def fire(self) -> None:
        self._fired.append(self)


@given(
    st.lists(st.floats(0, 200), max_size=30),
    st.sets(st.integers(0, 29)),
    st.lists(st.floats(0.001, 90), min_size=1, max_size=20),
)
def test_like_a_sorted_list(at: list[float], cancelled: set[int], steps: list[float]) -> None:
    start = 1_000.0
    wheel = Wheel(start)
    fired: list[Alarm] = []
    alarms = [Alarm(start + seconds, fired) for seconds in at]
    for alarm in alarms:
        wheel.put(alarm, alarm.at_s)
    for number in cancelled & set(range(len(alarms))):
        wheel.cancel(alarms[number])
        wheel.cancel(alarms[number])
    waiting = [a for n, a in enumerate(alarms) if n not in cancelled]
    now = start
    for step in steps:
        now += step
        wheel.advance(now)
        done = set(fired)
        assert len(done) == len(fired)
        assert all(alarm.at_s <= now for alarm in fired)
        assert all(alarm in done for alarm in waiting if alarm.at_s + SLOT_S <= now)
        assert wheel.waiting == len(waiting) - len(fired)
        idle_s = wheel.idle_s(now, 0.25)
        assert 0 <= idle_s <= 0.25
        # It may be woken for a later round of the ring, but is never left asleep.
        assert all(alarm in done or alarm.at_s + 2 * SLOT_S >= now + idle_s for alarm in waiting)


def test_a_timer_may_cancel_and_put_others_while_firing() -> None:
    wheel = Wheel(0.0)
    fired: list[str] = []

    class Named:
        def __init__(self, name: str) -> None:
            self.name, self.due, self.other = name, 0, self

        def fire(self) -> None:
            fired.append(self.name)
            if self.name == "again":
                wheel.put(self, 0.0)
            wheel.cancel(self.other) if self.other is not self else None

    first, second, again = Named("first"), Named("second"), Named("again")
    first.other, second.other = second, first
    for timer in (first, second, again):
        wheel.put(timer, 0.05)
    wheel.advance(0.06)
    assert fired == ["first", "again"]
    wheel.advance(0.06 + SLOT_S)
    assert fired == ["first", "again", "again"]


class Putting:
    """Puts itself again while it fires, `again_s` after its time."""

    def __init__(self, wheel: Wheel, at_s: float, again_s: float) -> None:
        self.due, self.times = 0, 0
        self._wheel, self._at_s, self._again_s = wheel, at_s, again_s
        wheel.put(self, at_s)

    def fire(self) -> None:
        self.times += 1
        if self.times == 1:
            self._wheel.put(self, self._at_s + self._again_s)


@settings(deadline=None)
@given(
    st.lists(st.integers(1, 3 * FIRES_MAX), min_size=1, max_size=4),
    st.floats(-1, 0.2),
    st.sampled_from([0.1, 30.0, 60.0, 200.0]),
)
def test_too_many_at_once_fire_a_few_at_a_time_and_all(
    crowds: list[int], again_s: float, late_s: float
) -> None:
    wheel = Wheel(0.0)
    timers = [
        Putting(wheel, 0.05 + number / 40, again_s)
        for number, crowd in enumerate(crowds)
        for _ in range(crowd)
    ]
    before, now_s = 0, 0.05 + late_s
    for _ in range(2 * sum(crowds) // FIRES_MAX + 8):
        wheel.advance(now_s)
        fired = sum(timer.times for timer in timers)
        assert fired - before <= FIRES_MAX
        # What is left over is told to the loop, which must not go to sleep over it.
        assert fired == 2 * len(timers) or wheel.idle_s(now_s, 0.25) < 0.25
        before, now_s = fired, now_s + SLOT_S
    assert {timer.times for timer in timers} == {2}
    assert wheel.waiting == 0
