"""The /health endpoint: CPU per request beside oslo.middleware's and nginx', and what a busy host feels.

    python bench/health_endpoint.py [--rate 500] [--seconds 4] [--rounds 3] [--pairs 60]

Every side answers GET /health on a new connection each, at the same pace; CPU is that of the
server's processes. oslo.middleware runs under gunicorn (one sync worker) and under uwsgi, installed
from the package index into a throw-away virtual environment of the same Python; nginx (Debian's, one
worker) returns the same bytes from memory and is the limit. What is not installed is left out.

The disturbance is measured in a host that computes without a pause. In one half second of each pair it
gets 100 requests/s, in the other an idle twin gets them, so that the machine does the same; what is
compared is the work that the host does a second. Seconds in which its thread had no core, because other
processes had it, are taken out (schedstat). Medians of pairs, and their spread.
Targets: at most a fifth of oslo.middleware's CPU, at most 1 % of the host.

Both ways of serving are measured in turns: by a thread of the host, and apart, by a helper of its own.
The half seconds in which the twin gets the requests say what the host pays for telling its health at all.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from _health_host import SLOT_S
from _measure import cpu_s
from _python import described, system_python

TARGET, DISTURBANCE_MAX = 5.0, 0.01
PROBES_S = 100
TURNS = 4
GET = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n"
HOST = Path(__file__).with_name("_health_host.py")
OSLO = """
from oslo_middleware import healthcheck
application = healthcheck.Healthcheck.app_factory({}, path="/health")
"""
NGINX = """
daemon off; worker_processes 1; pid {folder}/pid; error_log stderr crit;
events {{ worker_connections 512; }}
http {{
    access_log off; server_tokens off; keepalive_timeout 0;
    server {{
        listen 127.0.0.1:{port} backlog=1024;
        location = /health {{ default_type application/health+json; return 200 '{body}'; }}
    }}
}}
"""
BODY = (
    '{"checks":{"api_db":{"status":"pass","time":"2026-11-20T20:32:44+00:00"},"hypervisor":{"status":'
    '"pass","time":"2026-11-20T20:32:44+00:00"},"message_bus":{"status":"pass","time":'
    '"2026-11-20T20:32:44+00:00"}},"description":"nova-compute","notes":{"host":"node-1"},'
    '"serviceId":"e3c22423-cd7a-47dc-b6e9-e18d1a8b3bdf","status":"pass","version":"1.0"}'
)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
        return port


def ask(port: int) -> bytes:
    """One request on a connection of its own."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        client.sendall(GET)
        answer = b""
        while piece := client.recv(4096):
            answer += piece
    assert answer.startswith((b"HTTP/1.1 200 ", b"HTTP/1.0 200 ")), answer[:80]
    return answer


def paced(port: int, rate: float, until: float) -> int:
    """Ask at that rate until then; how many were asked."""
    asked, due = 0, time.time()
    while due < until:
        time.sleep(max(0.0, due - time.time()))
        ask(port)
        asked += 1
        due = max(due + 1 / rate, time.time() - 0.1)
    return asked


def family(pid: int) -> list[int]:
    """A process, its helpers, its children, and theirs."""
    found = [pid, *helpers(pid)]
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += family(int(child))
    return found


def helpers(pid: int) -> list[int]:
    """What answers for a process and is nobody's child: its command line ends in whose it is."""
    found = []
    for each in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if each.name.isdigit() and (each / "cmdline").read_bytes().endswith(
                f"yaffle-health of {pid}\0".encode()
            ):
                found.append(int(each.name))
    return found


@contextlib.contextmanager
def running(command: list[str], port: int) -> Iterator[subprocess.Popen[str]]:
    """A server's process, once it answers; others' do not see our packages."""
    ours_too = {} if command[0] == sys.executable else {"PYTHONPATH": ""}
    child = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | ours_too,
    )
    try:
        until = time.monotonic() + 20
        while True:
            try:
                ask(port)
                break
            except OSError:
                if time.monotonic() > until or child.poll() is not None:
                    raise
                time.sleep(0.05)
        yield child
    finally:
        for pid in reversed(family(child.pid)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, 9)
        child.wait()


