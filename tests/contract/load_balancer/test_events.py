"""What a real HAProxy logs brings Yaffle's look forward; what else reaches the socket does no harm."""

from __future__ import annotations

import asyncio
import random
import shutil
import socket
import stat
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from ipaddress import ip_network
from pathlib import Path

import pytest
from tests.contract.load_balancer.proxy import HAVE, Proxy, Web, proxied, until, webs
from tests.contract.load_balancer.test_haproxy import detector, mode, node
from tests.given import Given
from tests.servers.process import free_port

from yaffle.drivers.detectors.load_balancer import LoadBalancerDetector
from yaffle.drivers.detectors.load_balancer.settings import Socket
from yaffle.drivers.detectors.load_balancer.syslog_listener import (
    BURST,
    PACE_S,
    TURN,
    SyslogListener,
)
from yaffle.drivers.detectors.load_balancer.syslog_parser import LINE_MAX
from yaffle.engine.runtime.clock import SystemClock
from yaffle.model.health import Observation, Outcome
from yaffle.model.operations import Target
from yaffle.testing.clock import VirtualClock
from yaffle.testing.loop import run_virtual

INTERVAL_S = 600.0
SOON_S = 3.0
"""Far below any interval, in time that we were given; HAProxy itself takes 0.3 s to be sure."""


@pytest.fixture
def folder() -> Iterator[Path]:
    """Short, as the path of a socket has to be."""
    found = Path(tempfile.mkdtemp(prefix="yaffle-ev-"))
    yield found
    shutil.rmtree(found, ignore_errors=True)


@pytest.fixture(params=["unix", "udp"])
def place(request: pytest.FixtureRequest, folder: Path) -> str:
    """Where HAProxy logs to."""
    return str(folder / "e") if request.param == "unix" else f"127.0.0.1:{free_port()}"


@pytest.fixture
def servers() -> Iterator[Sequence[Web]]:
    with webs(2) as found:
        yield found


def behind(servers: Sequence[Web], place: str, form: str = "") -> str:
    lines = "".join(
        f"    server web-{n} 127.0.0.1:{web.port} check\n" for n, web in enumerate(servers, 1)
    )
    log = f"    log {place} {form} local0 notice\n    option log-health-checks\n"
    return f"backend web\n    option httpchk\n{log}{lines}"


@dataclass
class Watch:
    """One watch as the engine keeps it: polled once, and then not for a long time."""

    which: LoadBalancerDetector
    nodes: Sequence[Target]
    told: list[Observation] = field(default_factory=list)

    async def begin(self) -> None:
        self.which.listen("w", self.nodes, mode(), interval_s=INTERVAL_S, sink=self.told.extend)
        await self.which.check(self.nodes, mode(), deadline_s=60)
        await waited(
            lambda: self.which.listeners() and not any(e.fault for e in self.which.listeners())
        )


async def waited(condition: Callable[[], object], within_s: float = 60.0) -> None:
    end_s = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < end_s, "waited in vain"
        await asyncio.sleep(0.02)


def play(watch: Watch, body: Callable[[], Awaitable[None]]) -> None:
    async def run() -> None:
        await watch.begin()
        try:
            await body()
        finally:
            watch.which.ignore("w")

    asyncio.run(run())


def _fails(watch: Watch) -> list[bool]:
    """Return of each failure that was told whether it is enough at once."""
    return [o.authoritative for o in watch.told if o.outcome is Outcome.FAIL]


