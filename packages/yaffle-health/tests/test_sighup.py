"""SIGHUP: opt-in, chained, and nothing done in the handler (pitfall 13), with signals really sent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator

import pytest
from health_clocks import Clocks

from yaffle_health import Manager, reset_on_sighup
from yaffle_health.errors import HealthError


@pytest.fixture(autouse=True)
def _handler() -> Iterator[None]:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGHUP, before)


def hup() -> None:
    os.kill(os.getpid(), signal.SIGHUP)


def words(manager: Manager) -> list[str]:
    return [check.name for check in manager.health().checks]


def test_nobody_who_did_not_ask_gets_a_handler() -> None:
    program = """
        import signal
        before = {n: signal.getsignal(n) for n in signal.valid_signals()}
        import yaffle_health as y
        for name in y.__all__:
            getattr(y, name)
        y.Manager()
        assert before == {n: signal.getsignal(n) for n in signal.valid_signals()}
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True, timeout=60)


def test_what_was_said_before_the_signal_counts_no_longer() -> None:
    manager = Manager()
    reset_on_sighup(manager)
    manager.report("db", "fail", "x")
    manager.passed("bus")
    hup()
    manager.passed("cache")
    assert words(manager) == ["cache"]
    manager.passed("bus")
    assert words(manager) == ["bus", "cache"]


def test_the_handler_that_was_there_is_called_and_put_back() -> None:
    called = []

    def theirs(signum: int, frame: object) -> None:
        called.append(signum)

    signal.signal(signal.SIGHUP, theirs)
    one, other = Manager(), Manager()
    installed = reset_on_sighup(one)
    second = reset_on_sighup(other)
    for manager in (one, other):
        manager.passed("db")
    hup()
    assert called == [signal.SIGHUP]
    assert words(one) == words(other) == []
    second.close()
    installed.close()
    assert signal.getsignal(signal.SIGHUP) is theirs


def test_a_handler_installed_later_is_left_alone() -> None:
    installed = reset_on_sighup(Manager())
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    installed.close()
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL


def test_a_process_without_a_handler_lives_on() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    manager = Manager()
    reset_on_sighup(manager)
    manager.passed("db")
    hup()
    assert words(manager) == []


def test_a_signal_in_the_middle_of_a_locked_section() -> None:
    manager = Manager()
    reset_on_sighup(manager)
    manager.passed("db")
    with manager._lock:
        hup()
        manager.passed("bus")
    assert words(manager) == ["bus"]


def test_while_another_thread_holds_the_lock_the_handler_does_not_wait() -> None:
    manager = Manager()
    reset_on_sighup(manager)
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with manager._lock:
            held.set()
            release.wait(120)

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait(60)
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 60)
    hup()
    signal.setitimer(signal.ITIMER_REAL, 0)
    release.set()
    holder.join(60)


def test_what_was_awaited_is_awaited_again() -> None:
    clocks = Clocks()
    manager = clocks.manager()
    manager.register("migrations", groups=("start",))
    manager.passed("migrations")
    clocks.pass_by(60)
    manager.reset_soon()
    clocks.pass_by(5)
    (check,) = manager.health("start").checks
    assert (check.status, check.age_s) == ("fail", 5)


def test_off_the_main_thread_it_says_so() -> None:
    errors: list[HealthError] = []

    def elsewhere() -> None:
        try:
            reset_on_sighup(Manager())
        except HealthError as error:
            errors.append(error)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join(60)
    assert "main thread" in str(errors[0])


def test_beside_a_loops_own_handler() -> None:
    """asyncio's handlers come by the wakeup descriptor: both are told."""
    import asyncio

    manager = Manager()

    async def main() -> None:
        told = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, told.set)
        reset_on_sighup(manager)
        manager.passed("db")
        hup()
        await asyncio.wait_for(told.wait(), 60)
        assert words(manager) == []

    asyncio.run(main())
