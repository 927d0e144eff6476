"""A balancer with thousands of servers costs the loop little: its table is read beside it."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from yaffle.drivers.detectors.load_balancer import haproxy
from yaffle.drivers.detectors.load_balancer.pool import Failed
from yaffle.drivers.detectors.load_balancer.settings import BalancerSettings, Socket
from yaffle.engine.runtime.clock import SystemClock
from yaffle.integrations.driver_settings import Section
from yaffle.integrations.http import HttpSession, address_rules
from yaffle.ports import DriverContext

SERVERS = 5000
COLUMNS = ["pxname", "svname", "status", "type", "check_status", "last_chk"]
FILLING = [f"c{n}" for n in range(90)]
HEAD = "# " + ",".join([*COLUMNS, *FILLING]) + ",\n"


def table(servers: int) -> str:
    zeros = ",".join("0" for _ in FILLING)
    rows = (f"web,n{n},UP,2,L7OK,OK,{zeros},\n" for n in range(servers))
    return HEAD + "".join(rows) + "\n"


@pytest.fixture(scope="module")
def long() -> str:
    return table(SERVERS)


def asked(text: str, folder: Path, *, within_s: float = 60.0) -> tuple[int, float, float]:
    """Ask a socket that says `text`; return servers, the loop's own time and the thread's whole (s)."""
    path = folder / "s"

    async def scene() -> tuple[int, float, float]:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readline()
            writer.write(text.encode())
            await writer.drain()
            writer.close()

        section = Section(
            "balancers", {"balancers": {"a": {"type": "haproxy", "socket": str(path)}}}
        )
        balancer = BalancerSettings.read(section).balancers["a"]
        context = DriverContext(clock=SystemClock(), state_dir=folder, settings={})
        session = HttpSession(address_rules(context), ca_file=None)
        async with await asyncio.start_unix_server(serve, path):
            began_s, whole_s = time.thread_time(), time.process_time()
            async with asyncio.timeout(within_s):
                found = await haproxy.ask(
                    Socket(path=str(path)), balancer, "web", session, within_s=within_s
                )
            own_s, all_s = time.thread_time() - began_s, time.process_time() - whole_s
        assert not isinstance(found, Failed), found
        return len(found), own_s, all_s

    return asyncio.run(scene())


def test_the_loop_does_not_read_a_long_table_itself(long: str, tmp_path: Path) -> None:
    count, own_s, all_s = asked(long, tmp_path)
    assert count == SERVERS
    # Its own time is that of its thread on a processor, whatever else the machine does.
    assert own_s < all_s / 2, (own_s, all_s)


def test_a_short_one_takes_no_thread(tmp_path: Path) -> None:
    text = table(100)
    assert len(text) < haproxy.AT_ONCE_MAX
    count, own_s, all_s = asked(text, tmp_path)
    assert count == 100
    assert own_s > all_s / 2, (own_s, all_s)


def test_rows_of_others_have_to_be_whole_too(long: str) -> None:
    for cut in (long[:-200], long.replace("web,n7,", "web,n7", 1)):
        assert isinstance(haproxy.read_csv(cut, "web"), Failed)
        assert isinstance(haproxy.read_csv(cut.replace("web,", "other,"), "web"), Failed)
