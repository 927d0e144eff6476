"""Network namespaces of one engine each: its packets are dropped by the kernel, as a cut cable does it.

Only root may make them, and not in every container; `missing()` says why not. Inside, the machine
that runs the test is `gateway`: database and receiver are there, and the nodes at the first one's.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_NUMBERS = itertools.count()
TABLE = "chaos"


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@functools.cache
def missing() -> str:
    """Return why there can be no namespaces here; empty where there can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for program in ("ip", "nft", "nsenter"):
        if shutil.which(program) is None:
            return f"no {program} is installed"
    done = _run("unshare", "-n", "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_nonlocal_bind")
    return "" if done.returncode == 0 else f"namespaces are refused: {done.stderr.strip()}"


@dataclass(frozen=True, slots=True)
class Space:
    """One namespace, joined to ours by a pair of virtual cards."""

    name: str
    gateway: str
    inside: str

    def enter(self, command: Sequence[str]) -> list[str]:
        """Return `command` so that it runs in there; the pid stays the same."""
        return ["ip", "netns", "exec", self.name, *command]

    def unplug(self) -> None:
        """Take our end of the cable away: nothing comes or goes, and nobody is told."""
        self._link("down")

    def plug(self) -> None:
        """Put it back."""
        self._link("up")

    def _link(self, state: str) -> None:
        done = _run("ip", "link", "set", _ours(self.name), state)
        assert done.returncode == 0, done.stderr

    def drop(self, ports: range) -> None:
        """Drop whatever goes out to those ports, wherever to."""
        self._nft("add", "table", "inet", TABLE)
        chain = "{ type filter hook output priority 0; }"
        self._nft("add", "chain", "inet", TABLE, "out", chain)
        span = f"{ports.start}-{ports.stop - 1}"
        self._nft("add", "rule", "inet", TABLE, "out", "tcp", "dport", span, "drop")

    def restore(self) -> None:
        """Let everything through again."""
        _run("ip", "netns", "exec", self.name, "nft", "delete", "table", "inet", TABLE)

    def _nft(self, *words: str) -> None:
        done = _run("ip", "netns", "exec", self.name, "nft", *words)
        assert done.returncode == 0, done.stderr


def _ours(name: str) -> str:
    return f"{name}h"[-15:]


@contextlib.contextmanager
def space() -> Iterator[Space]:
    """Yield a namespace that can reach us, and take it away again."""
    number = next(_NUMBERS)
    name = f"yc{os.getpid()}x{number}"
    # A /30 of 10.64.0.0/10 by pid and number: several test processes run side by side.
    block = (os.getpid() * 37 + number) % (1 << 20)
    base = (10 << 24) + (64 << 16) + (block << 2)
    gateway, inside = (
        ".".join(str((base + host) >> shift & 255) for shift in (24, 16, 8, 0)) for host in (1, 2)
    )
    ours, theirs = _ours(name), f"{name}n"[-15:]
    steps = [
        ["ip", "netns", "add", name],
        ["ip", "link", "add", ours, "type", "veth", "peer", "name", theirs, "netns", name],
        ["ip", "addr", "add", f"{gateway}/30", "dev", ours],
        ["ip", "link", "set", ours, "up"],
        ["ip", "-n", name, "addr", "add", f"{inside}/30", "dev", theirs],
        ["ip", "-n", name, "link", "set", theirs, "up"],
        ["ip", "-n", name, "link", "set", "lo", "up"],
        ["ip", "-n", name, "route", "add", "default", "via", gateway],
        # Whether a port is free is tried by binding it, and the nodes' address is not in there.
        ["ip", "netns", "exec", name, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_nonlocal_bind"],
    ]
    try:
        for step in steps:
            done = _run(*step)
            assert done.returncode == 0, f"{step}: {done.stderr}"
        yield Space(name, gateway, inside)
    finally:
        _run("ip", "netns", "delete", name)
        _run("ip", "link", "delete", ours)
