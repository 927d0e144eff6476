"""Heartbeats of real agents over real TLS, heard by two vantage points that share a database."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.servers.authority import ENDED, Authority, made
from tests.servers.authority import authority as new_authority
from tests.servers.process import stands_still
from tests.waiting import wait_for

from yaffle.drivers.host_monitors.heartbeat import (
    HANDSHAKES_OF_PEER,
    STALL_S,
    HeartbeatMonitor,
)
from yaffle.engine.runtime.clock import SystemClock
from yaffle.engine.runtime.vantage_points import StoredVantagePoints
from yaffle.errors import ConfigError
from yaffle.integrations import host_agent
from yaffle.model.host_state import HostReport, MonitorBlind, Seen
from yaffle.ports.context import DriverContext
from yaffle.store.database import Store, open_store
from yaffle.testing import check_host_monitor

pytestmark = pytest.mark.timeout(180)
CLOCK = SystemClock()
LOST_AFTER_S = 5.0
HOSTS = ("compute1", "compute2", "compute3")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    made = new_authority(tmp_path_factory.mktemp("pki"))
    made.issue("engine", "localhost")
    for host in HOSTS:
        made.issue(host)
    return made


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    url = f"sqlite:///{tmp_path / 'yaffle.db'}"
    opened = open_store(url, clock=CLOCK, backup_dir=tmp_path, with_engine_lock=True)
    yield opened
    asyncio.run(opened.close())


class Agents:
    """Real agents, each a process."""

    def __init__(self, authority: Authority, folder: Path, every_s: float = 0.2) -> None:
        self._authority, self.folder, self._every_s = authority, folder, every_s
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def start(
        self, host: str, *ports: int, certificate: str = "", state: Path | None = None
    ) -> None:
        """Start one that reports to these ports."""
        state = state or self.folder / f"{host}.agent"
        own = self._authority.folder / (certificate or host)
        words = ["/usr/bin/python3", "-SE", host_agent.__file__, "--host", host]
        words += ["--ca", str(self._authority.ca), "--certificate", f"{own}.pem"]
        words += ["--key", f"{own}.key", "--state-dir", str(state), "--every", str(self._every_s)]
        words += [word for port in ports for word in ("--engine", f"localhost:{port}")]
        self.running[host] = self.spawn(host, words)

    def spawn(self, host: str, words: list[str]) -> subprocess.Popen[bytes]:
        """Run an agent's command on its host."""
        with (self.folder / f"{host}.log").open("ab") as log:
            return subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=log)

    def signal(self, host: str, number: signal.Signals) -> None:
        self.running[host].send_signal(number)

    def freeze(self, host: str) -> None:
        """Let it stand still: its connections stay, and nothing comes."""
        self.signal(host, signal.SIGSTOP)
        wait_for(lambda: stands_still(self.running[host].pid), every_s=0.01)

    def log(self, host: str) -> str:
        return (self.folder / f"{host}.log").read_text()

    def end(self) -> None:
        for process in self.running.values():
            process.kill()
            process.wait(60)


@pytest.fixture
def agents(authority: Authority, tmp_path: Path) -> Iterator[Agents]:
    made = Agents(authority, tmp_path)
    yield made
    made.end()


def settings(authority: Authority, **more: object) -> dict[str, object]:
    return {
        "listen": "127.0.0.1:0",
        "certificate": authority.folder / "engine.pem",
        "key": authority.folder / "engine.key",
        "ca": authority.ca,
        "lost_after": LOST_AFTER_S,
        **more,
    }


def monitor(
    authority: Authority, store: Store | None, point: str = "a", **more: object
) -> HeartbeatMonitor:
    return HeartbeatMonitor(
        DriverContext(
            clock=CLOCK,
            state_dir=Path(),
            section="host_monitors.agents",
            settings=settings(authority, vantage_point=point, **more),
            vantage_points=None if store is None else StoredVantagePoints(store),
        )
    )


