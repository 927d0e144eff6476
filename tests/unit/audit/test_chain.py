"""The audit log's lines: what was changed, removed, added or cut is found, and a restart goes on."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.waiting import wait_for

from yaffle.api.audit import Audit, Chain, verify
from yaffle.api.audit.chain import files_of
from yaffle.api.audit.verifying import roles_in
from yaffle.config import AuditSettings
from yaffle.engine.runtime.clock import SystemClock
from yaffle.engine.runtime.metrics import Metrics
from yaffle.errors import ConfigError

WAIT_S = 60


def opened(folder: Path, *, file_max: int = 1 << 20, files_max: int = 16) -> Chain:
    return Chain(folder, "serve", file_max=file_max, files_max=files_max)


def written(folder: Path, count: int, **more: int) -> None:
    chain = opened(folder, **more)
    for number in range(count):
        chain.append({"event": "request", "path": f"/v1/nodes/{number}"})
    chain.close()


def lines(folder: Path) -> list[bytes]:
    return [line for path in files_of(folder, "serve") for line in path.read_bytes().splitlines()]


def test_what_was_written_is_verified_over_restarts(tmp_path: Path) -> None:
    for _ in range(3):
        written(tmp_path, 5)
    found = verify(tmp_path, "serve")
    assert (found.first, found.last, found.problems) == (1, 15, [])
    for path in tmp_path.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_full_files_are_followed_and_the_oldest_go(tmp_path: Path) -> None:
    written(tmp_path, 100, file_max=4096, files_max=3)
    found = verify(tmp_path, "serve")
    assert found.files == 3
    assert 1 < found.first < found.last == 100
    assert found.problems == []
    assert all(path.stat().st_size <= 4096 for path in files_of(tmp_path, "serve"))
    written(tmp_path, 1, file_max=4096, files_max=3)
    assert verify(tmp_path, "serve").last == 101


def changed(text: list[bytes]) -> list[bytes]:
    return [line.replace(b"nodes/4", b"nodes/9") for line in text]


HARMS: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "changed": changed,
    "removed": lambda text: text[:4] + text[5:],
    "swapped": lambda text: [*text[:4], text[5], text[4], *text[6:]],
    "twice": lambda text: text[:5] + text[4:],
    "cut at the end": lambda text: text[:-1],
    "all gone": lambda _: [],
    "no JSON": lambda text: [*text[:4], b"junk", *text[5:]],
}


@pytest.mark.parametrize("harm", HARMS.values(), ids=HARMS)
def test_what_was_done_to_it_is_found(
    tmp_path: Path, harm: Callable[[list[bytes]], list[bytes]]
) -> None:
    written(tmp_path, 10)
    [path] = files_of(tmp_path, "serve")
    path.write_bytes(b"".join(line + b"\n" for line in harm(lines(tmp_path))))
    assert verify(tmp_path, "serve").problems


def test_a_file_that_is_missing_is_found(tmp_path: Path) -> None:
    written(tmp_path, 60, file_max=4096)
    files_of(tmp_path, "serve")[1].unlink()
    [problem] = verify(tmp_path, "serve").problems
    assert "does not follow" in problem
    for path in tmp_path.glob("serve*"):
        path.unlink()
    with pytest.raises(ConfigError, match="no file of an audit log"):
        roles_in(tmp_path)
    with pytest.raises(ConfigError, match="there is no audit log"):
        roles_in(tmp_path / "none")


def test_a_log_that_was_written_anew_lacks_what_was_kept_elsewhere(tmp_path: Path) -> None:
    written(tmp_path, 5)
    before = verify(tmp_path, "serve")
    written(tmp_path, 5)
    kept = before.last, before.head
    assert verify(tmp_path, "serve", kept).problems == []
    for path in tmp_path.iterdir():
        path.unlink()
    chain = opened(tmp_path)
    for _ in range(20):
        chain.append({"event": "forged"})
    chain.close()
    assert verify(tmp_path, "serve").problems == []
    [problem] = verify(tmp_path, "serve", kept).problems
    assert "line 5 with the hash that you expect is not there" in problem


def test_a_torn_line_goes_and_the_chain_goes_on(tmp_path: Path) -> None:
    written(tmp_path, 3)
    [path] = files_of(tmp_path, "serve")
    with path.open("ab") as file:
        file.write(b'{"seq":4,"event":"req')
    assert verify(tmp_path, "serve").problems == []
    chain = opened(tmp_path)
    assert chain.torn == 21
    chain.append({"event": "torn line removed"})
    chain.close()
    found = verify(tmp_path, "serve")
    assert (found.last, found.problems) == (4, [])


def test_two_processes_do_not_write_one_log(tmp_path: Path) -> None:
    first = opened(tmp_path)
    with pytest.raises(BlockingIOError):
        opened(tmp_path)
    first.close()
    opened(tmp_path).close()


def test_processes_that_share_a_folder_have_a_log_each(tmp_path: Path) -> None:
    both = [Audit(tmp_path, "engine", AuditSettings(), SystemClock()) for _ in range(2)]
    for audit in both:
        audit.start()
    wait_for(lambda: len(list(tmp_path.glob("*.log"))) == 2, within_s=WAIT_S)
    for audit in both:
        audit.close()
    assert roles_in(tmp_path) == ["engine", "engine-2"]
    assert [verify(tmp_path, role).last for role in roles_in(tmp_path)] == [1, 1]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k,mode=0700", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("only root may mount")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def events(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in lines(folder)]


def test_a_full_disk_keeps_nobody_waiting_and_its_losses_are_told(small_disk: Path) -> None:
    folder, filler = small_disk / "audit", small_disk / "filler"
    audit = Audit(folder, "serve", AuditSettings(), SystemClock())
    counter = Metrics().audit_lost
    audit.count_in(counter)
    audit.start()
    wait_for(lambda: folder.is_dir() and len(lines(folder)) == 1, within_s=WAIT_S)
    with filler.open("wb", buffering=0) as file:
        try:
            while file.write(b"\0" * 4096):
                pass
        except OSError:
            pass
    for number in range(200):
        audit.note({"event": "request", "path": "x" * 400, "number": number})
    wait_for(lambda: audit.lost > 0, within_s=WAIT_S)
    filler.unlink()
    audit.note({"event": "after"})
    # The line that the full disk cut off is there until the next one is written.
    wait_for(lambda: b'"event":"after"' in lines(folder)[-1], within_s=WAIT_S)
    audit.close()
    told = [one["count"] for one in events(folder) if one["event"] == "lost"]
    numbers = [one for one in events(folder) if one["event"] == "request"]
    assert len(numbers) + sum(map(int, map(str, told))) == 200
    # What is counted for whoever watches is what the log itself tells.
    (sample, *_) = next(iter(counter.collect())).samples
    assert (sample.name, sample.value) == ("yaffle_audit_lost_total", 200 - len(numbers))
    assert verify(folder, "serve").problems == []


def test_a_flood_of_refusals_is_counted_not_listed(tmp_path: Path) -> None:
    audit = Audit(tmp_path, "serve", AuditSettings(), SystemClock())
    audit.start()
    scope = {"method": "GET", "path": "/v1/nodes", "client": ("192.0.2.7", 5)}
    for _ in range(2000):
        audit.visited(scope, 401)
    audit.close()
    audit = Audit(tmp_path, "serve", AuditSettings(), SystemClock())
    listed = [one for one in events(tmp_path) if one["event"] == "request"]
    counted = [one["count"] for one in events(tmp_path) if one["event"] == "refusals not listed"]
    assert len(listed) + sum(map(int, map(str, counted))) == 2000
    assert len(listed) < 1000
