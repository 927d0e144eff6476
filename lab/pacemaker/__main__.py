"""The lab's command line: `python -m lab.pacemaker up`, and what comes after it."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from lab.openstack.errors import LabError
from lab.openstack.progress import Progress
from lab.pacemaker import cluster, power
from lab.pacemaker.cluster import PacemakerLab

HARM = ("on", "off", "panic", "freeze", "thaw", "cut", "mend")


def up(options: argparse.Namespace) -> None:
    """Bring the lab up and say how it is used."""
    lab = PacemakerLab(options.state)
    lab.up(
        hosts=options.hosts,
        members=options.members,
        action=options.action,
        monitor_s=options.monitor,
        stays=True,
        progress=Progress(),
    )
    named = options.state != default_state()
    again, state = (f" --state {options.state}", f" STATE={options.state}") if named else ("", "")
    print(
        f"\nThe cluster is up: members {' '.join(lab.members)}, hosts {' '.join(lab.remotes)}.\n"
        f"Its commands:\n  {lab.bin}/crm_mon -1\n"
        f"Pull a plug:\n  .venv/bin/python -m lab.pacemaker{again} off h001\n"
        f"End it:\n  make lab-pacemaker-down{state}"
    )


def default_state() -> Path:
    """Return where the lab of this account is when none is named."""
    return Path(tempfile.gettempdir()) / "yaffle-pacemaker"


def main() -> int:
    """Do what the arguments say; 2 where that is not possible."""
    parser = argparse.ArgumentParser(prog="python -m lab.pacemaker", description=__doc__)
    parser.add_argument("--state", type=Path, default=default_state(), help="the lab's folder")
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("prepare", help="fetch what the lab needs")
    starting = verbs.add_parser("up", help="bring a cluster up")
    starting.add_argument("--hosts", type=int, default=3)
    starting.add_argument("--members", type=int, default=1)
    starting.add_argument("--action", choices=("reboot", "off"), default="reboot")
    starting.add_argument(
        "--monitor", type=int, default=5, help="seconds between two checks of a host"
    )
    verbs.add_parser("down", help="stop it")
    for name in HARM:
        verbs.add_parser(name, help=f"{name} a host").add_argument("host")
    bmc = verbs.add_parser("bmc", help="break a host's BMC, or mend it")
    bmc.add_argument("host")
    bmc.add_argument("fault", choices=power.FAULTS)
    running = verbs.add_parser("on-host", aliases=["at"], help="run a command on a host")
    running.add_argument("host")
    running.add_argument("words", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    lab = PacemakerLab(options.state)
    try:
        match options.verb:
            case "prepare":
                cluster.prepare()
            case "up":
                up(options)
            case "down":
                lab.down()
            case "bmc":
                lab.power("bmc", options.host, options.fault)
            case "on-host" | "at":
                command = lab.inside(options.host, options.words)
                os.execvp(command[0], command)
            case verb:
                lab.power(verb, options.host)
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
