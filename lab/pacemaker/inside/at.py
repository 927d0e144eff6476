"""Runs a command on a host of the lab: `at.py STATE HOST COMMAND …`; the standard library alone.

Pacemaker's commands are asked every few seconds: this costs a tenth of what the lab's command line does.
"""

import json
import os
import socket
import sys

ENTER = ("-m", "-n", "-u", "-p", "--wd=/", "--")


def main() -> None:
    """Become the command; exit with 1 where the host is off."""
    state, host, *words = sys.argv[1:]
    with socket.socket(socket.AF_UNIX) as power:
        power.settimeout(30)
        power.connect(f"{state}/power.sock")
        power.sendall(json.dumps({"verb": "pid", "host": host}).encode() + b"\n")
        first = power.makefile().readline().strip()
    if not first.isdecimal():
        sys.exit(f"{host}: {first or 'no answer'}")
    # Whoever has the lab's commands in their path means Pacemaker's own in there.
    paths = os.environ.get("PATH", os.defpath).split(os.pathsep)
    os.environ["PATH"] = os.pathsep.join(path for path in paths if path != f"{state}/bin")
    os.execvp("nsenter", ["nsenter", "-t", first, *ENTER, *words])


if __name__ == "__main__":
    try:
        main()
    except OSError as error:
        sys.exit(f"the lab's power controller does not answer: {error}")
