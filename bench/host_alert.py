"""From power loss to the alert that a recovery controller accepts, on a real Pacemaker cluster.

Prints how long the cluster took until the host was fenced, beside how long Yaffle took from then until
the controller had accepted. Needs root and Debian's Pacemaker; everything is started here.

    python bench/host_alert.py [--rounds 10] [--poll 5]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median
from typing import Any, Final

from _python import ROOT, described, system_python

sys.path.insert(0, str(ROOT))
from lab.pacemaker.cluster import PacemakerLab
from tests.functional.cli.support import Server
from tests.waiting import wait_for

HOSTS: Final = 3
SLACK_S: Final = 2.0
SETTINGS: Final = """
[hosts]
on_shared_storage = true
poll = {poll}

[host_monitors.cluster]
type = "pacemaker"
programs = "{programs}"

[alerts.recovery]
type = "http_json"
url = "http://127.0.0.1:{port}/"
"""


class Controller(BaseHTTPRequestHandler):
    """Accepts what it is told, and notes when."""

    told: dict[tuple[str, int], float]

    def do_POST(self) -> None:
        """Note a failure by host and time."""
        payload = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["payload"]
        self.told.setdefault((payload["hostname"], payload["failure_time"]), time.time())
        self.send_response(202)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as it is called there
        """Say nothing."""


def one_round(
    lab: PacemakerLab, told: dict[tuple[str, int], float], host: str
) -> tuple[float, float]:
    """Pull a plug; return seconds until the host was fenced, and from then until that was accepted."""
    offs, before = len(_offs(lab, host)), len(told)
    lost_s = time.time()
    lab.power("off", host)
    wait_for(lambda: len(told) > before, within_s=120)
    # The first is the plug, the next is the cluster's.
    fenced_s = _offs(lab, host)[offs + 1]
    lab.power("on", host)
    wait_for(lambda: lab.online() >= set(lab.remotes), within_s=120)
    return fenced_s - lost_s, max(told.values()) - fenced_s


def _offs(lab: PacemakerLab, host: str) -> list[float]:
    return [
        float(str(entry["at"]))
        for entry in lab.recorded()
        if (entry["host"], entry["verb"]) == (host, "off")
    ]


def main() -> int:
    """Print both parts; 1 where ours took longer than a poll and two seconds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument(
        "--poll", type=float, default=5.0, help="pace at which the monitor is asked"
    )
    options = parser.parse_args()
    print(described())
    Controller.told = {}
    with tempfile.TemporaryDirectory() as folder:
        lab = PacemakerLab(Path(folder) / "lab")
        web = ThreadingHTTPServer(("127.0.0.1", 0), Controller)
        threading.Thread(target=web.serve_forever, daemon=True).start()
        config = Path(folder) / "yaffle.toml"
        config.write_text(
            SETTINGS.format(poll=options.poll, programs=lab.bin, port=web.server_address[1])
        )
        server = Server(Path(folder) / "state", flags=("--config", str(config)))
        try:
            lab.up(hosts=HOSTS)
            server.start()
            wait_for(lambda: server.ok("host", "list", "--state", "up").out.count("\n") > HOSTS)
            rounds = [
                one_round(lab, Controller.told, lab.remotes[number % HOSTS])
                for number in range(options.rounds)
            ]
        finally:
            server.stop()
            lab.down()
            web.shutdown()
    fenced, accepted = (sorted(part) for part in zip(*rounds, strict=True))
    for what, part in (("power loss → fenced", fenced), ("fenced → accepted", accepted)):
        print(f"{what}: median {median(part):.1f} s, longest of {len(part)} {part[-1]:.1f} s")
    print(f"ours is {median(accepted) / median(fenced):.2f} x the cluster's")
    bound_s = options.poll + SLACK_S
    print(f"target: at most {bound_s:g} s: {'met' if accepted[-1] <= bound_s else 'missed'}")
    return int(accepted[-1] > bound_s)


if __name__ == "__main__":
    system_python()
    sys.exit(main())