def used_s(pid: int) -> float:
    """CPU so far; to 10 ms only where threads have come and gone."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks_s = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return max(cpu_s(pid), ticks_s)


def us_a_request(child: subprocess.Popen[str], port: int, rate: float, seconds: float) -> float:
    """CPU of the server and its children for each request."""
    paced(port, rate, time.time() + 0.5)
    before = sum(map(used_s, family(child.pid)))
    asked = paced(port, rate, time.time() + seconds)
    return (sum(map(used_s, family(child.pid))) - before) / asked * 1e6


@contextlib.contextmanager
def oslo() -> Iterator[Path | None]:
    """A throw-away environment with oslo.middleware and both servers; None if it cannot be made."""
    with tempfile.TemporaryDirectory(prefix="health-endpoint-") as folder:
        base = Path(getattr(sys, "_base_executable", sys.executable))
        packages = ["oslo.middleware", "gunicorn", "pyuwsgi", "setuptools<81"]
        try:
            subprocess.check_call([base, "-I", "-m", "venv", folder])
            pip = [f"{folder}/bin/python", "-I", "-m", "pip", "install", "-q", *packages]
            subprocess.check_call(pip)
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"oslo.middleware is left out: {error}")
            yield None
            return
        Path(folder, "oslo_app.py").write_text(OSLO)
        yield Path(folder)


def ours(port: int, calls: str = "direct", how: str = "idle") -> list[str]:
    return [sys.executable, str(HOST), how, str(port), calls]


def sides(folder: Path, place: Path | None) -> dict[str, Callable[[int], list[str]]]:
    """Name -> the command that serves on a port."""
    found: dict[str, Callable[[int], list[str]]] = {
        "yaffle-health": ours,
        "… plain calls": lambda port: ours(port, "plain"),
        "… apart": lambda port: ours(port, "apart"),
        "http.server": lambda port: ours(port, "http.server"),
    }
    if place is not None:
        there = f"{place}/bin"
        found["oslo, gunicorn"] = lambda port: [
            *(f"{there}/gunicorn", "-w", "1", "--chdir", str(place)),
            *("-b", f"127.0.0.1:{port}", "oslo_app:application"),
        ]
        found["oslo, uwsgi"] = lambda port: [
            *(f"{there}/pyuwsgi", "--http-socket", f"127.0.0.1:{port}", "--need-app"),
            *("--disable-logging", "--chdir", str(place), "--module", "oslo_app"),
        ]
    nginx = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if nginx is None:
        print("nginx is not installed (nginx-light): the limit is left out")
    else:

        def serve(port: int) -> list[str]:
            config = folder / "nginx.conf"
            config.write_text(NGINX.format(folder=folder, port=port, body=BODY))
            return [nginx, "-p", str(folder), "-c", str(config)]

        found["nginx"] = serve
    return found


def costs(rate: float, seconds: float, rounds: int) -> dict[str, float]:
    """Median CPU µs a request of every side, taken in turns."""
    taken: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="health-nginx-") as folder, oslo() as place:
        for _ in range(rounds):
            for name, command in sides(Path(folder), place).items():
                port = free_port()
                with running(command(port), port) as child:
                    taken.setdefault(name, []).append(us_a_request(child, port, rate, seconds))
                print(f"  {name:<16} {taken[name][-1]:8.1f} µs CPU a request", flush=True)
    return {name: statistics.median(each) for name, each in taken.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """Half a second of a busy host."""

    speed: float
    """Units of work for each second in which its thread had a core, or waited by itself."""
    others_s: float
    gave_way: float
    took_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbance:
    """What 100 requests/s take of a busy host."""

    share: float
    """Of its work: the median of pairs."""
    error: float
    thread_us: float
    """CPU of the endpoint's thread for each request; it holds the interpreter for most of it."""
    switches: float
    """How often the host's thread gave the interpreter away, for each request."""
    rate: float
    """Requests a second that were really answered."""
    idle_us: float
    """CPU of the host's other threads a second without requests."""
    idle_switches: float
    """… and how often its thread gave the interpreter away then, a second."""


Pair = tuple[Slot, Slot, int]


