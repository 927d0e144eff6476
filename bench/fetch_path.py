"""URL checks: CPU per check of the prober and of a fetch in the style of Senlin's, in one run.

    python bench/fetch_path.py [--rate 500] [--seconds 6] [--rounds 3] [--eventlet]

Senlin's health manager fetched each URL with `requests.get`: a new session and connection for each,
the body read in small pieces up to a limit, the expected text searched in it. The other side here
does the same in threads (or eventlet's green ones) that keep the pace; `requests` comes from the
package index into a throw-away virtual environment of the same Python. Both sides search the body.
Target: at most an eighth of it.
"""

from __future__ import annotations

import argparse
import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from _measure import Cost, Sample, median_us, shown, verdict
from _prober import WARM_UP_S, ask
from _python import described, system_python
from _responder import Responder

TARGET = 8.0
FETCH = """
import sys
if sys.argv[3] == "eventlet":
    import eventlet
    eventlet.monkey_patch()
import re, threading, time
import requests

url, rate = sys.argv[1], float(sys.argv[2])
THREADS, BODY_MAX = 20, 1 << 20

def fetch():
    answer = requests.get(url, timeout=1, verify=True, stream=True)
    answer.raise_for_status()
    body = b""
    for piece in answer.iter_content(chunk_size=1000):
        body += piece
        if len(body) > BODY_MAX:
            raise ValueError("too large")
    return re.search("[0-9]+", body.decode())

def keep_asking(first):
    due = time.monotonic() + first
    while True:
        time.sleep(max(0.0, due - time.monotonic()))
        due = max(due + THREADS / rate, time.monotonic() - 1)
        assert fetch()

threads = [threading.Thread(target=keep_asking, args=(n / rate,)) for n in range(THREADS)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""


@contextlib.contextmanager
def environment(packages: list[str]) -> Iterator[Path]:
    """A throw-away interpreter that has those packages and nothing of ours."""
    with tempfile.TemporaryDirectory(prefix="fetch-path-") as folder:
        base = Path(getattr(sys, "_base_executable", sys.executable))
        subprocess.check_call([base, "-I", "-m", "venv", folder])
        python = Path(folder, "bin", "python")
        subprocess.check_call([python, "-I", "-m", "pip", "install", "-q", *packages])
        yield python


@contextlib.contextmanager
def fetching(python: Path, responder: Responder, rate: int, way: str) -> Iterator[int]:
    """A process that fetches at that rate; its process id."""
    child = subprocess.Popen([python, "-I", "-c", FETCH, responder.url, str(rate), way])
    try:
        yield child.pid
    finally:
        child.kill()
        child.wait()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", type=int, default=500, help="checks a second")
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--eventlet", action="store_true", help="green threads, as Senlin had")
    args = parser.parse_args()
    system_python()
    print(described())
    way = "eventlet" if args.eventlet else "threads"
    packages = ["requests", "eventlet"] if args.eventlet else ["requests"]
    ours: list[Cost] = []
    theirs: list[Cost] = []
    with environment(packages) as python, Responder() as responder:
        named = "import requests, urllib3; print(requests.__version__, urllib3.__version__)"
        versions = subprocess.check_output([python, "-I", "-c", named], text=True).split()
        print("requests {} (urllib3 {}) in {}".format(*versions, way))
        print(f"{args.rate} checks/s, new connections, a pattern searched in the body")
        for _ in range(args.rounds):
            ours.append(
                ask(
                    responder,
                    nodes=args.rate,
                    interval_s=1.0,
                    seconds=args.seconds,
                    pattern="[0-9]+",
                )
            )
            print(shown("yaffle", ours[-1]), flush=True)
            with fetching(python, responder, args.rate, way) as pid:
                time.sleep(WARM_UP_S)
                sample = Sample(pid, responder.answers)
                time.sleep(args.seconds)
                theirs.append(sample.end())
            print(shown("requests", theirs[-1]), flush=True)
    ratio = median_us(theirs) / median_us(ours)
    print(
        f"median: yaffle {median_us(ours):.1f} µs, requests {median_us(theirs):.1f} µs: "
        f"{ratio:.1f} times less"
    )
    found = verdict(ours, theirs, met=ratio >= TARGET)
    print(f"target >= {TARGET:g} times less: {found}")
    sys.exit(0 if found == "met" else 1)


if __name__ == "__main__":
    main()
