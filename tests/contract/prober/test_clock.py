"""What the child saw is told by the clock that the engine goes by, whatever the machine's says."""

from __future__ import annotations

from tests.contract.prober.live import LiveProber, until

from yaffle.engine.runtime.clock import SystemClock

HOUR_US = 3_600_000_000


def test_answers_bear_the_time_of_a_steered_clock() -> None:
    with LiveProber() as live:
        clock = live.client._clock
        assert isinstance(clock, SystemClock)
        began_us = clock.now_us() + HOUR_US
        clock.steer(began_us, clock.monotonic_s())
        probed = live.probe("http://127.0.0.1:1/")
        assert began_us - 1000 <= probed.at_us <= clock.now_us()
        live.schedule("w", {"n": "http://127.0.0.1:1/"}, interval_s=0.2)
        until(lambda: bool(live.seen("n")))
        assert began_us - 1000 <= live.seen("n")[0].at_us <= clock.now_us()
