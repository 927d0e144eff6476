"""A real HAProxy before real servers of ours, for tests of what it tells them."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.servers.process import free_port
from tests.waiting import wait_for

HAVE = shutil.which("haproxy") is not None
PROXY = "127.0.0.2"
"""Where it comes from, so that it can be told from those who come directly."""


@contextmanager
def balanced(
    folder: Path, servers: Sequence[str], *, mode: str = "tcp", options: str = "", rule: str = ""
) -> Iterator[str]:
    """Run it before the servers, each request (or connection) to the next; yield its address.

    `options` are of each server, `rule` is one of the listener's.
    """
    address = f"127.0.0.1:{free_port()}"
    lines = "".join(
        f"    server s{number} {server} source {PROXY} {options}\n"
        for number, server in enumerate(servers)
    )
    config = folder / "haproxy.cfg"
    config.write_text(
        f"defaults\n    mode {mode}\n    timeout connect 20s\n    timeout client 60s\n"
        f"    timeout server 60s\nlisten all\n    bind {address}\n    balance roundrobin\n"
        f"    {rule}\n{lines}"
    )
    process = subprocess.Popen(["haproxy", "-db", "-f", str(config)])
    try:
        wait_for(lambda: _answers(address), why="haproxy")
        yield address
    finally:
        process.kill()
        process.wait(60)


def _answers(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except OSError:
        return False
    return True