@asynccontextmanager
async def listening(*monitors: HeartbeatMonitor) -> AsyncIterator[list[int]]:
    """Have monitors listen; return their ports."""
    try:
        for one in monitors:
            await one.look(deadline_s=20)
        yield [one.listener.port for one in monitors]
    finally:
        for one in monitors:
            await one.listener.stop()


async def seen_by(*monitors: HeartbeatMonitor) -> dict[str, Seen | str]:
    """Look through all, as their engines would; return what the last makes of it, or why not."""
    for one in monitors:
        report = await one.look(deadline_s=20)
    if isinstance(report, MonitorBlind):
        return {}
    return {**report.unknown, **{s.host: s.seen for s in report.sightings}}


async def until(ask: Callable[[], Awaitable[Any]], wanted: Any, within_s: float = 60.0) -> None:
    said = None
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            while (said := await ask()) != wanted:
                await asyncio.sleep(0.2)
            return
    raise AssertionError(f"{said} and not {wanted}")


ALL_UP = dict.fromkeys(HOSTS, Seen.UP)


def test_it_keeps_the_promises_of_the_port(
    authority: Authority, store: Store, agents: Agents
) -> None:
    @asynccontextmanager
    async def blinded() -> AsyncIterator[None]:
        agents.freeze("compute1")
        await until(lambda: asked.look(deadline_s=20), MonitorBlind(why=BLIND))
        yield
        agents.signal("compute1", signal.SIGCONT)

    asked = monitor(authority, store)

    async def check() -> None:
        async with listening(asked) as ports:
            agents.start("compute1", *ports)
            await until(lambda: seen_by(asked), {"compute1": Seen.UP})
            await check_host_monitor(asked, clock=CLOCK, up="compute1", blinded=blinded)

    asyncio.run(check())


BLIND = "no host is heard by any vantage point (listening: a)"


def test_a_host_that_two_places_miss_is_lost_and_comes_back(
    authority: Authority, store: Store, agents: Agents
) -> None:
    async def check() -> None:
        first, second = monitor(authority, store, "a"), monitor(authority, store, "b")
        async with listening(first, second) as ports:
            for host in HOSTS:
                agents.start(host, *ports)
            await until(lambda: seen_by(first, second), ALL_UP)
            agents.freeze("compute1")
            # The one alone would miss it, and does not decide.
            await until(lambda: seen_by(first, second), {**ALL_UP, "compute1": Seen.LOST})
            agents.signal("compute1", signal.SIGCONT)
            await until(lambda: seen_by(first, second), ALL_UP)

            agents.signal("compute2", signal.SIGTERM)
            await until(lambda: seen_by(first, second), {**ALL_UP, "compute2": Seen.STOPPED})
            assert agents.running["compute2"].wait(60) == 0

            # Killed: its host has closed its connections, so it lives.
            agents.signal("compute3", signal.SIGKILL)
            await asyncio.sleep(2 * LOST_AFTER_S)
            seen = await seen_by(first, second)
            assert seen["compute1"] is Seen.UP
            assert str(seen["compute3"]).startswith("its agent has ended without a goodbye")

    asyncio.run(check())


def test_what_was_heard_outlives_the_engines(
    authority: Authority, store: Store, agents: Agents
) -> None:
    """A host that is down when all engines start is missed; one that was shut down is not."""

    async def run(before: Callable[[], None], wanted: dict[str, Seen]) -> list[int]:
        first, second = (monitor(authority, store, p, listen=f"127.0.0.1:{n}") for p, n in chosen)
        async with listening(first, second) as ports:
            before()
            await until(lambda: seen_by(first, second), wanted)
        return ports

    def begin() -> None:
        for host in HOSTS:
            agents.start(host, *(port for _, port in chosen))

    chosen = list(zip("ab", free_ports(2), strict=True))
    asyncio.run(run(begin, ALL_UP))
    agents.freeze("compute1")
    # It meets engines that are away, and no engine hears its goodbye.
    agents.signal("compute2", signal.SIGTERM)
    agents.running["compute2"].wait(60)
    lost = {**ALL_UP, "compute1": Seen.LOST, "compute2": Seen.LOST}
    asyncio.run(run(lambda: None, lost))


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        taken = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in taken:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in taken]


