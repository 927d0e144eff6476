"""URL checks: CPU per check of the prober and of HAProxy's httpchk, new connections, in one run.

    python bench/prober.py [--rate 4000] [--seconds 10] [--rounds 3]

Both sides ask the same local responder, a process of its own, at the same rate; only the CPU of the
asking process counts (/proc/PID/stat), divided by what the responder counted. The cost falls with
the rate, so the rate is printed. HAProxy runs with one thread. Use an optimised Python (a
distribution's, say): the one in use is named. Target: at most 1.3 times HAProxy.
"""

from __future__ import annotations

import argparse
import asyncio
import mmap
import os
import platform
import select
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

from yaffle.engine.clock import SystemClock
from yaffle.model.ids import NodeId
from yaffle.model.policy import UrlOptions
from yaffle.ports.detector import UrlTarget
from yaffle.prober.client import ProberClient

WARM_UP_S = 3.0
ANSWER = (
    b"HTTP/1.1 200 OK\r\nServer: bench\r\nContent-Type: text/plain\r\n"
    b"Content-Length: 2\r\nConnection: close\r\n\r\nok"
)


class Responder:
    """A forked epoll server that counts its answers where both processes see them."""

    def __init__(self) -> None:
        self._count = mmap.mmap(-1, 8)
        listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
        listener.setblocking(False)
        self.port = listener.getsockname()[1]
        self._pid = os.fork()
        if self._pid == 0:
            self._serve(listener)
        listener.close()

    @property
    def answers(self) -> int:
        return struct.unpack("Q", self._count[:8])[0]

    def stop(self) -> None:
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)

    def _serve(self, listener: socket.socket) -> None:
        poll = select.epoll()
        poll.register(listener.fileno(), select.EPOLLIN)
        open_socks: dict[int, socket.socket] = {}
        answers = 0
        while True:
            for fd, _ in poll.poll():
                if fd == listener.fileno():
                    try:
                        while True:
                            sock, _ = listener.accept()
                            sock.setblocking(False)
                            open_socks[sock.fileno()] = sock
                            poll.register(sock.fileno(), select.EPOLLIN)
                    except BlockingIOError:
                        continue
                sock = open_socks.pop(fd)
                try:
                    if sock.recv(4096):
                        sock.send(ANSWER)
                        answers += 1
                except OSError:
                    pass
                sock.close()
            self._count[:8] = struct.pack("Q", answers)


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rss_mb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


class Sample:
    """CPU of one process over a stretch of time, per answer of the responder."""

    def __init__(self, pid: int, responder: Responder) -> None:
        self._pid, self._responder = pid, responder
        self._cpu, self._answers, self._at = cpu_s(pid), responder.answers, time.monotonic()

    def end(self) -> tuple[float, float, float]:
        """µs CPU a check, checks a second, MB."""
        answers = self._responder.answers - self._answers
        took = time.monotonic() - self._at
        return (
            (cpu_s(self._pid) - self._cpu) / max(answers, 1) * 1e6,
            answers / took,
            rss_mb(self._pid),
        )


async def ours(responder: Responder, rate: int, seconds: float) -> tuple[float, float, float]:
    blind: list[str] = []
    bad: dict[str, int] = {}

    def sink(results) -> None:
        for result in results:
            if result.code != "L7-OK":
                bad[result.code] = bad.get(result.code, 0) + 1

    client = ProberClient(clock=SystemClock(), on_blind=blind.append)
    url = f"http://127.0.0.1:{responder.port}/health"
    targets = [UrlTarget(node_id=NodeId(f"node-{n}"), url=url) for n in range(rate)]
    client.schedule("bench", targets, UrlOptions(poll_url=url), interval_s=1.0, sink=sink)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(client.run())
        await asyncio.sleep(WARM_UP_S)
        sample = Sample(client.stats.pid, responder)
        await asyncio.sleep(seconds)
        result = sample.end()
        running.cancel()
    if blind or bad:
        print(f"    note: not all passed: {bad} {blind}")
    return result


def haproxy(responder: Responder, rate: int, seconds: float) -> tuple[float, float, float]:
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "haproxy.cfg")
        config.write_text(
            f"""
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
    http-check send meth GET uri /health ver HTTP/1.1 hdr Host localhost
    http-check expect status 200
    server-template node {rate} 127.0.0.1:{responder.port} check inter 1s
"""
        )
        child = subprocess.Popen(
            ["haproxy", "-db", "-f", str(config)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            time.sleep(WARM_UP_S)
            sample = Sample(child.pid, responder)
            time.sleep(seconds)
            return sample.end()
        finally:
            child.kill()
            child.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", type=int, default=4000, help="checks a second")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    optimised = "--enable-optimizations" in (sysconfig.get_config_var("CONFIG_ARGS") or "")
    print(
        f"Python {platform.python_version()} ({sys.executable}, "
        f"profile-guided: {'yes' if optimised else 'not known'}), "
        f"{args.rate} checks/s, new connections"
    )
    with_haproxy = shutil.which("haproxy") is not None
    if not with_haproxy:
        print("haproxy is not installed: only our side is measured")
    responder = Responder()
    mine, theirs = [], []
    try:
        for _ in range(args.rounds):
            mine.append(asyncio.run(ours(responder, args.rate, args.seconds)))
            print("  yaffle   {:6.1f} µs/check  {:6.0f}/s  {:5.1f} MB".format(*mine[-1]))
            if with_haproxy:
                theirs.append(haproxy(responder, args.rate, args.seconds))
                print("  haproxy  {:6.1f} µs/check  {:6.0f}/s  {:5.1f} MB".format(*theirs[-1]))
    finally:
        responder.stop()
    ours_us = statistics.median(one[0] for one in mine)
    if theirs:
        theirs_us = statistics.median(one[0] for one in theirs)
        print(
            f"median: yaffle {ours_us:.1f} µs, haproxy {theirs_us:.1f} µs: {ours_us / theirs_us:.2f} ×"
        )
    else:
        print(f"median: yaffle {ours_us:.1f} µs a check")


if __name__ == "__main__":
    main()
