"""A private, real Pacemaker cluster with remote hosts, for the tests that pull plugs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from lab.pacemaker.cluster import PacemakerLab, missing


@contextmanager
def pacemaker(
    folder: Path, *, hosts: int = 3, members: int = 1, action: str = "off"
) -> Iterator[PacemakerLab]:
    """Have a cluster that checks its hosts every second; what is fenced stays off by default."""
    if absent := missing():
        pytest.skip(f"no {', '.join(absent)} (packages pacemaker, pacemaker-cli-utils, corosync)")
    lab = PacemakerLab(folder / "pacemaker")
    try:
        lab.up(hosts=hosts, members=members, action=action, monitor_s=1)
        yield lab
    finally:
        lab.down()