@pytest.mark.parametrize("why", ["expired", "narrowed"])
def test_a_host_that_calls_and_is_refused_is_not_lost(
    authority: Authority, store: Store, agents: Agents, why: str
) -> None:
    """Its certificate has expired, or the settings name it no more: that is nobody's end."""
    own = "stale" if why == "expired" else "compute1"
    if why == "expired":
        authority.issue(own, "compute1", expired=True)

    def both(**more: object) -> list[HeartbeatMonitor]:
        return [monitor(authority, store, p, listen=f"127.0.0.1:{n}", **more) for p, n in places]

    async def run(wanted: dict[str, object], **more: object) -> None:
        monitors = both(**more)
        async with listening(*monitors):
            await until(lambda: seen_by(*monitors), wanted)
            await asyncio.sleep(1)
            assert await seen_by(*monitors) == wanted

    places = list(zip("ab", free_ports(2), strict=True))
    for host in HOSTS:
        agents.start(host, *(port for _, port in places))
    asyncio.run(run(ALL_UP))
    if why == "expired":
        agents.signal("compute1", signal.SIGKILL)
        agents.running["compute1"].wait(60)
        agents.start("compute1", *(port for _, port in places), certificate=own)
        refused = f"it calls, and is refused: its certificate has expired: {ENDED}"
        asyncio.run(run({**ALL_UP, "compute1": refused}))
        assert "no: its certificate has expired" in agents.log("compute1")
    else:
        asyncio.run(run(dict.fromkeys(HOSTS[1:], Seen.UP), hosts=["compute2", "compute3"]))
        assert "none of this engine's hosts" in agents.log("compute1")


def test_half_of_a_renewal_does_not_close_the_door(
    authority: Authority, store: Store, tmp_path: Path
) -> None:
    here = copied(authority, tmp_path)
    cert, key = here.issue("engine", "localhost")

    async def check() -> None:
        asked = monitor(authority, store, certificate=cert, key=key)
        async with listening(asked) as (port,):
            other, _ = here.issue("other", "localhost")
            shutil.copy(other, cert)
            await asked.look(deadline_s=20)
            assert await say(authority, port, beat()) == b"ok\n", "the one before is in use"
            shutil.copy(here.folder / "other.key", key)
            await asked.look(deadline_s=20)
            assert await say(authority, port, beat()) == b"ok\n"

    asyncio.run(check())


def copied(authority: Authority, folder: Path) -> Authority:
    for name in ("ca.pem", "ca.key"):
        shutil.copy(authority.folder / name, folder / name)
    return Authority(folder)


# --- who harms it ---------------------------------------------------------------------------------


def test_strangers_take_no_place_from_agents(
    authority: Authority, store: Store, agents: Agents
) -> None:
    """They connect, say nothing, and are without number; each address has its share."""

    async def check() -> None:
        asked = monitor(authority, store)
        async with listening(asked) as (port,):
            silent = []
            for _ in range(200):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                silent.append((reader, writer))
            await asyncio.sleep(0.5)
            assert len(asked.listener._handshakes) <= HANDSHAKES_OF_PEER
            agents.start("compute1", port)
            # Theirs are over after a few seconds, and the agent comes again.
            await until(lambda: seen_by(asked), {"compute1": Seen.UP})
            for _, writer in silent:
                writer.close()

    asyncio.run(check())


def test_one_that_talks_without_end_or_does_not_listen_is_sent_away(
    authority: Authority, store: Store
) -> None:
    async def check() -> None:
        asked = monitor(authority, store)
        async with listening(asked) as (port,):
            said = await say(authority, port, *[beat()] * 60)
            assert said.startswith(b"ok\n")
            assert said.endswith(b"no: it says too much\n")

    asyncio.run(check())


