"""The engine is killed at every boundary of a RECREATE, by enumeration; the next one finishes it.

A boundary is a commit that moved the recovery's journal, or a driver's act, before and after it.
"""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.chaos.lab import Lab, close, lab, policy

LABS = 4
"""Mostly waiting, so several at once; each takes every fourth boundary."""
POINTS_MAX = 60
RECREATE = policy(
    url=False,
    fall=1,
    grace=2,
    actions="[{name: RECREATE, timeout: 15}]",
    backoff=1,
    max_backoff=1,
    stable_after=1,
    attempts=5,
)


def test_killed_at_every_boundary_its_successor_finishes_and_nothing_is_doubled(
    tmp_path: Path,
) -> None:
    with ThreadPoolExecutor(LABS) as pool:
        walks = [pool.submit(walk, tmp_path / str(n), n + 1) for n in range(LABS)]
        points = [p for w in walks for p in w.result()]
    names = {name for _, name in points}
    acts = {f"{when} {verb}" for when in ("before", "after") for verb in ("submit", "fence")}
    assert acts <= names
    # Each stage dies with its intent written, handed over, and its result written.
    journal = " ".join(names)
    for stage in ("look", "fence", "delete", "create", "verify"):
        assert f"('{stage}', 'intent', None)" in journal, journal
        assert f"('{stage}', 'ended', " in journal, journal
    for stage in ("delete", "create"):
        assert f"('{stage}', 'submitted', None)" in journal, journal
    assert "SUCCEEDED" in journal
    assert "READY" in journal
    numbers = sorted(n for n, _ in points)
    assert numbers == list(range(1, len(numbers) + 1))


def walk(root: Path, first: int) -> list[tuple[int, str]]:
    """Die at boundary `first`, `first + LABS`, …, until one is past the end; return those died at."""
    points: list[tuple[int, str]] = []
    with lab(root, lease=5.0) as here:
        here.start(die_at=0)
        here.profile()
        here.call("create_policy", "hp", RECREATE, by="test")
        here.cluster("c", 1, policy_name="hp")
        here.wait(here.healthy, 20, "healthy")
        for at in range(first, POINTS_MAX, LABS):
            here.quit()
            died_at = die_at(here, at)
            if died_at is None:
                break
            points.append((at, died_at))
        else:
            raise AssertionError(f"still dying after {POINTS_MAX} boundaries")
        here.quit()  # it might still reach its boundary while deleting
        close(here)
    return points


def die_at(here: Lab, at: int) -> str | None:
    """One failure with an engine that dies at boundary `at` and a successor; None if none died."""
    boundaries = here.state / "boundaries"
    boundaries.unlink(missing_ok=True)
    lives = len(here.lives("c-1"))
    recoveries = count(here)
    here.start(die_at=at)
    here.wait(here.healthy, 20, "healthy")
    here.signal("c-1", signal.SIGKILL)
    here.wait(lambda: not here.alive or settled(here, recoveries), 20, "died or done")
    where = boundaries.read_text().splitlines()[-1]
    died = not here.alive
    if died:
        here.reap()
        here.start(die_at=0)
        here.wait(lambda: settled(here, recoveries), 20, f"finished after boundary {at}")
    here.wait(here.healthy, 20, "healthy")
    made = here.lives("c-1")[lives:]
    assert len(made) == 1, f"{len(made)} copies were made after {where}"
    assert here.violations() == []
    steps = here.rows(
        "select s.* from steps s join actions a on a.id = s.action_id"
        " where a.action = 'NODE_RECOVER' order by a.created_us desc, s.seq"
    )
    last = [s for s in steps if s["action_id"] == steps[0]["action_id"]]
    assert [s["stage"] for s in last] == ["look", "fence", "delete", "create", "verify"], where
    assert all(s["phase"] == "ended" for s in last)
    proofs = here.rows("select * from proofs where action_id = ?", last[0]["action_id"])
    assert {p["waived"] for p in proofs} == {0}, where
    incidents = here.rows("select * from incidents order by opened_us desc limit 1")
    assert incidents[0]["state"] == "recovered", where
    return where.split(" ", 1)[1] if died else None


def count(here: Lab) -> int:
    return int(
        here.rows("select count(*) n from actions where action = 'NODE_RECOVER'")[0]["n"]
    )


def settled(here: Lab, before: int) -> bool:
    """Whether one more recovery has been made, and none is under way."""
    open_ = here.rows("select 1 from actions where end_us is null")
    return not open_ and count(here) == before + 1
