"""URL checks: CPU per check of the prober and of HAProxy's httpchk, new connections, in one run.

    python bench/prober.py [--seconds 6] [--rounds 3] [--rate 4000 ...] [--unlike]

Both sides ask the same local responder, a process of its own, with as many nodes at the same pace;
only the CPU of the asking process counts, divided by what the responder answered. The cost falls
with the rate, so the rate is printed. HAProxy runs with one thread. Then: memory per node, and how
exactly each side keeps a node's interval, with our deliberate jitter off. Target: at most HAProxy's CPU.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from _measure import Cost, Sample, median_us, rss_bytes, shown, verdict
from _prober import WARM_UP_S, ask
from _python import described, system_python
from _responder import Responder

from yaffle.prober import wire

TARGET = 1.0
CONFIG = """
global
    nbthread 1
    maxconn 4000
defaults
    mode http
    timeout connect 1s
    timeout client 1s
    timeout server 1s
    timeout check 1s
frontend unused
    bind unix@{folder}/unused.sock
backend checked
    option httpchk
    {state}
    http-check send meth GET uri /health ver HTTP/1.1 hdr Host localhost
    http-check expect status 200
    server-template node {nodes} 127.0.0.1:{port} check inter {interval_ms}ms
"""
# The prober as it is, except that a node's rounds do not move about within the interval.
STEADY = """
import sys
from yaffle.prober import watches
watches.JITTER = 0.0
from yaffle.prober.__main__ import main
main(int(sys.argv[1]), int(sys.argv[2]))
"""


@contextlib.contextmanager
def haproxy(
    responder: Responder, *, nodes: int, interval_s: float, state: str = ""
) -> Iterator[int]:
    """A private HAProxy that checks `nodes` servers; its process id."""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "haproxy.cfg")
        config.write_text(
            CONFIG.format(
                folder=folder,
                nodes=nodes,
                port=responder.port,
                interval_ms=int(interval_s * 1000),
                state=state,
            )
        )
        child = subprocess.Popen(
            ["haproxy", "-db", "-f", str(config)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            yield child.pid
        finally:
            child.kill()
            child.wait()


@contextlib.contextmanager
def steady_prober(responder: Responder, *, nodes: int, interval_s: float) -> Iterator[int]:
    """The prober without its jitter, spoken to directly; its process id."""
    ours, theirs = socket.socketpair()
    child = subprocess.Popen(
        [sys.executable, "-c", STEADY, str(theirs.fileno()), str(os.getpid())],
        pass_fds=(theirs.fileno(),),
    )
    theirs.close()
    asks = [
        wire.Ask(n, f"node-{n}", f"http://127.0.0.1:{responder.port}/node{n}")
        for n in range(1, nodes + 1)
    ]
    options = wire.Options(True, "", 1, 3.0, 1.0, False)
    # Results must be read, or they would be dropped and told.
    reader = threading.Thread(target=_drain, args=(ours,), daemon=True)
    reader.start()
    ours.sendall(wire.frame(wire.Configure([], [], "", 2_000)))
    ours.sendall(wire.frame(wire.Schedule("bench", options, interval_s, asks)))
    try:
        yield child.pid
    finally:
        child.kill()
        child.wait()
        reader.join(5)
        ours.close()


def _drain(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while sock.recv(1 << 20):
            pass


def one_pace(nodes: int, interval_s: float, args: argparse.Namespace) -> str:
    """Alternate both sides at one pace; whether the target was met, as `verdict` says."""
    ours: list[Cost] = []
    theirs: list[Cost] = []
    kind = "no two heads alike" if args.unlike else "heads with a date"
    print(f"{nodes} nodes every {interval_s:g} s ({nodes / interval_s:.0f} checks/s), {kind}")
    with Responder(unlike=args.unlike) as responder:
        for _ in range(args.rounds):
            ours.append(ask(responder, nodes=nodes, interval_s=interval_s, seconds=args.seconds))
            print(shown("yaffle", ours[-1]), flush=True)
            if args.alone:
                continue
            with haproxy(responder, nodes=nodes, interval_s=interval_s) as pid:
                time.sleep(WARM_UP_S + interval_s)
                sample = Sample(pid, responder.answers)
                time.sleep(args.seconds)
                theirs.append(sample.end())
            print(shown("haproxy", theirs[-1]), flush=True)
    if not theirs:
        print(f"  median {median_us(ours):.1f} µs")
        return "alone"
    ratio = median_us(ours) / median_us(theirs)
    found = verdict(ours, theirs, met=ratio <= TARGET)
    print(
        f"  median: yaffle {median_us(ours):.1f} µs, haproxy {median_us(theirs):.1f} µs: "
        f"{ratio:.2f} x; target <= {TARGET:g} x: {found}"
    )
    return found


def precision(nodes: int, interval_s: float, args: argparse.Namespace) -> None:
    """Memory per node and the deviation of a node's gaps from the interval, both sides."""
    print(
        f"{nodes} nodes every {interval_s:g} s: memory per node, and how steady a node's gaps are"
    )
    sides = [("yaffle", steady_prober, b"/node", {})]
    if not args.alone:
        state = {"state": "http-check send-state"}
        sides.append(("haproxy", haproxy, b"name=checked/node", state))
    for name, start, mark, more in sides:
        with Responder() as small, start(small, nodes=1, interval_s=interval_s, **more) as pid:
            time.sleep(interval_s + 1)
            base = rss_bytes(pid)
        with Responder(mark=mark) as responder:
            with start(responder, nodes=nodes, interval_s=interval_s, **more) as pid:
                time.sleep(WARM_UP_S + 3 * interval_s)
                per_node = (rss_bytes(pid) - base) / nodes
            off_ms = _deviations_ms(responder, interval_s)
        print(
            f"  {name:<10} {per_node:7.0f} bytes a node beyond {base / 1e6:.1f} MB; "
            f"gap off by {statistics.median(off_ms):.1f} ms (median), "
            f"{statistics.quantiles(off_ms, n=100)[98]:.1f} ms (p99) of {len(off_ms)}"
        )


def _deviations_ms(responder: Responder, interval_s: float) -> list[float]:
    last: dict[int, float] = {}
    off: list[float] = []
    for node, at_s in responder.arrivals():
        if node in last:
            off.append(abs(at_s - last[node] - interval_s) * 1000)
        last[node] = at_s
    return off


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", type=int, nargs="*", help="checks a second, one node for each")
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--unlike", action="store_true", help="no two answers have the same head")
    args = parser.parse_args()
    system_python()
    print(described())
    args.alone = shutil.which("haproxy") is None
    if args.alone:
        print("haproxy is not installed: only our side is measured")
    else:
        version = subprocess.check_output(["haproxy", "-v"], text=True).splitlines()[0]
        print(version.partition(" - ")[0])
    paces = [(rate, 1.0) for rate in args.rate or ()] or [(1000, 1.0), (4000, 1.0), (10_000, 5.0)]
    found = [one_pace(nodes, interval_s, args) for nodes, interval_s in paces]
    if not args.rate:
        precision(10_000, 5.0, args)
    sys.exit(0 if all(one in {"met", "alone"} for one in found) else 1)


if __name__ == "__main__":
    main()