def test_whoever_speaks_for_a_host_anew_takes_the_place_of_the_one_before(
    authority: Authority, store: Store
) -> None:
    async def check() -> None:
        asked = monitor(authority, store)
        trust = ssl.create_default_context(cafile=authority.ca)
        trust.load_cert_chain(authority.folder / "compute1.pem", authority.folder / "compute1.key")
        async with listening(asked) as (port,):
            held = []
            for _ in range(5):
                reader, writer = await asyncio.open_connection("localhost", port, ssl=trust)
                held.append((reader, writer))
                writer.write(beat())
                assert await asyncio.wait_for(reader.readline(), 20) == b"ok\n"
            await until(lambda: one(len(asked.listener._open)), 1)
            heard = asked.listener.hearing.point("", every_s=0).hosts["compute1"]
            assert not heard.closed, "that was us"
            for _, writer in held:
                writer.close()

    asyncio.run(check())


async def one(value: int) -> int:
    return value


def test_what_came_while_nobody_attended_is_old(authority: Authority, store: Store) -> None:
    """A process that stood still reads heartbeats of hosts that may be gone by now."""

    async def check() -> None:
        asked = monitor(authority, store)
        trust = ssl.create_default_context(cafile=authority.ca)
        trust.load_cert_chain(authority.folder / "compute1.pem", authority.folder / "compute1.key")
        async with listening(asked) as (port,):
            reader, writer = await asyncio.open_connection("localhost", port, ssl=trust)
            writer.write(beat())
            assert await asyncio.wait_for(reader.readline(), 20) == b"ok\n"
            writer.write(beat())
            await writer.drain()
            # Nobody turns this loop, which is the engine's too.
            time.sleep(STALL_S + 1)
            with contextlib.suppress(ConnectionError):
                assert await asyncio.wait_for(reader.read(), 20) == b""
            point = asked.listener.hearing.point("", every_s=0)
            assert point.hosts["compute1"].silent_s > STALL_S
            assert point.listening_s < STALL_S, "it has just begun to listen again"

    asyncio.run(check())


# --- what is not believed ---------------------------------------------------------------------------


async def say(authority: Authority, port: int, *lines: bytes, own: str = "compute1") -> bytes:
    """Say something as an agent would, and return all that is answered."""
    trust = ssl.create_default_context(cafile=authority.ca)
    trust.load_cert_chain(authority.folder / f"{own}.pem", authority.folder / f"{own}.key")
    reader, writer = await asyncio.open_connection("localhost", port, ssl=trust)
    said = b""
    with contextlib.suppress(ConnectionError):
        for line in lines:
            writer.write(line)
            await writer.drain()
            said += await asyncio.wait_for(reader.readline(), 20)
        writer.close()
    return said


def beat(host: str = "compute1", **more: object) -> bytes:
    said = {"host": host, "boot": "b1", "uptime_s": 1e6, "at_s": 1.7e9, **more}
    return json.dumps(said).encode() + b"\n"


@pytest.mark.parametrize(
    ("line", "own", "answer"),
    [
        (beat(), "compute1", b"ok\n"),
        (beat("compute2"), "compute1", b"no: the certificate is not of 'compute2'; it names compute1\n"),
        (beat("other"), "other", b"no: 'other' is none of this engine's hosts"),
        (b"hello\n", "compute1", b"no: no heartbeat: "),
        (b'{"host": "compute1"}\n', "compute1", b"no: no heartbeat: "),
        (b"[" * 900 + b"\n", "compute1", b"no: no heartbeat: "),
        (b" " * 2000 + beat(), "compute1", b"no: it says too much\n"),
        (beat(uptime_s=-1), "compute1", b"no: no heartbeat: "),
        (beat(uptime_s=1e300), "compute1", b"no: no heartbeat: "),
        (beat(boot="b" * 65), "compute1", b"no: no heartbeat: "),
        (beat(boot="b 1"), "compute1", b"no: no heartbeat: "),
        (beat("compute1 compute2"), "compute1", b"no: no heartbeat: "),
        (b"\xff\xfe\n", "compute1", b"no: no heartbeat: "),
        (b"x" * 5000, "compute1", b"no: a line is too long\n"),
    ],
    ids=(
        *("a beat", "another host", "not wanted", "text", "half", "deep", "blanks", "back in time"),
        *("ages", "a long boot", "two boots", "two hosts", "no UTF-8", "long"),
    ),
)  # fmt: skip
def test_what_is_no_heartbeat_is_refused_and_hurts_nobody(
    authority: Authority, store: Store, line: bytes, own: str, answer: bytes
) -> None:
    asked = monitor(authority, store, hosts=["compute*"])
    if own == "other":
        authority.issue(own)

    async def check() -> None:
        async with listening(asked) as (port,):
            assert (await say(authority, port, line, own=own)).startswith(answer)
            assert await say(authority, port, beat("compute3"), own="compute3") == b"ok\n"

    asyncio.run(check())


