"""The prober keeps its pace: spread rounds, retries that delay nobody, bounded places."""

from __future__ import annotations

import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import pytest
from tests.contract.prober import servers
from tests.contract.prober.live import LiveProber, until
from tests.contract.prober.servers import Server, answer, says

from yaffle.ports.detector import UrlResult


@pytest.fixture
def prober() -> Iterator[LiveProber]:
    with LiveProber() as live:
        yield live


def fails_until(number: int) -> tuple[servers.Behaviour, list[float]]:
    """503 until the `number`-th connection, which passes; with the times of the requests."""
    times: list[float] = []

    def behave(sock: socket.socket) -> None:
        servers.read_request(sock)
        times.append(time.monotonic())
        sock.sendall(answer(b"", "200 OK" if len(times) >= number else "503 S"))

    return behave, times


def test_many_targets_run_evenly(prober: LiveProber) -> None:
    with Server(says(answer())) as server:
        nodes = {f"node-{n}": server.url for n in range(300)}
        prober.schedule("w", nodes, interval_s=1.0)
        until(lambda: all(len(prober.seen(node)) >= 3 for node in nodes))
        assert prober.told() == {"L7-OK"}
        slots = Counter(one.at_us // 100_000 for node in nodes for one in prober.seen(node)[:3])
        # 300 at once would be one slot with hundreds; evenly spread it is 30 in each. What was due while
        # the machine stood still comes in one go: what most have seen counts, and not the crowd of once.
        crowds = sorted(count for count in slots.values() for _ in range(count))
        assert crowds[len(crowds) // 4] < 100, slots
        gaps_s = sorted(
            (b.at_us - a.at_us) / 1e6 for node in nodes for a, b in pairwise(prober.seen(node))
        )
        assert 0.6 < gaps_s[len(gaps_s) // 2] < 1.5, gaps_s
        until(lambda: prober.stats.checks >= 900)
        assert prober.stats.in_flight <= 300
        assert 0 < prober.stats.rss_bytes < 200e6


@contextmanager
def asked(
    prober: LiveProber, number: int, **options: object
) -> Iterator[tuple[UrlResult, list[float], Server]]:
    """Ask one that fails until then; another one where the machine held the prober up meanwhile."""
    while True:
        behave, times = fails_until(number)
        with Server(behave) as server:
            (result,) = prober.probe_once([server.url], **options)
            if result.code != "X-LATE":
                yield result, times, server
                return


def test_retries_first_success_wins(prober: LiveProber) -> None:
    with asked(prober, 3, retry_limit=3, retry_interval_s=0.2) as (result, times, _):
        assert result.code == "L7-OK"
        assert "attempt 3 of 3" in result.detail
        assert [b - a > 0.15 for a, b in pairwise(times)] == [True, True]


def test_retry_limit_counts_all_attempts(prober: LiveProber) -> None:
    with asked(prober, 3, retry_limit=2, retry_interval_s=0.05) as (result, times, server):
        assert result.code == "L7-STATUS"
        assert len(times) == 2
        assert prober.probe(server.url, retry_limit=1).code == "L7-OK"


def test_retries_do_not_delay_others(prober: LiveProber) -> None:
    with Server(says(answer())) as good, Server(says(answer(b"", "503 S"))) as bad:
        nodes = {"good": good.url} | {f"bad-{n}": bad.url for n in range(50)}
        prober.schedule("w", nodes, interval_s=0.3, retry_limit=3, retry_interval_s=60.0)
        until(lambda: len(prober.seen("good")) >= 5)
        # In five rounds of the good one no bad one has used up its attempts.
        assert prober.told() == {"L7-OK"}


def test_deadline_makes_unknown(prober: LiveProber) -> None:
    with Server(servers.silent) as server, Server(says(answer())) as good:

        def both() -> list[str]:
            urls = [server.url, good.url]
            return [r.code for r in prober.probe_all(urls, deadline_s=0.3, timeout_s=5)]

        # The good one may be held up for longer than that, too: not always.
        until(lambda: both() == ["X-DEADLINE", "L7-OK"])
    with Server(says(answer(b"", "503 S"))) as server:
        # One failed attempt of two is no failure yet.
        result = prober.probe(server.url, deadline_s=0.3, retry_limit=2, retry_interval_s=5)
        assert result.code == "X-DEADLINE"


def test_probe_order_and_empty(prober: LiveProber) -> None:
    with Server(says(answer())) as server:
        urls = ["http://{port}/", server.url, f"http://127.0.0.1:{servers.free_port()}/"]
        results = prober.probe_all(urls)
        assert [r.code for r in results] == ["X-UNEXPANDED", "L7-OK", "L4-REFUSED"]
        assert [r.node_id for r in results] == ["n0", "n1", "n2"]
        assert list(prober.probe_all([])) == []


def test_no_place_is_late_not_failed() -> None:
    with LiveProber(sockets_max=5) as prober, Server(servers.silent) as slow:
        nodes = {f"slow-{n}": slow.url for n in range(40)}
        prober.schedule("w", nodes, interval_s=0.5, timeout_s=2.0)
        until(lambda: {"X-LATE", "L7-TIMEOUT"} <= prober.codes())
        until(lambda: prober.stats.waiting > 0)
        assert prober.codes() == {"X-LATE", "L7-TIMEOUT"}
        assert prober.stats.in_flight <= 5
        # Probes wait in the same queue, and give up at their own deadline.
        assert prober.probe(slow.url, deadline_s=0.2).code == "X-DEADLINE"


def test_queue_drains() -> None:
    with LiveProber(sockets_max=3) as prober, Server(says(answer())) as server:
        assert {r.code for r in prober.probe_all([server.url] * 200)} == {"L7-OK"}


def test_new_connection_by_default_and_kept_on_request(prober: LiveProber) -> None:
    requests = [0]
    with Server(servers.keeps(requests)) as server:
        prober.schedule("new", {"n": server.url}, interval_s=0.1)
        until(lambda: len(prober.seen("n")) >= 4)
        prober.unschedule("new")
        assert server.connections >= 4
    requests[0] = 0
    with Server(servers.keeps(requests)) as server:
        prober.schedule("kept", {"k": server.url}, interval_s=0.1, keep_alive=True)
        until(lambda: requests[0] >= 5)

        def lost() -> int:
            # Held up in the middle of a check, the prober gives up its connection as well, and says so.
            return sum(one.code == "X-LATE" for one in prober.seen("k"))

        until(lambda: server.connections <= 1 + lost())
        before = server.connections
        # A kept connection that the server closed says nothing about the node.
        for sock in list(server._open):
            sock.shutdown(socket.SHUT_RDWR)
        until(lambda: server.connections > before)
        until(lambda: len(prober.seen("k")) >= 8)
    assert {one.code for one in prober.seen("k")[:8]} - {"X-LATE"} == {"L7-OK"}


def test_server_that_ignores_keep_alive(prober: LiveProber) -> None:
    with Server(says(answer())) as server:  # closes after each answer
        prober.schedule("w", {"n": server.url}, interval_s=0.1, keep_alive=True)
        until(lambda: len(prober.seen("n")) >= 5)
        assert prober.told() == {"L7-OK"}


def test_unschedule_and_replace(prober: LiveProber) -> None:
    with Server(says(answer())) as server:
        prober.schedule("w", {"a": server.url, "b": server.url}, interval_s=0.1)
        until(lambda: prober.seen("a") != [] and prober.seen("b") != [])
        prober.schedule("w", {"b": server.url, "c": server.url}, interval_s=0.1)
        until(lambda: prober.seen("c") != [])
        seen_a, seen_b = len(prober.seen("a")), len(prober.seen("b"))
        until(lambda: len(prober.seen("b")) >= seen_b + 3)
        assert len(prober.seen("a")) == seen_a
        prober.unschedule("w")
        prober.unschedule("w")
        seen = sum(map(len, prober.results.values()))
        prober.probe_all([server.url] * 3)
        assert sum(map(len, prober.results.values())) == seen


def test_replacing_all_the_time_does_not_stop_checks(prober: LiveProber) -> None:
    with Server(says(answer())) as server:
        stop = threading.Event()

        def replace() -> None:
            while not stop.wait(0.02):
                prober.schedule("w", {"n": server.url}, interval_s=0.5)

        thread = threading.Thread(target=replace)
        thread.start()
        try:
            until(lambda: len(prober.seen("n")) >= 3)
        finally:
            stop.set()
            thread.join()
