"""Bad days of the database: locked by somebody else for longer than a lease, and a full disk."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.chaos.conftest import MakeLab
from tests.chaos.lab import Lab, close, lab, long, now_us, policy

LEASE_S = 1.0


@contextlib.contextmanager
def locked(here: Lab) -> Iterator[None]:
    """Hold SQLite's write lock, as a backup tool would."""
    conn = sqlite3.connect(here.state / "yaffle.db", timeout=60, isolation_level=None)
    conn.execute("begin immediate")
    try:
        yield
    finally:
        conn.execute("rollback")
        conn.close()


def test_locked_for_longer_than_a_lease_nothing_is_done_and_everything_afterwards(
    make_lab: MakeLab,
) -> None:
    # By its process alone: a node that is merely held up must not be a second failure.
    here = make_lab(document=policy(url=False), lease=LEASE_S)
    with locked(here):
        here.signal("c-1", signal.SIGKILL)
        time.sleep(LEASE_S * 3.5)
        assert here.rows("select * from actions where action = 'NODE_RECOVER'") == []
        freed_us = now_us()
    here.wait(lambda: len(here.lives("c-1")) == 2, 15, "the node runs again")
    here.wait(here.healthy, 10, "healthy")
    decided = here.rows("select at_us from decisions where kind = 'recover'")
    assert [d["at_us"] > freed_us for d in decided] == [True]
    assert here.alive
    close(here)


@long
def test_locked_in_the_middle_of_a_recovery_it_is_finished_once(make_lab: MakeLab) -> None:
    here = make_lab(document=policy(), lease=LEASE_S)
    for round_ in (1, 2):
        here.signal("c-1", signal.SIGKILL)
        here.wait(
            lambda: here.rows(
                "select 1 from actions where action='NODE_RECOVER' and end_us is null"
            ),
            10,
            "a recovery is under way",
        )
        with locked(here):
            time.sleep(LEASE_S * 0.9 * round_)
        here.wait(lambda r=round_: len(here.lives("c-1")) == r + 1, 15, "the node runs again")
        here.wait(here.healthy, 15, "healthy")
        here.call("acknowledge", incident_of(here), by="test")
    assert len(here.lives("c-1")) == 3
    close(here)


def incident_of(here: Lab) -> str:
    return str(here.rows("select id from incidents order by opened_us desc")[0]["id"])


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 12 MB; needs root."""
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=12m", "yaffle-chaos", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("mounting a small file system needs root")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


@long
@pytest.mark.root
def test_a_full_disk_stops_acting_and_loses_nothing(small_disk: Path, tmp_path: Path) -> None:
    with lab(small_disk, lease=LEASE_S) as here:
        here.diary = tmp_path / "diary"
        here.diary.mkdir()
        here.start()
        here.profile()
        here.call("create_policy", "hp", policy(), by="test")
        here.cluster("c", 2, policy_name="hp")
        here.wait(here.healthy, 20, "healthy")
        filler = small_disk / "filler"
        with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while file.write(b"\0" * 4096):
                pass
        here.signal("c-1", signal.SIGKILL)
        time.sleep(LEASE_S * 3)
        assert here.alive, here.log()[-3000:]
        assert len(here.lives("c-1")) == 1
        filler.unlink()
        here.wait(lambda: len(here.lives("c-1")) == 2, 20, "the node runs again")
        here.wait(here.healthy, 10, "healthy")
        assert here.rows("pragma integrity_check")[0][0] == "ok"
        close(here)