@pytest.mark.skipif(not HAVE, reason="there is no haproxy")
@pytest.mark.parametrize("form", ["", "format rfc5424"])
def test_a_server_that_dies_is_looked_at_at_once(
    servers: Sequence[Web], place: str, form: str
) -> None:
    with proxied(behind(servers, place, form)) as proxy:
        until(lambda: proxy.passes("web", "web-1", "web-2"))
        which = detector(edge={"socket": str(proxy.socket), "events": place})
        watch = Watch(which, [node("web-1"), node("web-2")])

        async def body() -> None:
            servers[0].status = 503
            # Through a socket that only HAProxy may write to its own `fall` is enough. What it logs
            # before may bring a look so late that it is down already: that is not yet enough.
            enough = place.startswith("/")
            with Given() as time_given:
                await waited(lambda: _fails(watch))
                assert time_given.s < SOON_S
            await waited(lambda: enough in _fails(watch))
            failed = [o for o in watch.told if o.outcome is Outcome.FAIL]
            assert {o.node_id for o in failed} == {"id-of-web-1"}
            assert all("server web-1 is DOWN" in o.detail for o in failed)
            assert enough or not any(_fails(watch))

            servers[0].status = 200
            with Given() as time_given:
                await waited(lambda: watch.told[-1].outcome is Outcome.PASS)
                assert time_given.s < SOON_S
            assert not watch.told[-1].authoritative
            assert {o.node_id for o in watch.told} == {"id-of-web-1"}
            (listener,) = which.listeners()
            assert not listener.fault
            assert listener.name == f"edge at {place}"

        play(watch, body)


@pytest.mark.skipif(not HAVE, reason="there is no haproxy")
def test_polls_that_change_while_nothing_is_heard_are_noticed(
    servers: Sequence[Web], place: str
) -> None:
    # HAProxy was told to log to another place than we listen at.
    with proxied(behind(servers, f"127.0.0.1:{free_port()}")) as proxy:
        until(lambda: proxy.passes("web", "web-1"))
        which = detector(edge={"socket": str(proxy.socket), "events": place})
        watch = Watch(which, [node("web-1")])

        async def body() -> None:
            servers[0].status = 503
            await asyncio.to_thread(until, lambda: proxy.status("web", "web-1") == "DOWN")
            (listener,) = which.listeners()
            while not listener.fault:
                # While a check is under way HAProxy says no word of the last one, and there is no change.
                await which.check(watch.nodes, mode(), deadline_s=60)
                (listener,) = which.listeners()
            assert "1 changes were found by polls and no line was ever heard" in listener.fault
            assert f"log {place} local0 notice" in listener.advice

        play(watch, body)


# --- what is no event, and too much of it ---


@contextmanager
def sending(place: str) -> Iterator[Callable[[bytes], bool]]:
    """Hand out what sends one datagram there, if there is room; it says whether there was."""
    kind = socket.AF_UNIX if place.startswith("/") else socket.AF_INET
    with socket.socket(kind, socket.SOCK_DGRAM) as sock:
        host, _, port = place.rpartition(":")
        sock.connect(place if kind == socket.AF_UNIX else (host, int(port)))
        sock.setblocking(False)

        def send(data: bytes) -> bool:
            with suppress(BlockingIOError):
                return bool(sock.send(data))
            return False

        yield send


def send_to(place: str | Path, data: bytes) -> None:
    with sending(str(place)) as send:
        send(data)


@pytest.fixture
def proxy(servers: Sequence[Web]) -> Iterator[Proxy]:
    with proxied(behind(servers, "127.0.0.1:9")) as found:
        until(lambda: found.passes("web", "web-1", "web-2"))
        yield found


COUNT = 100_000
LINE = b"<129>Nov 21 10:05:56 haproxy[1]: Server web/web-1 is DOWN. 1 active\n"
STORM = f"""
import socket, sys, time
place, count = sys.argv[1], int(sys.argv[2])
host, _, port = place.rpartition(":")
kind, to = (socket.AF_INET, (host, int(port))) if host else (socket.AF_UNIX, place)
sock = socket.socket(kind, socket.SOCK_DGRAM)
sock.connect(to)
sock.setblocking(False)
lines = [
    {LINE!r},
    {LINE!r}.replace(b"web-1", b"web-x"),
    {LINE!r}.replace(b"web/", b"other/"),
    b"<134>Nov 21 10:05:56 haproxy[1]: 127.0.0.1:1 [x] f web/web-1 0/0 200",
    bytes({LINE_MAX} + 1),
]
began = time.monotonic()
for number in range(count):
    try:
        sock.send(lines[number % 5])
    except BlockingIOError:
        pass
print(time.monotonic() - began)
"""


