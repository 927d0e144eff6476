"""Twenty of a hundred hosts cut off at once, on a real Pacemaker cluster: all fenced, all told.

Prints how many of them the cluster fenced by itself, how many it lost and our own fencers switched off,
and when the last was accepted. Judged by what the hosts' BMCs recorded. Needs root and Pacemaker.

    python bench/mass_cut.py [--hosts 100] [--cut 20] [--patience 60]
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
import tempfile
import threading
import time
from http.server import ThreadingHTTPServer
from pathlib import Path
from statistics import median
from typing import Any, Final

from _python import ROOT, described, system_python
from host_alert import SETTINGS, Controller

sys.path.insert(0, str(ROOT))
from lab.pacemaker.cluster import PacemakerLab
from tests.functional.cli.support import Server
from tests.waiting import wait_for

WITHIN_S: Final = 900.0
MORE: Final = """
[drivers.HOST.devices.rack]
agent = "{agent}"

[drivers.HOST.devices.rack.hosts]
{hosts}
"""


def settings(lab: PacemakerLab, port: int, patience_s: float) -> str:
    """Return the configuration: every host has a switch, and lost ones are fenced."""
    given = SETTINGS.format(poll=5, programs=lab.bin, port=port)
    allowed = f"[hosts]\nfence_lost = true\nunfenced_after = {patience_s:g}\n"
    rack = "\n".join(f'{host} = "{host}"' for host in lab.remotes)
    agent = lab.state / "sbin" / "fence_lab"
    return given.replace("[hosts]\n", allowed) + MORE.format(agent=agent, hosts=rack)


def watched(server: Server, count: int) -> bool:
    """Whether so many hosts are seen up."""
    return len(server.ok("host", "list", "--state", "up", "--json").json["hosts"]) == count


def alerts(server: Server) -> list[dict[str, Any]]:
    """Return all alerts."""
    found = server.ok("alert", "list", "--limit", "1000", "--json").json["alerts"]
    return list(found)


def run(lab: PacemakerLab, server: Server, cut: list[str]) -> tuple[list[str], list[float]]:
    """Cut hosts off; return what is wrong, and the seconds until each was accepted."""
    told = Controller.told
    began_s = time.time()
    for host in cut:
        lab.power("cut", host)
    wait_for(lambda: {host for host, _ in told} >= set(cut), within_s=WITHIN_S, every_s=1.0)
    # Whatever is told twice is told soon.
    time.sleep(30)
    offs: dict[str, float] = {}
    for entry in lab.recorded():
        if entry["verb"] == "off" and float(str(entry["at"])) >= began_s:
            offs.setdefault(str(entry["host"]), float(str(entry["at"])))
    wrong = [f"{host} was switched off and never cut" for host in offs.keys() - set(cut)]
    wrong += [f"{host} was told and never cut" for host, _ in told if host not in cut]
    wrong += [f"{host} was told twice" for host in cut if sum(h == host for h, _ in told) != 1]
    for (host, _), at_s in told.items():
        if at_s < offs.get(host, at_s + 1):
            wrong.append(f"{host} was told before it was off")
    by_cluster = [a for a in alerts(server) if a["failure"]["proof"].startswith("Pacemaker")]
    print(
        f"cut {len(cut)} of {len(lab.remotes)}: fenced by the cluster {len(by_cluster)},"
        f" by us {len(cut) - len(by_cluster)}"
    )
    return wrong, sorted(at_s - began_s for at_s in told.values())


def main() -> int:
    """Print what became of them; 1 where one was not told, or told and not off."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=100)
    parser.add_argument("--cut", type=int, default=20)
    parser.add_argument(
        "--patience", type=float, default=60.0, help="seconds before a lost host is ours to fence"
    )
    options = parser.parse_args()
    print(described())
    Controller.told = {}
    with tempfile.TemporaryDirectory() as folder:
        lab = PacemakerLab(Path(folder) / "lab")
        web = ThreadingHTTPServer(("127.0.0.1", 0), Controller)
        threading.Thread(target=web.serve_forever, daemon=True).start()
        config = Path(folder) / "yaffle.toml"
        server = Server(Path(folder) / "state", flags=("--config", str(config)))
        try:
            lab.up(hosts=options.hosts)
            config.write_text(settings(lab, web.server_address[1], options.patience))
            server.start()
            wait_for(lambda: watched(server, options.hosts), within_s=120)
            wrong, times = run(lab, server, lab.remotes[: options.cut])
        finally:
            with contextlib.redirect_stdout(io.StringIO()):
                server.stop()
            lab.down()
            web.shutdown()
    print(f"cut → accepted: median {median(times):.0f} s, the last after {times[-1]:.0f} s")
    print("\n".join(wrong) or "all told once, and none before it was off")
    return int(bool(wrong))


if __name__ == "__main__":
    system_python()
    sys.exit(main())
