"""What heartbeats cost: the agent on its host, and the engine that listens, beside an idle Python.

Two listeners hear real agents over TLS for a while; printed are memory and CPU of one agent, and CPU of
a listener a heartbeat. Everything is started here.

    python bench/host_agent.py [--seconds 30] [--agents 50]
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import psutil
from _python import ROOT, described, system_python

sys.path.insert(0, str(ROOT))
from tests.contract.host_monitors.test_heartbeat import Agents, monitor
from tests.servers.authority import authority

CPU_MAX: Final = 0.001
"""Of a core, at one heartbeat a second to each of two engines."""
PRIVATE_MAX: Final = 10.0
"""MiB that nobody else has."""
IDLE: Final = "import time; time.sleep(3600)"


def memory(pid: int) -> tuple[float, float]:
    """Return what is resident, and what of it nobody shares (MiB)."""
    found = psutil.Process(pid).memory_full_info()
    return found.rss / 2**20, found.uss / 2**20


def cpu_s(pid: int) -> float:
    """Return the CPU that a process has used."""
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


async def hear(folder: Path, count: int, seconds: float) -> bool:
    """Listen, and print what it costs."""
    pki = authority(folder)
    pki.issue("engine", "localhost")
    names = [f"compute{number}" for number in range(count)]
    for name in names:
        pki.issue(name)
    monitors = [monitor(pki, None, point) for point in "ab"]
    for one in monitors:
        await one.listener.start()
    ports = [one.listener.port for one in monitors]
    agents = Agents(pki, folder, every_s=1.0)
    idle = subprocess.Popen([sys.executable, "-I", "-S", "-c", IDLE])
    try:
        for name in names:
            agents.start(name, *ports)
        while (
            sum(len(one.listener.hearing.point("", every_s=0).hosts) for one in monitors)
            < 2 * count
        ):
            await asyncio.sleep(0.2)
        await asyncio.sleep(5)
        pids = [agents.running[name].pid for name in names]
        began, ours = [cpu_s(pid) for pid in pids], time.process_time()
        await asyncio.sleep(seconds)
        listening = time.process_time() - ours
        spent = (sum(map(cpu_s, pids)) - sum(began)) / count
        (rss, private), (plain_rss, plain) = memory(pids[0]), memory(idle.pid)
    finally:
        agents.end()
        idle.kill()
        idle.wait()
        for one in monitors:
            await one.listener.stop()
    share = spent / seconds
    beats = 2 * count * seconds
    print(f"agent: {private:.1f} MiB private ({rss:.1f} resident), {100 * share:.3f} % of a core")
    print(f"idle Python: {plain:.1f} MiB private ({plain_rss:.1f} resident)")
    print(f"private memory: {private / plain:.1f} x an idle Python's")
    print(f"listener: {1e6 * listening / beats:.0f} us a heartbeat, {count} agents")
    print(f"300 hosts every 2 s: {100 * 150 * listening / beats:.1f} % of a core for each engine")
    return private <= PRIVATE_MAX and share <= CPU_MAX


def main() -> int:
    """Print it; 1 where the agent costs more than it may."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--agents", type=int, default=50)
    options = parser.parse_args()
    print(described())
    with tempfile.TemporaryDirectory() as folder:
        met = asyncio.run(hear(Path(folder), options.agents, options.seconds))
    print(f"target: {PRIVATE_MAX:g} MiB private, {100 * CPU_MAX:g} %: {'met' if met else 'missed'}")
    return int(not met)


if __name__ == "__main__":
    system_python()
    sys.exit(main())
