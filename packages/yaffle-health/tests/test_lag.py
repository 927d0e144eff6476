"""A program that stands still says so (pitfall 14): real loops and threads, really blocked."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import uvloop
from health_clocks import Clocks

from yaffle_health import LoopLag, Manager, Status, ThreadLag
from yaffle_health.errors import BadOption
from yaffle_health.lag import Heart

BOUND_S = 60.0


class Noting(Manager):
    """Keeps every status that it was told, also those that last for too short a time to be seen."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[tuple[str, str]] = []

    def report(self, name: str, status: Status | str, output: str = "", **more: Any) -> None:
        self.told.append((str(status), output))
        super().report(name, status, output, **more)


def heart(manager: Manager, name: str = "event_loop", **options: float) -> Heart:
    quick = {"interval_s": 0.02, "warn_after_s": 0.1, "fail_after_s": 0.2, "hold_s": 0.06}
    return Heart(manager, name, **(quick | options))


def until(manager: Manager, wanted: Callable[[Manager], bool]) -> None:
    """Look from this thread, as an endpoint would, until it is so."""
    end = time.monotonic() + BOUND_S
    while not wanted(manager):
        assert time.monotonic() < end, manager.health()
        time.sleep(0.005)


def says(status: Status) -> Callable[[Manager], bool]:
    return lambda manager: bool(manager.health().checks) and manager.health("live").status is status


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_blocked_loop_is_seen_while_it_is_blocked_and_for_a_while_after(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    manager = Noting()
    unblock, done = threading.Event(), threading.Event()
    block: list[Callable[[], None]] = []

    async def main() -> None:
        loop, finished = asyncio.get_running_loop(), asyncio.Event()
        # Before the first beat, which is what the other thread waits for.
        block.append(lambda: loop.call_soon_threadsafe(unblock.wait, BOUND_S))
        block.append(lambda: loop.call_soon_threadsafe(finished.set))
        with LoopLag(manager, heart(manager)):
            await finished.wait()
        done.set()

    def run() -> None:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(main())

    host = threading.Thread(target=run)
    host.start()
    until(manager, says(Status.PASS))
    block[0]()
    until(manager, says(Status.FAIL))
    assert "not heard of for" in (manager.health().checks[0].output or "")
    manager.told.clear()
    unblock.set()
    # For a while after: three beats, which may be over before we look.
    until(manager, lambda _: bool(manager.told))
    status, output = manager.told[0]
    assert status == Status.WARN
    assert "it stood still for" in output
    until(manager, says(Status.PASS))
    assert [status for status, _ in manager.told[:3]] == [Status.WARN] * 3
    block[1]()
    assert done.wait(BOUND_S)
    host.join(BOUND_S)
    assert manager.health("live").checks == (), "stopped on purpose is no failure"


def test_a_blocked_loop_of_no_other_item_is_not_hidden_by_them() -> None:
    clocks = Clocks()
    manager = clocks.manager()
    Heart(manager, "event_loop", interval_s=1, fail_after_s=9).beat(0)
    clocks.pass_by(10.5)
    manager.passed("database")
    assert manager.health("live").status is Status.FAIL
    assert manager.health().status is Status.FAIL


def test_an_overdue_beat_is_a_warning_before_anybody_says_so() -> None:
    clocks = Clocks()
    manager = clocks.manager()
    beats = Heart(manager, "event_loop", interval_s=1, warn_after_s=0.5, fail_after_s=10)
    beats.beat(0)
    shown = []
    for seconds in (1.4, 0.2, 9.3, 0.2):
        clocks.pass_by(seconds)
        health = manager.health("live")
        assert manager.seen("live").status is health.status
        left = health.next_expiry_s
        shown.append((str(health.status), None if left is None else round(left, 3)))
        output = health.checks[0].output
    assert shown == [("pass", 0.1), ("warn", 9.4), ("warn", 0.1), ("fail", None)]
    assert output == "not heard of for 11.1 s, which is more than 11 s"
    beats.beat(10.1)
    assert manager.health().checks[0].output == "it stood still for 10.1 s"
    clocks.pass_by(1.6)
    assert manager.health().checks[0].output == (
        "not heard of for 1.6 s, which is more than 1.5 s"
    ), "it stands still again"


def test_a_failure_that_falls_silent_stays_one_and_says_why() -> None:
    clocks = Clocks()
    manager = clocks.manager()
    manager.register("consumer", ttl_s=0, warn_after_s=5, fail_after_s=60)
    manager.report("consumer", "fail", "no partition")
    clocks.pass_by(6)
    assert (manager.health().status, manager.health().checks[0].output) == ("fail", "no partition")


def test_a_hiccup_is_shown_until_a_probe_has_come_by() -> None:
    manager = Clocks().manager()
    beats = Heart(manager, "loop", interval_s=1, warn_after_s=0.5, hold_s=3)
    shown = []
    for late_s in (0.1, 0.7, 1.2, 0.0, 0.0, 0.0, 0.0):
        beats.beat(late_s)
        check = manager.health().checks[0]
        shown.append(check.output or str(check.status))
    assert shown == [
        "pass",
        "it stood still for 0.7 s",
        "it stood still for 1.2 s",
        "it stood still for 1.2 s",
        "it stood still for 1.2 s",
        "pass",
        "pass",
    ]


def test_a_thread_beats_until_it_is_stopped() -> None:
    manager = Manager()
    with ThreadLag(manager, heart(manager, "threads", fail_after_s=30)) as lag:
        until(manager, says(Status.PASS))
        first = manager.health().checks[0].time
        until(manager, lambda m: m.health().checks[0].time > first)
        lag.stop()
        assert manager.health().checks == ()
        lag.start()
        until(manager, says(Status.PASS))
    assert not any(t.name == "yaffle-health-lag" for t in threading.enumerate())


def test_a_stopped_loop_lag_may_be_stopped_again() -> None:
    manager = Manager()

    async def main() -> None:
        lag = LoopLag(manager, heart(manager))
        lag.stop()
        lag.start()
        lag.stop()
        lag.stop()
        # Three intervals: a timer that was left behind would have beaten.
        await asyncio.sleep(0.06)

    asyncio.run(main())
    assert manager.health().checks == ()


def test_options_that_cannot_be_meant() -> None:
    with pytest.raises(BadOption, match="interval_s = 0"):
        Heart(Manager(), "x", interval_s=0)
    with pytest.raises(BadOption, match="fail_after_s = -1"):
        Heart(Manager(), "x", fail_after_s=-1)


HUB = """
    from yaffle_health import Manager, ThreadLag
    from yaffle_health.lag import Heart
    import sys

    manager = Manager()
    lag = ThreadLag(manager, Heart(manager, "hub", interval_s=0.02, fail_after_s=0.2))
    lag.start()
    said = []

    def look():
        # A native thread, as the endpoint's is: it looks while the hub is blocked.
        end = mono() + 60
        while len(said) < 2 and mono() < end:
            status = [str(c.status) for c in manager.health().checks]
            if status == [["pass"], ["fail"]][len(said)][:1]:
                said.append(status[0])
            nap(0.005)

    native(look, ())
    end = mono() + 60
    while not said and mono() < end:
        green_sleep(0.02)
    while len(said) < 2 and mono() < end:
        nap(0.01)   # the hub is blocked by a call that nothing patched
    print(said)
"""


@pytest.mark.parametrize(
    ("patch", "sleep"),
    [
        (
            "import warnings; warnings.simplefilter('ignore'); import eventlet; eventlet.monkey_patch()",
            "eventlet.sleep",
        ),
        ("import gevent.monkey; gevent.monkey.patch_all(); import gevent", "gevent.sleep"),
    ],
    ids=["eventlet", "gevent"],
)
def test_in_a_patched_program_it_judges_the_hub(patch: str, sleep: str) -> None:
    before = (
        "import time, _thread\n"
        "nap, mono, native = time.sleep, time.monotonic, _thread.start_new_thread"
    )
    program = "\n".join([before, patch, f"green_sleep = {sleep}", textwrap.dedent(HUB)])
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=200, check=False
    )
    assert done.stdout == "['pass', 'fail']\n", done.stderr