async def answered(port: int, trust: ssl.SSLContext) -> None:
    reader, writer = await asyncio.open_connection("localhost", port, ssl=trust)
    writer.write(beat())
    await writer.drain()
    await asyncio.wait_for(reader.readexactly(3), 20)


def test_who_has_no_certificate_of_the_authority_is_not_heard(
    authority: Authority, store: Store, tmp_path: Path
) -> None:
    own = made(tmp_path, "compute1")

    async def check() -> None:
        asked = monitor(authority, store)
        async with listening(asked) as (port,):
            for chain in ([], [own]):
                trust = ssl.create_default_context(cafile=authority.ca)
                for pair in chain:
                    trust.load_cert_chain(*pair)
                with pytest.raises((ConnectionError, ssl.SSLError, asyncio.IncompleteReadError)):
                    await answered(port, trust)
            assert await seen_by(asked) == {}

    asyncio.run(check())


def test_a_new_boot_is_a_failure_unless_it_was_shut_down(
    authority: Authority, store: Store
) -> None:
    """The kernel that ran before is gone, and with it whatever ran on it."""

    async def check() -> None:
        asked = monitor(authority, store)
        async with listening(asked) as (port,):
            await say(authority, port, beat())
            for clean in (
                [beat(goodbye=True), beat(boot="b2", uptime_s=1)],
                [beat(boot="b3", uptime_s=1, clean=True)],
            ):
                await say(authority, port, *clean)
                report = await asked.look(deadline_s=20)
                assert isinstance(report, HostReport)
                assert report.fencings == (), "that was shut down"
            assert await say(authority, port, beat(boot="b4", uptime_s=3)) == b"ok\n"
            report = await asked.look(deadline_s=20)
            assert isinstance(report, HostReport)
            (restart,) = report.fencings
            assert restart.restart
            assert abs(restart.at_s - CLOCK.now_us() / 1e6 + 3) < 2
            await say(authority, port, beat(boot="b6", uptime_s=1))
            report = await asked.look(deadline_s=20)
            assert isinstance(report, HostReport)
            assert report.fencings == (restart,), "again and again is one failure a minute"
            twice = await say(authority, port, beat(boot="b5", uptime_s=1e6))
            assert twice == b"no: another machine reports as this host\n"

    asyncio.run(check())


def test_an_agent_says_whether_the_boot_before_ended_with_a_goodbye(tmp_path: Path) -> None:
    def begun() -> host_agent.Record:
        record = host_agent.Record(tmp_path)
        record.begin()
        return record

    first = begun()
    assert not first.clean
    first.write(goodbye=True)
    first.boot = "another"
    first.write(goodbye=True)
    assert begun().clean
    assert begun().clean, "restarted within the same boot, without a goodbye"
    for text in ('{"boot": "another", "clean": true, "goodbye": false}', "half of", "null", "5"):
        (tmp_path / "boot").write_text(text)
        assert not begun().clean


