"""Hosts of network namespaces lose their power, or their network alone, and come back.

Each has its card, its boot id and its uptime by the kernel's own means. A host that loses its power ends
no connection, and comes back from the same address while its last one still looks open.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.chaos.fleet import space
from tests.chaos.fleet.space import Space
from tests.contract.host_monitors.test_heartbeat import (
    ALL_UP,
    HOSTS,
    Agents,
    listening,
    monitor,
    seen_by,
    until,
)
from tests.contract.host_monitors.test_heartbeat import authority as authority
from tests.contract.host_monitors.test_heartbeat import store as store
from tests.servers.authority import Authority

from yaffle.model.host_state import Seen
from yaffle.store.database import Store

pytestmark = [
    pytest.mark.timeout(180),
    pytest.mark.skipif(bool(space.missing()), reason=space.missing() or "namespaces"),
]
BOOT = """\
mount --bind boot_id /proc/sys/kernel/random/boot_id
mount --bind hosts /etc/hosts
exec "$@"
"""


class Machines(Agents):
    """Real agents, each in a namespace of its own."""

    def __init__(self, authority: Authority, folder: Path, spaces: dict[str, Space]) -> None:
        super().__init__(authority, folder)
        self.spaces = spaces

    def spawn(self, host: str, words: list[str]) -> subprocess.Popen[bytes]:
        """Switch the host on."""
        own = self.folder / host
        own.mkdir(exist_ok=True)
        (own / "boot_id").write_text(f"{uuid.uuid4()}\n")
        (own / "hosts").write_text(f"{self.spaces[host].gateway} localhost\n")
        since_s = int(time.clock_gettime(time.CLOCK_BOOTTIME))
        anew = [
            "unshare",
            "--time",
            "--boottime",
            str(-since_s),
            "--mount",
            "--fork",
            "--kill-child",
        ]
        inside = self.spaces[host].enter([*anew, "sh", "-euc", BOOT, host, *words])
        with (self.folder / f"{host}.log").open("ab") as log:
            return subprocess.Popen(inside, cwd=own, stdin=subprocess.DEVNULL, stderr=log)

    def power_off(self, host: str) -> None:
        """Cut its power: its cards first, so that it ends no connection."""
        self.spaces[host].unplug()
        self.running[host].kill()
        self.running[host].wait(60)


@pytest.fixture
def machines(authority: Authority, tmp_path: Path) -> Iterator[Machines]:
    with contextlib.ExitStack() as stack:
        spaces = {host: stack.enter_context(space.space()) for host in HOSTS}
        made = Machines(authority, tmp_path, spaces)
        stack.callback(made.end)
        yield made


def test_a_power_cut_is_a_failure_and_a_cut_network_is_none(
    authority: Authority, store: Store, machines: Machines
) -> None:
    spaces = machines.spaces

    async def check() -> None:
        first, second = (monitor(authority, store, name, listen="0.0.0.0:0") for name in "ab")
        async with listening(first, second) as ports:
            for host in HOSTS:
                machines.start(host, *ports)
            await until(lambda: seen_by(first, second), ALL_UP)
            machines.power_off("compute1")
            spaces["compute2"].unplug()
            lost = {**ALL_UP, "compute1": Seen.LOST, "compute2": Seen.LOST}
            await until(lambda: seen_by(first, second), lost)
            for host in ("compute1", "compute2"):
                spaces[host].plug()
            machines.start("compute1", *ports)
            await until(lambda: seen_by(first, second), ALL_UP)
            report = await first.look(deadline_s=20)
            assert [(f.host, f.restart) for f in report.fencings] == [("compute1", True)]
            (proof,) = report.fencings
            assert time.time() - 60 < proof.at_s <= time.time()

    asyncio.run(check())