@pytest.mark.skipif(not HAVE, reason="there is no haproxy")
def test_a_storm_of_datagrams_costs_nobody_his_turn(proxy: Proxy, place: str) -> None:
    which = detector(edge={"socket": str(proxy.socket), "events": place})
    watch = Watch(which, [node("web-1"), node("web-2")])
    late_s = 0.0

    async def body() -> None:
        nonlocal late_s
        # Another process, or it would be slowed down by us.
        storm = await asyncio.create_subprocess_exec(
            sys.executable, "-c", STORM, place, str(COUNT), stdout=asyncio.subprocess.PIPE
        )
        ended = asyncio.ensure_future(storm.communicate())
        while not ended.done():
            # What our own thread has worked meanwhile: the machine may hold anybody up.
            before = time.thread_time()
            await asyncio.sleep(0.01)
            late_s = max(late_s, time.thread_time() - before)
        sending_s = float((await ended)[0])
        await asyncio.sleep(2 * PACE_S)
        counts = which.counts
        handled = sum(counts[word] for word in counts if word != "dropped")
        # What is handled is bounded by time, and not by what was sent.
        assert handled <= BURST * (sending_s / PACE_S + 5), (handled, sending_s)
        assert counts["woke"] > 0
        assert counts["of_nobody"] > 0
        assert counts["too_long"] > 0
        # All were lies: nothing came of any.
        assert watch.told == []
        # Nobody's turn was late by more than it takes to be noticed (the storm itself takes turns).
        assert late_s < 1.0
        if place.startswith("/"):
            return
        # One that still finds room tells of those that did not.
        for _ in range(5):
            send_to(place, LINE)
            await asyncio.sleep(2 * PACE_S)
        # Handled or dropped, one or the other.
        await waited(lambda: sum(counts.values()) == COUNT + 5)
        assert counts["dropped"] > 0

    play(watch, body)


@pytest.mark.skipif(not HAVE, reason="there is no haproxy")
def test_what_is_malformed_is_counted_and_the_next_is_heard(proxy: Proxy, place: str) -> None:
    which = detector(edge={"socket": str(proxy.socket), "events": place})
    watch = Watch(which, [node("web-1")])
    rng = random.Random(7)
    good = b"<129>Nov 21 10:05:56 haproxy[1]: Server web/web-1 is DOWN. 1 active\n"

    async def body() -> None:
        with sending(place) as send:
            for _ in range(400):
                data = bytearray(good)
                for _ in range(rng.randrange(1, 6)):
                    data[rng.randrange(len(data))] = rng.randrange(256)
                send(bytes(data[: rng.randrange(len(data) + 1)]))
                send(rng.randbytes(rng.randrange(200)))
                await asyncio.sleep(0.002)
            await waited(lambda: send(bytes(LINE_MAX + 1)))
            await waited(lambda: which.counts["too_long"] == 1)
            before = which.counts["woke"]
            await waited(lambda: send(good))
            await waited(lambda: which.counts["woke"] == before + 1)
        assert which.counts["no_event"] > 400
        assert watch.told == []

    play(watch, body)


@pytest.mark.skipif(not HAVE, reason="there is no haproxy")
def test_strangers_are_not_listened_to(proxy: Proxy) -> None:
    place = f"127.0.0.1:{free_port()}"
    edge = {"socket": str(proxy.socket), "events": place, "events_from": ["10.0.0.0/8", "::1"]}
    which = detector(edge=edge)
    watch = Watch(which, [node("web-1")])

    async def body() -> None:
        send_to(place, b"<129>Server web/web-1 is DOWN. x")
        await waited(lambda: which.counts["unexpected_sender"] == 1)
        assert which.counts["woke"] == 0

    play(watch, body)


def test_a_sender_is_known_by_whichever_name_of_its_address() -> None:
    networks = (ip_network("10.1.0.0/16"), ip_network("fe80::/10"))
    listener = SyslogListener(
        Socket(host="::", port=1), networks, clock=SystemClock(), hear=len, counts=Counter()
    )
    for address, known in (
        ("10.1.2.3", True),
        ("::ffff:10.1.2.3", True),
        ("fe80::1%eth0", True),
        ("10.2.0.1", False),
        ("::1", False),
    ):
        assert listener._is_known((address, 5140)) is known
    assert not listener._is_known(None)


