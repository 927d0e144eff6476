"""URL checks: CPU per check of the prober and of prometheus-blackbox-exporter, in one run.

    python bench/blackbox.py [--rate 1000] [--seconds 6] [--rounds 3]

Both sides ask the same local responder at the same rate over new connections. The exporter checks
when it is scraped, so a process of its own scrapes /probe at that rate over kept connections,
without compression; only the exporter's own CPU counts. Target: at most an eighth of it.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from _measure import Cost, Sample, median_us, shown, verdict
from _prober import WARM_UP_S, ask
from _python import described, system_python
from _responder import Responder

TARGET = 8.0
NAME = "prometheus-blackbox-exporter"
SCRAPERS = 16
CONFIG = """
modules:
  bench:
    prober: http
    timeout: 5s
    http:
      preferred_ip_protocol: ip4
      ip_protocol_fallback: false
      follow_redirects: false
"""


@contextlib.contextmanager
def exporter(responder: Responder, rate: int) -> Iterator[int]:
    """A private exporter that is scraped `rate` times a second; its process id."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "blackbox.yml")
        config.write_text(CONFIG)
        child = subprocess.Popen(
            [
                NAME,
                f"--config.file={config}",
                f"--web.listen-address=127.0.0.1:{port}",
                "--log.level=error",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        scraper = 0
        try:
            _wait_for(port)
            scraper = os.fork()
            if scraper == 0:
                _scrape(port, responder.url, rate)
            yield child.pid
        finally:
            if scraper:
                os.kill(scraper, signal.SIGKILL)
                os.waitpid(scraper, 0)
            child.kill()
            child.wait()


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + 10
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def _scrape(port: int, url: str, rate: int) -> None:
    """Never returns; each thread scrapes its share, evenly."""
    request = (
        f"GET /probe?module=bench&target={url} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n"
    ).encode()
    for number in range(SCRAPERS):
        args = (port, request, SCRAPERS / rate, number / rate)
        threading.Thread(target=_scrape_evenly, args=args, daemon=True).start()
    while True:
        signal.pause()


def _scrape_evenly(port: int, request: bytes, every_s: float, first_s: float) -> None:
    sock = socket.create_connection(("127.0.0.1", port))
    due = time.monotonic() + first_s
    while True:
        time.sleep(max(0.0, due - time.monotonic()))
        due = max(due + every_s, time.monotonic() - 1)
        sock.sendall(request)
        answer = b""
        # Larger than what Go buffers, so it comes in chunks.
        while not answer.endswith(b"\r\n0\r\n\r\n"):
            more = sock.recv(65536)
            if not more:
                os._exit(1)
            answer += more
        # Chunks may begin anywhere, even within a word.
        if b"\nprobe_success 1\n" not in re.sub(rb"\r\n[0-9a-f]+\r\n", b"", answer):
            print("  note: a scrape was told that its probe failed", flush=True)
            os._exit(1)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", type=int, default=1000, help="checks a second")
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    system_python()
    print(described())
    if shutil.which(NAME) is None:
        print(f"{NAME} is not installed: nothing to compare with")
        return
    version = subprocess.run([NAME, "--version"], capture_output=True, text=True, check=True)
    print((version.stdout + version.stderr).splitlines()[0].partition(" (")[0])
    print(f"{args.rate} checks/s, new connections")
    ours: list[Cost] = []
    theirs: list[Cost] = []
    with Responder() as responder:
        for _ in range(args.rounds):
            ours.append(ask(responder, nodes=args.rate, interval_s=1.0, seconds=args.seconds))
            print(shown("yaffle", ours[-1]), flush=True)
            with exporter(responder, args.rate) as pid:
                time.sleep(WARM_UP_S)
                sample = Sample(pid, responder.answers)
                time.sleep(args.seconds)
                theirs.append(sample.end())
            print(shown("exporter", theirs[-1]), flush=True)
    ratio = median_us(theirs) / median_us(ours)
    print(
        f"median: yaffle {median_us(ours):.1f} µs, exporter {median_us(theirs):.1f} µs: "
        f"{ratio:.1f} times less"
    )
    found = verdict(ours, theirs, met=ratio >= TARGET)
    print(f"target >= {TARGET:g} times less: {found}")
    sys.exit(0 if found == "met" else 1)


if __name__ == "__main__":
    main()
