"""Hosts of the /health bench: an idle process with our endpoint, or a busy one that counts its work.

    python bench/_health_host.py idle|busy PORT KIND

KIND: direct, plain (calls of the endpoint's thread), apart (a helper answers) or http.server.

Prints "ready", then (busy) for each slot of SLOT_S since the epoch: its number, the work done, its
seconds; for how many of them the main thread was ready but had no core (other people's noise), and
how many it ran; how many the other threads ran; how often the main thread gave way by itself, which
one that only computes does for the interpreter alone.
"""

from __future__ import annotations

import resource
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "packages" / "yaffle-health" / "src"))

from yaffle_health.manager import Manager
from yaffle_health.server import Endpoint
from yaffle_health.server.calls import PlainCalls

SLOT_S = 0.5
_EDGE_S = 0.05
ITEMS = ("message_bus", "api_db", "hypervisor")


def _used() -> tuple[float, float, float, float]:
    """Seconds that the calling thread was ready without a core, and ran; that the other threads ran;
    how often the calling thread gave way."""
    ran, delayed, _ = Path("/proc/thread-self/schedstat").read_text().split()
    gave_way = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
    others_s = time.process_time() - time.thread_time()
    return int(delayed) / 1e9, int(ran) / 1e9, others_s, gave_way


def _work() -> int:
    total = 0
    for number in range(2000):
        total += number * number % 7
    return total


def _count_slots() -> None:
    while True:
        start = (time.time() // SLOT_S + 1) * SLOT_S
        time.sleep(max(0.0, start + _EDGE_S - time.time()))
        units, began, before = 0, time.perf_counter(), _used()
        end = start + SLOT_S - _EDGE_S
        while time.time() < end:
            _work()
            units += 1
        took, after = time.perf_counter() - began, _used()
        used = (after[number] - before[number] for number in range(4))
        print(round(start / SLOT_S), units, took, *used, flush=True)


def _serve_ours(port: int, calls: str) -> object:
    manager = Manager(description="nova-compute", host="node-1")
    for name in ITEMS:
        manager.passed(name)
    chosen = PlainCalls() if calls == "plain" else None
    uri = f"tcp://127.0.0.1:{port}"
    apart = calls == "apart"
    return Endpoint(manager.health, uri=uri, required=True, calls=chosen, apart=apart).start()


def _serve_stdlib(port: int) -> object:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b'{"status": "pass"}'
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def main() -> None:
    """Serve, then idle or work until killed."""
    how, port, calls = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    kept = _serve_stdlib(port) if calls == "http.server" else _serve_ours(port, calls)
    print("ready", flush=True)
    if how == "busy":
        _count_slots()
    sys.stdin.read()
    del kept


if __name__ == "__main__":
    main()
