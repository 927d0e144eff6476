#!/usr/bin/python3 -SE
"""A fence agent that switches nothing: it marks a host that was just fenced as failed (seed 3).

It stands last in a level of Pacemaker's fencing topology, after devices that switch the host off. Its
mark is a permanent attribute of the node, on the disks of all members: what is set with attrd alone is
gone when the host comes back. Install this one file as /usr/sbin/fence_yaffle; it needs the standard
library alone. Options come on stdin, as fence agents have them.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from xml.etree import ElementTree as ET

ATTRIBUTE = "yaffle-host-failure"
"""The mark: when the host was fenced, in seconds since the epoch; several, if it was fenced again."""
SEVERAL = ","
KEPT_MAX = 8
CALL_S = 10
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}
NOT_THERE = 105
"""The exit code of cibadmin for what the configuration has not got."""

METADATA = """<?xml version="1.0" ?>
<resource-agent name="fence_yaffle" shortdesc="Marks a fenced host as failed, for Yaffle">
<longdesc>Marks a host that the devices before it have switched off as failed, durably, until its failure
has been handed to a recovery controller. It switches nothing itself: put it last in a fencing level,
after devices that do.</longdesc>
<vendor-url></vendor-url>
<parameters>
<parameter name="action" unique="0" required="1"><getopt mixed="-o, --action=[action]"/>
<content type="string" default="reboot"/><shortdesc lang="en">What to do.</shortdesc></parameter>
<parameter name="plug" unique="0" required="0"><getopt mixed="-n, --plug=[name]"/><content type="string"/>
<shortdesc lang="en">The host, by its name in the cluster.</shortdesc></parameter>
<parameter name="attrd" unique="0" required="0"><getopt mixed="--attrd=[name]"/><content type="string"/>
<shortdesc lang="en">A transient attribute that is set to yes too, for other readers.</shortdesc>
</parameter>
</parameters>
<actions><action name="on" automatic="0"/><action name="off"/><action name="reboot"/>
<action name="status"/><action name="monitor"/><action name="metadata"/></actions>
</resource-agent>"""


class Failed(Exception):
    """Says what could not be done."""


def run(*words: str, fine: tuple[int, ...] = (0,)) -> str:
    """Return what a command prints; raise Failed."""
    try:
        done = subprocess.run(
            words,
            capture_output=True,
            text=True,
            timeout=CALL_S,
            env=ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failed(f"{words[0]}: {error}") from error
    if done.returncode not in fine:
        said = " ".join((done.stderr or done.stdout).split())
        raise Failed(f"{words[0]} ended with {done.returncode}: {said}")
    return done.stdout if done.returncode == 0 else ""


def misplaced(configuration: str, host: str = "") -> Iterator[str]:
    """Yield what is wrong with our places in the fencing topology: alone, a mark would prove nothing.

    `host`: whether the levels of this very host have us. A host without a level of its own is fenced by
    any device that says it can, and that may be us alone.
    """
    root = ET.fromstring(configuration)  # noqa: S314 - the cluster's own word
    # The namespace of agents is flat: our devices are those of our type.
    ours = {
        str(device.get("id"))
        for device in root.iter("primitive")
        if (device.get("class"), device.get("type")) == ("stonith", "fence_yaffle")
    }
    found = False
    for level in root.iter("fencing-level"):
        if host and not is_for(level, host, root):
            continue
        devices = [name.strip() for name in str(level.get("devices")).split(",")]
        for place, name in enumerate(devices):
            if name in ours:
                found = True
                if place == 0 or place != len(devices) - 1:
                    where = f"level {level.get('id')} of the fencing topology"
                    yield f"{name} is not the last device of {where}, after one that switches off"
    if not found:
        whose = f" for {host}" if host else ""
        yield f"no level of the fencing topology{whose} names it, after a device that switches off"


def is_for(level: ET.Element, host: str, root: ET.Element) -> bool:
    """Whether a fencing level is one of a host: by name, pattern or permanent node attribute."""
    pattern, attribute = level.get("target-pattern"), level.get("target-attribute")
    if pattern is not None:
        return re.search(pattern, host) is not None
    if attribute is not None:
        wanted = (attribute, level.get("target-value"))
        return any(
            (pair.get("name"), pair.get("value")) == wanted
            for node in root.iterfind("nodes/node")
            if node.get("uname") == host
            for pair in node.iterfind("instance_attributes/nvpair")
        )
    return level.get("target") == host


def check(host: str = "") -> None:
    """Raise Failed where the topology would let us stand for a device that switches."""
    wrong = list(misplaced(run("cibadmin", "--query", "--scope", "configuration"), host))
    if wrong:
        raise Failed("; ".join(wrong))


def mark(host: str, now_s: int, attrd: str) -> None:
    """Write the mark; earlier ones that nobody has taken over stay beside it."""
    check(host)
    node = ("--node", host, "--name", ATTRIBUTE, "--lifetime", "forever")
    before = run("crm_attribute", *node, "--query", "--quiet", fine=(0, NOT_THERE)).strip()
    kept = [word for word in before.split(SEVERAL) if word.isdecimal()][1 - KEPT_MAX :]
    run("crm_attribute", *node, "--update", SEVERAL.join([*kept, str(now_s)]))
    if attrd:
        run("attrd_updater", "--node", host, "--name", attrd, "--update", "yes")


def act(given: Mapping[str, str]) -> None:
    """Do what Pacemaker asks for; raise Failed."""
    action = given.get("action", "reboot")
    host = given.get("nodename") or given.get("plug") or given.get("port") or ""
    match action:
        case "metadata":
            sys.stdout.write(METADATA + "\n")
        case "off" | "reboot":
            if not host:
                raise Failed("no host is named (nodename, plug)")
            now_s = int(time.time())  # noqa: TID251 - a program of its own
            mark(host, now_s, given.get("attrd", ""))
        case "monitor":
            check()
        case "on" | "status" | "validate-all":
            # Never waits for whoever takes the failure over: that would hold up the fencing of others.
            pass
        case _:
            raise Failed(f"unknown action {action!r}")


def main() -> int:
    """Read the options as fence agents do, and return the exit code."""
    given = dict(line.strip().partition("=")[::2] for line in sys.stdin if "=" in line)
    for flag, word in zip(sys.argv[1:], sys.argv[2:], strict=False):
        if flag in {"-o", "--action"}:
            given["action"] = word
    try:
        act(given)
    except (Failed, ET.ParseError, re.error) as error:
        sys.stderr.write(f"fence_yaffle: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