def in_turns(kinds: list[str], pairs: int) -> dict[str, Disturbance]:
    """Measure every kind of endpoint, a part of the pairs each time, so that all see the same machine."""
    found: dict[str, list[Pair]] = {kind: [] for kind in kinds}
    turns = min(TURNS, pairs)
    for turn in range(turns):
        for kind in random.sample(kinds, len(kinds)):
            found[kind] += measured(kind, pairs // turns + (turn < pairs % turns))
    return {kind: disturbance(each) for kind, each in found.items()}


def measured(calls: str, pairs: int) -> list[Pair]:
    """Half seconds with requests, without, and how many requests it were."""
    port, twin = free_port(), free_port()
    asked: dict[int, int] = {}
    with (
        running(ours(twin, calls, "idle"), twin),
        running(ours(port, calls, "busy"), port) as child,
    ):
        first = slot = int(time.time() / SLOT_S) + 2
        for _ in range(pairs):
            for each in random.sample([port, twin], 2):
                time.sleep(max(0.0, slot * SLOT_S - time.time()))
                count = paced(each, PROBES_S, (slot + 1) * SLOT_S)
                if each == port:
                    asked[slot] = count
                slot += 1
        slots = _slots(child, last=slot - 1)
    return [
        (slots[mine], slots[other], asked[mine])
        for one in range(first, slot, 2)
        for mine, other in [(one, one + 1) if one in asked else (one + 1, one)]
        if mine in slots and other in slots
    ]


def disturbance(found: list[Pair]) -> Disturbance:
    """What those pairs come to."""
    lost = [1 - mine.speed / other.speed for mine, other, _ in found]
    requests = sum(count for _, _, count in found)
    idle_s = sum(other.took_s for _, other, _ in found)
    return Disturbance(
        share=statistics.median(lost),
        error=_error_of_median(lost),
        thread_us=sum(mine.others_s - other.others_s for mine, other, _ in found) / requests * 1e6,
        switches=sum(mine.gave_way - other.gave_way for mine, other, _ in found) / requests,
        rate=requests / len(found) / SLOT_S,
        idle_us=sum(other.others_s for _, other, _ in found) / idle_s * 1e6,
        idle_switches=sum(other.gave_way for _, other, _ in found) / idle_s,
    )


def _slots(child: subprocess.Popen[str], last: int) -> dict[int, Slot]:
    assert child.stdout is not None
    found: dict[int, Slot] = {}
    for line in child.stdout:
        if line.startswith("ready"):
            continue
        slot, units, took, delayed, _, others_s, gave_way = map(float, line.split())
        speed = units / (took - delayed)
        found[int(slot)] = Slot(speed=speed, others_s=others_s, gave_way=gave_way, took_s=took)
        if slot >= last:
            break
    return found


def _error_of_median(values: list[float]) -> float:
    chance = random.Random(1)
    again = [statistics.median(chance.choices(values, k=len(values))) for _ in range(500)]
    return statistics.stdev(again)


def felt_verdict(felt: Disturbance) -> str:
    """`met`, `MISSED`, or that this run cannot say."""
    # Twice the error of a median on either side: a verdict only where nothing else is likely.
    if felt.share - 2 * felt.error > DISTURBANCE_MAX:
        return "MISSED"
    if felt.share + 2 * felt.error <= DISTURBANCE_MAX or felt.error <= DISTURBANCE_MAX / 2:
        return "met" if felt.share <= DISTURBANCE_MAX else "MISSED"
    return "not known: this machine is too busy to see one in a hundred"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", type=float, default=500, help="requests a second")
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--rounds", type=int, default=3, help="of all sides; 0: none")
    parser.add_argument("--pairs", type=int, default=60, help="pairs of half seconds; 0: none")
    args = parser.parse_args()
    system_python()
    print(described())
    met = costs_met(args.rate, args.seconds, args.rounds) if args.rounds else True
    if args.pairs:
        met = felt_met(args.pairs) and met
    sys.exit(0 if met else 1)


def costs_met(rate: float, seconds: float, rounds: int) -> bool:
    """Print what a request costs on every side; whether ours keeps to the target."""
    print(f"{rate:g} requests/s, a new connection each")
    found = costs(rate, seconds, rounds)
    mine = found["yaffle-health"]
    print("medians:")
    for name, cost in sorted(found.items(), key=lambda each: each[1]):
        print(f"  {name:<16} {cost:8.1f} µs  {cost / mine:6.2f} times ours")
    peers = [cost for name, cost in found.items() if name.startswith("oslo")]
    met = not peers or min(peers) >= TARGET * mine
    if peers:
        word = "met" if met else "MISSED"
        print(f"target >= {TARGET:g} times less than oslo.middleware's best: {word}")
    return met


def felt_met(pairs: int) -> bool:
    """Print what a busy host feels of each way to serve; whether one keeps to the target."""
    print(
        f"a busy host, {PROBES_S} requests/s wanted, {pairs} pairs of half seconds each, in turns:"
    )
    found = in_turns(["direct", "apart"], pairs)
    for kind in ("plain", "http.server"):
        found[kind] = disturbance(measured(kind, pairs))
    names = {"direct": "thread", "plain": "… plain calls"}
    for kind, felt in found.items():
        name = names.get(kind, kind)
        print(
            f"  {name:<13} {felt.share:7.2%} ± {felt.error:.2%} of its work at {felt.rate:.0f}/s, "
            f"{felt.share / DISTURBANCE_MAX:.1f} times the target; "
            f"a request: {felt.thread_us:.0f} µs of the host's thread, {felt.switches:.1f} switches",
            flush=True,
        )
    for kind in ("direct", "apart"):
        felt = found[kind]
        print(
            f"  {names.get(kind, kind)} without requests: {felt.idle_us:.0f} µs of CPU and "
            f"{felt.idle_switches:.1f} switches a second, {felt.idle_us / 1e6:.3%} of a core"
        )
    said = {kind: felt_verdict(found[kind]) for kind in ("direct", "apart")}
    for kind, word in said.items():
        print(f"target <= {DISTURBANCE_MAX:.0%}, {names.get(kind, kind)}: {word}")
    return "met" in said.values()


if __name__ == "__main__":
    main()
