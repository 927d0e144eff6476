"""From power loss to the alert that a recovery controller accepts, on a real Pacemaker cluster.

Prints how long the cluster took until the host was fenced, how long Yaffle took from then until the
controller had accepted, and how long the host monitor of masakari-monitors took, with its defaults, on
the same cluster and for the same failures. Needs root and Debian's Pacemaker; everything is started here.

    python bench/host_alert.py [--rounds 8] [--poll 5]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median
from typing import Any, Final

from _python import ROOT, described, system_python

sys.path.insert(0, str(ROOT))
from lab.openstack import packages
from lab.openstack.plan import HERE, HOME
from lab.pacemaker.cluster import PacemakerLab
from tests.functional.cli.support import Server
from tests.waiting import wait_for

HOSTS: Final = 3
SLACK_S: Final = 2.0
LONGEST_S: Final = 300.0
"""For so long masakari-monitors is waited for."""
MONITORS: Final = HOME / "masakari-monitors"
LOCK: Final = HERE / "requirements-masakari-monitors.lock"
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
# All else is its default; the lab has no IPMI, and the members of its cluster are none of the hosts.
THEIRS: Final = """\
[api]
auth_type = admin_token
endpoint = http://127.0.0.1:{port}/v1
token = any
[host]
restrict_to_remotes = true
pacemaker_node_type = remote
disable_ipmi_check = true
[masakarimonitors_privileged]
helper_command = {helper} --config-file {config}
"""


class Controller(BaseHTTPRequestHandler):
    """Accepts what it is told, and notes when; it speaks enough of Masakari's API to be notified."""

    told: dict[tuple[str, int], float]
    notified: list[tuple[str, str, float]]
    """Host, event, and when masakari-monitors told of it."""

    def do_GET(self) -> None:
        """Show the versions of Masakari's API."""
        link = {"rel": "self", "href": f"http://{self.headers['Host']}/v1/"}
        version = {"id": "v1.0", "status": "CURRENT", "min_version": "1.0", "version": "1.3"}
        self._answer(200, {"versions": [{**version, "links": [link]}]})

    def do_POST(self) -> None:
        """Note a failure by host and time."""
        said = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if (told := said.get("notification")) is not None:
            self.notified.append((told["hostname"], told["payload"]["event"], time.time()))
        else:
            failure = said["payload"]
            self.told.setdefault((failure["hostname"], failure["failure_time"]), time.time())
        self._answer(202, said)

    def _answer(self, status: int, document: object) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as it is called there
        """Say nothing."""


@contextmanager
def masakari_monitors(folder: Path, lab: PacemakerLab, port: int) -> Iterator[None]:
    """Run its host monitor on the lab's first member."""
    packages.install(MONITORS, LOCK)
    config = folder / "monitors.conf"
    helper = MONITORS / "bin" / "privsep-helper"
    config.write_text(THEIRS.format(port=port, helper=helper, config=config))
    env = {**os.environ, "PATH": f"{lab.bin}:{os.environ['PATH']}"}
    command = [str(MONITORS / "bin" / "masakari-hostmonitor"), "--config-file", str(config)]
    log = folder / "monitors.log"
    with (
        log.open("w") as out,
        subprocess.Popen(command, stdout=out, stderr=out, env=env) as monitor,
    ):
        try:

            def knows_all() -> bool:
                return log.read_text().count("as a new member") == HOSTS

            # It looks once a minute.
            wait_for(knows_all, within_s=150, why=log.read_text)
            yield
        finally:
            monitor.terminate()


def one_round(lab: PacemakerLab, host: str) -> tuple[float, float, float]:
    """Pull a plug; return seconds until the host was fenced, and until each had told of it."""
    told, notified = Controller.told, Controller.notified
    offs, before = len(_offs(lab, host)), len(told)
    lost_s = time.time()

    def theirs(event: str) -> list[float]:
        return [
            at_s for name, what, at_s in notified if (name, what) == (host, event) and at_s > lost_s
        ]

    lab.power("off", host)
    wait_for(lambda: len(told) > before, within_s=120)
    # The first is the plug, the next is the cluster's.
    fenced_s = _offs(lab, host)[offs + 1]
    # A host that is back before it looks again has never failed to it; nor has one to which the cluster
    # is about to connect, whenever it looks.
    with contextlib.suppress(AssertionError):
        wait_for(lambda: theirs("STOPPED"), within_s=LONGEST_S)
    stopped_s = next(iter(theirs("STOPPED")), math.inf)
    lab.power("on", host)
    wait_for(lambda: lab.online() >= set(lab.remotes), within_s=120)
    if stopped_s < math.inf:
        wait_for(lambda: theirs("STARTED"), within_s=LONGEST_S)
    return fenced_s - lost_s, max(told.values()) - lost_s, stopped_s - lost_s


def _offs(lab: PacemakerLab, host: str) -> list[float]:
    return [
        float(str(entry["at"]))
        for entry in lab.recorded()
        if (entry["host"], entry["verb"]) == (host, "off")
    ]


def _said(what: str, seconds: Sequence[float]) -> str:
    """Return a row: median and the longest, which is p99 of so few."""
    return f"{what}: p50 {median(seconds):.1f} s, p99 {max(seconds):.1f} s"


def main() -> int:
    """Print all parts; 1 where ours took longer after the fencing than a poll and two seconds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument(
        "--poll", type=float, default=5.0, help="pace at which the monitor is asked"
    )
    options = parser.parse_args()
    print(described())
    Controller.told, Controller.notified = {}, []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lab = PacemakerLab(folder / "lab")
        web = ThreadingHTTPServer(("127.0.0.1", 0), Controller)
        threading.Thread(target=web.serve_forever, daemon=True).start()
        port = web.server_address[1]
        config = folder / "yaffle.toml"
        config.write_text(SETTINGS.format(poll=options.poll, programs=lab.bin, port=port))
        server = Server(folder / "state", flags=("--config", str(config)))
        try:
            # Where a cluster reboots what it fences the host is back, and theirs has seen no failure.
            lab.up(hosts=HOSTS, action="off")
            server.start()
            wait_for(lambda: server.ok("host", "list", "--state", "up").out.count("\n") > HOSTS)
            with masakari_monitors(folder, lab, port):
                rounds = []
                for number in range(options.rounds):
                    rounds.append(one_round(lab, lab.remotes[number % HOSTS]))
                    print("fenced, told by us, told by masakari-monitors after (s):", rounds[-1])
        finally:
            server.stop()
            lab.down()
            web.shutdown()
    fenced, ours, theirs = zip(*rounds, strict=True)
    after = [told_s - fenced_s for fenced_s, told_s, _ in rounds]
    print(_said("power loss → fenced", fenced))
    print(_said("power loss → accepted, Yaffle", ours))
    print(_said("power loss → accepted, masakari-monitors", theirs))
    print(_said("fenced → accepted, Yaffle", after))
    print(f"ours is {median(ours) / median(theirs):.2f} x theirs")
    bound_s = options.poll + SLACK_S
    print(
        f"target after the fencing: at most {bound_s:g} s: {'met' if max(after) <= bound_s else 'missed'}"
    )
    return int(max(after) > bound_s)


if __name__ == "__main__":
    system_python()
    sys.exit(main())