def test_the_pace_is_ours() -> None:
    told: list[bytes] = []
    port, clock = free_port(), VirtualClock()
    listener = SyslogListener(
        Socket(host="127.0.0.1", port=port), (), clock=clock, hear=told.append, counts=Counter()
    )

    async def run() -> None:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(listener.run())
            await asyncio.sleep(1)
            with sending(f"127.0.0.1:{port}") as send:
                for number in range(BURST + 44):
                    send(b"%d" % number)
                await asyncio.sleep(PACE_S / 2)
                assert len(told) == BURST
                # What is beyond waits in the system's buffer, and comes in its turn.
                await asyncio.sleep(PACE_S)
                assert [int(one) for one in told] == list(range(BURST + 44))
                # Who sends them one by one gets no more turns than who sends them together.
                await asyncio.sleep(1)
                told.clear()
                for _ in range(200):
                    send(b"1")
                    await asyncio.sleep(PACE_S / 1000)
                assert len(told) <= BURST / TURN + 5
            task.cancel()

    run_virtual(run)


# --- places ---


def heard(place: Path, body: Callable[[SyslogListener, list[bytes]], Awaitable[None]]) -> None:
    """Run an ear at a path while `body` lasts."""
    told: list[bytes] = []
    listener = SyslogListener(
        Socket(path=str(place)), (), clock=SystemClock(), hear=told.append, counts=Counter()
    )

    async def run() -> None:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(listener.run())
            await body(listener, told)
            task.cancel()

    asyncio.run(run())


def test_a_path_that_a_dead_process_left_is_taken_over(folder: Path) -> None:
    path = folder / "e"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as dead:
        dead.bind(str(path))

    async def body(listener: SyslogListener, told: list[bytes]) -> None:
        await waited(lambda: not listener.fault)
        # Nobody but its owner and its group may say anything.
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
        send_to(path, b"hello")
        await waited(lambda: told == [b"hello"])

    heard(path, body)
    assert not path.exists()


def test_a_path_that_somebody_reads_is_left_to_him_until_he_is_gone(folder: Path) -> None:
    path = folder / "e"
    other = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    other.bind(str(path))

    async def body(listener: SyslogListener, told: list[bytes]) -> None:
        await waited(lambda: "in use" in listener.fault)
        send_to(path, b"for him")
        assert other.recv(100) == b"for him"
        other.close()
        await waited(lambda: not listener.fault)
        assert told == []

    heard(path, body)


@pytest.mark.parametrize("kind", ["file", "no folder"])
def test_what_is_no_place_is_said(folder: Path, kind: str) -> None:
    path = folder / "e" if kind == "file" else folder / "no" / "e"
    said = "it is no socket" if kind == "file" else "No such file"
    if kind == "file":
        path.write_text("precious")

    async def body(listener: SyslogListener, _: list[bytes]) -> None:
        await waited(lambda: said in listener.fault)

    heard(path, body)
    assert kind != "file" or path.read_text() == "precious"


def test_a_port_that_is_taken_is_said() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.1", 0))
        listener = SyslogListener(
            Socket(host="127.0.0.1", port=other.getsockname()[1]),
            (),
            clock=SystemClock(),
            hear=len,
            counts=Counter(),
        )

        async def run() -> None:
            async with asyncio.TaskGroup() as group:
                task = group.create_task(listener.run())
                await waited(lambda: "in use" in listener.fault)
                task.cancel()

        asyncio.run(run())


def remove(path: Path) -> None:
    path.unlink()


def test_a_path_that_is_swept_away_is_made_again(folder: Path) -> None:
    path = folder / "e"

    async def body(listener: SyslogListener, told: list[bytes]) -> None:
        await waited(lambda: not listener.fault)
        remove(path)
        await waited(path.exists)
        await waited(lambda: not listener.fault)
        send_to(path, b"again")
        await waited(lambda: told == [b"again"])

    heard(path, body)
