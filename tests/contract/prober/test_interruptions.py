"""What happens to the prober itself never becomes a failure of a node, and is always told."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator

import psutil
import pytest
from tests.chaos.diary import state_of
from tests.contract.prober import servers
from tests.contract.prober.live import LiveProber, until, url_options
from tests.contract.prober.servers import Server, answer, says

from yaffle.core.health.check_codes import OUTCOMES
from yaffle.engine.runtime.clock import SystemClock
from yaffle.errors import ProberUnavailable
from yaffle.model.health import Outcome
from yaffle.prober.client import ProberClient


@pytest.fixture
def prober() -> Iterator[LiveProber]:
    with LiveProber() as live:
        yield live


def told(prober: LiveProber, word: str) -> bool:
    """Whether it was told why, beside that the machine has held the prober up."""
    return any(word in why for why in list(prober.blind))


def failures(prober: LiveProber) -> list[str]:
    return [
        one.detail
        for results in list(prober.results.values())
        for one in list(results)
        if OUTCOMES[one.code].outcome is Outcome.FAIL
    ]


def test_killed_prober_comes_back_with_its_schedules(prober: LiveProber) -> None:
    with Server(says(answer())) as server:
        nodes = {f"n{n}": server.url for n in range(20)}
        prober.schedule("w", nodes, interval_s=0.2)
        prober.schedule("gone", {"x": server.url}, interval_s=0.2)
        until(lambda: len(prober.seen("n0")) >= 2 and prober.seen("x") != [])
        prober.unschedule("gone")
        pid = prober.stats.pid
        os.kill(pid, signal.SIGKILL)
        until(lambda: told(prober, "died"))
        seen_x = len(prober.seen("x"))
        until(lambda: prober.stats.up and prober.stats.pid != pid)
        before = {node: len(prober.seen(node)) for node in nodes}
        until(lambda: all(len(prober.seen(node)) >= before[node] + 2 for node in nodes))
        assert prober.stats.restarts == 1
        assert len(prober.seen("x")) == seen_x
        assert failures(prober) == []


def test_stopped_prober_is_replaced() -> None:
    with LiveProber(ping_s=0.2) as prober, Server(says(answer())) as server:
        prober.schedule("w", {"n": server.url}, interval_s=0.2)
        until(lambda: prober.seen("n") != [])
        pid = prober.stats.pid
        os.kill(pid, signal.SIGSTOP)
        until(lambda: told(prober, "pings"))
        until(lambda: prober.stats.up and prober.stats.pid != pid)
        assert not psutil.pid_exists(pid)
        seen = len(prober.seen("n"))
        until(lambda: len(prober.seen("n")) > seen)
        assert failures(prober) == []


def test_a_prober_that_stops_amid_a_long_word_does_not_deafen_its_heir() -> None:
    with LiveProber(ping_s=0.2) as prober, Server(says(answer())) as server:
        prober.schedule("w", {"n": server.url}, interval_s=0.2)
        until(lambda: prober.seen("n") != [])
        pid = prober.stats.pid
        os.kill(pid, signal.SIGSTOP)
        # More than the pipe holds: what is left waits to be written when the child is killed.
        many = {f"m{number}": f"{server.url}?{'x' * 100}{number}" for number in range(12_000)}
        prober.schedule("long", many, interval_s=3600)
        until(lambda: prober.stats.up and prober.stats.pid != pid)
        assert prober.stats.restarts == 1


def test_probe_while_away_says_so(prober: LiveProber) -> None:
    def kill(sock: socket.socket) -> None:
        servers.read_request(sock)
        os.kill(prober.stats.pid, signal.SIGKILL)
        servers.silent(sock)

    # In the middle of it: one that was killed before may have an heir by then.
    with Server(kill) as server, pytest.raises(ProberUnavailable):
        prober.probe(server.url)


def freezing(prober: LiveProber, frozen_s: float, answer_after_s: float) -> servers.Behaviour:
    """Freezes the prober while it waits for the answer, which comes some time after the thaw."""

    def behave(sock: socket.socket) -> None:
        servers.read_request(sock)
        pid = prober.stats.pid
        os.kill(pid, signal.SIGSTOP)
        time.sleep(frozen_s)
        os.kill(pid, signal.SIGCONT)
        time.sleep(answer_after_s)
        sock.sendall(answer())

    return behave


def test_long_freeze_makes_everything_in_flight_unknown() -> None:
    with LiveProber() as prober:
        with (
            Server(freezing(prober, 0.9, 0.0)) as server,
            Server(servers.silent) as other,
        ):

            def both() -> list[str]:
                results = prober.probe_once([other.url, server.url], timeout_s=0.6)
                return [one.code for one in results]

            # The other would fail after the thaw, if its timeout were believed. The freeze itself may
            # come too late on a busy machine, when both have failed: not always.
            until(lambda: both() == ["X-LATE", "X-LATE"])
        until(lambda: told(prober, "late"))
        assert prober.stats.restarts == 0
        until(lambda: prober.stats.lag_s_max > 0.5)


def test_short_freeze_is_given_back_to_timeouts() -> None:
    with LiveProber() as prober, Server(freezing(prober, 0.35, 0.25)) as server:

        def asked() -> tuple[str, bool]:
            before = len(prober.blind)
            (result,) = prober.probe_once([server.url], timeout_s=0.4)
            return result.code, len(prober.blind) > before

        # Never in time, if nothing were given back; on a busy machine the answer may be later still.
        until(lambda: asked() == ("L7-OK", False))


def test_rounds_missed_in_a_freeze_are_not_made_up_for() -> None:
    with LiveProber() as prober, Server(says(answer())) as server:
        nodes = {f"n{n}": server.url for n in range(100)}
        prober.schedule("w", nodes, interval_s=1.0)
        until(lambda: len(prober.results) == 100)
        os.kill(prober.stats.pid, signal.SIGSTOP)
        time.sleep(1.6)
        thawed_us = time.time_ns() // 1000
        os.kill(prober.stats.pid, signal.SIGCONT)
        until(lambda: all(prober.seen(n)[-1].at_us > thawed_us for n in nodes))
        burst = [n for n in nodes for r in prober.seen(n) if 0 < r.at_us - thawed_us < 100_000]
        assert len(burst) < 60, len(burst)
        assert failures(prober) == []


def test_clean_end_leaves_no_process() -> None:
    with LiveProber() as prober:
        pid = prober.stats.pid
        assert psutil.pid_exists(pid)
    assert not psutil.pid_exists(pid)


def test_stopping_while_it_dies_leaves_no_process() -> None:
    """The engine stops at the very moment in which a dead prober is buried or its heir is born."""
    for wait_s in (0.0, 0.001, 0.01, 0.05):
        with LiveProber() as prober:
            os.kill(prober.stats.pid, signal.SIGKILL)
            time.sleep(wait_s)
        ours = psutil.Process().children()
        assert [child for child in ours if "yaffle.prober" in child.cmdline()] == []


def test_prober_ends_with_its_engine() -> None:
    """The engine is killed: nobody closes anything in order."""
    engine = textwrap.dedent(
        """
        import asyncio
        from yaffle.engine.runtime.clock import SystemClock
        from yaffle.prober.client import ProberClient

        async def main():
            client = ProberClient(clock=SystemClock(), on_blind=print)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(client.run())
                while not client.stats.up:
                    await asyncio.sleep(0.01)
                print(client.stats.pid, flush=True)

        asyncio.run(main())
        """
    )
    child = subprocess.Popen([sys.executable, "-c", engine], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    pid = int(child.stdout.readline())
    child.kill()
    child.wait(60)
    child.stdout.close()
    until(lambda: state_of(pid) in "ZX")


def test_prober_that_cannot_start_is_told_and_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An interpreter that is gone: blind, and no exception out of `run`."""
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    blind: list[str] = []

    async def main() -> None:
        client = ProberClient(clock=SystemClock(), on_blind=blind.append)
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(client.run())
            while len(blind) < 2:
                await asyncio.sleep(0.01)
            with pytest.raises(ProberUnavailable):
                await client.probe([], url_options(), deadline_s=1)
            running.cancel()

    asyncio.run(asyncio.wait_for(main(), 60))
    assert "cannot be started" in blind[0]