def test_an_agent_reports_also_where_its_disk_takes_nothing(
    authority: Authority, store: Store, agents: Agents
) -> None:
    async def check() -> None:
        asked = monitor(authority, store)
        async with listening(asked) as (port,):
            agents.start("compute1", port, state=Path("/proc/none"))
            await until(lambda: seen_by(asked), {"compute1": Seen.UP})
            assert "it is not remembered how this boot ends" in agents.log("compute1")
            heard = asked.listener.hearing.point("", every_s=0).hosts["compute1"]
            assert heard.disk_s > 0
            agents.signal("compute1", signal.SIGTERM)
            await until(lambda: seen_by(asked), {"compute1": Seen.STOPPED})

    asyncio.run(check())


class SlowNames(host_agent.Reporter):
    """One whose resolver answers once, and never again."""

    def __init__(self, engine: str) -> None:
        record = host_agent.Record(Path())
        host = host_agent.Host("h", record, host_agent.Disk(Path(), record), 1.0)
        super().__init__(engine, host, ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
        self.hangs, self.asked = threading.Event(), 0

    def _resolve(self) -> None:
        self.asked += 1
        if self.asked > 1:
            self.hangs.wait(60)
        super()._resolve()


def test_a_resolver_that_hangs_does_not_keep_an_agent_from_its_engines() -> None:
    agent = SlowNames("localhost:8779")
    first = agent._resolved()
    assert "127.0.0.1" in first
    for _ in range(2):
        began_s = time.monotonic()
        assert agent._resolved() == first
        assert time.monotonic() - began_s < 2 * host_agent.RESOLVED_S
    assert agent.asked == 2, "it is not asked again before it has answered"
    agent.hangs.set()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--engine", "localhost"), "NAME:PORT is wanted"),
        (("--engine", "localhost:8779", "--every", "60"), "between 0.1 and 10 seconds"),
        (("--engine", "localhost:8779", "--ca", "/none"), "--ca /none: "),
    ],
)
def test_what_is_wrong_in_an_agents_command_is_said(words: tuple[str, ...], said: str) -> None:
    given = ["--ca", "/dev/null", "--certificate", "/none", "--key", "/none", *words]
    done = subprocess.run(
        ["/usr/bin/python3", "-SE", host_agent.__file__, *given],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert said in done.stderr


def test_settings_that_make_no_sense_are_refused(authority: Authority, tmp_path: Path) -> None:
    for more, said in (
        ({"listen": "8779"}, "host_monitors.agents.listen: '8779' is not HOST:PORT"),
        ({"ca": None}, "host_monitors.agents.ca is missing"),
        ({"key": tmp_path / "none"}, "host_monitors.agents.certificate = "),
        ({"lost_after": 1}, "host_monitors.agents.lost_after is 1"),
        ({"hosts": []}, "host_monitors.agents.hosts must be a non-empty list"),
    ):
        with pytest.raises(ConfigError, match=said):
            monitor(authority, None, **more)


def test_an_address_that_is_taken_or_a_database_that_is_away_leave_it_blind(
    authority: Authority, store: Store
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        answer = asyncio.run(monitor(authority, store, listen=place).look(deadline_s=5))
    assert isinstance(answer, MonitorBlind)
    assert answer.why.startswith(f"cannot listen on {place}: ")
    alone = asyncio.run(monitor(authority, None).look(deadline_s=5))
    assert isinstance(alone, MonitorBlind)


def test_a_renewed_certificate_is_taken_without_a_restart(
    authority: Authority, store: Store, tmp_path: Path
) -> None:
    here = copied(authority, tmp_path)
    cert, key = here.issue("engine", "somebody-else")

    async def check() -> None:
        asked = monitor(authority, store, certificate=cert, key=key)
        async with listening(asked) as (port,):
            with pytest.raises(ssl.SSLError):
                await say(authority, port, beat())
            cert.write_text("half of one")
            await asked.look(deadline_s=20)
            here.issue("engine", "localhost")
            await asked.look(deadline_s=20)
            assert await say(authority, port, beat()) == b"ok\n"

    asyncio.run(check())
