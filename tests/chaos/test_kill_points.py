"""The engine is killed at every boundary of a RECREATE, by enumeration; the next one finishes it.

A boundary is a commit that moved the recovery's journal, or a driver's act, before and after it.
One recovery with an engine that lives through it tells their names.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.chaos.lab import Lab, close, lab, policy

LABS = 4
"""Mostly waiting, so several at once; each takes every fourth boundary."""
TRIES = 3
RECREATE = policy(
    url=False,
    fall=1,
    grace=2,
    actions="[{name: RECREATE, timeout: 15}]",
    backoff=1,
    max_backoff=1,
    stable_after=1,
    attempts=1000,
)
STAGES = ["look", "fence", "delete", "create", "verify"]


def test_killed_at_every_boundary_its_successor_finishes_and_nothing_is_doubled(
    tmp_path: Path,
) -> None:
    names = rehearse(tmp_path / "rehearsal")
    expected = [f"journal RUNNING ('{s}', 'intent', None)" for s in STAGES]
    expected += [f"journal RUNNING ('{s}', 'submitted', None)" for s in ("delete", "create")]
    expected += ["before fence", "after fence", "before submit CREATE", "after submit CREATE"]
    expected += ["journal READY READY", "journal SUCCEEDED ('verify', 'ended', 'passed')"]
    assert [e for e in expected if e not in names] == []
    assert len(names) >= 20
    with ThreadPoolExecutor(LABS) as pool:
        for one in [pool.submit(walk, tmp_path / str(n), names[n::LABS]) for n in range(LABS)]:
            one.result()


def rehearse(root: Path) -> list[str]:
    """Return the names of the boundaries of one recovery, in order."""
    with lab(root, lease=5.0) as here:
        begin(here)
        recover(here, "")
        names = (here.state / "boundaries").read_text().splitlines()
        here.quit()
        close(here)
    return list(dict.fromkeys(names))


def walk(root: Path, names: Sequence[str]) -> None:
    """One failure per name, with an engine that dies there."""
    with lab(root, lease=5.0) as here:
        begin(here)
        for name in names:
            for _ in range(TRIES):
                here.quit(doomed=True)
                if recover(here, name):
                    break
            else:
                raise AssertionError(f"no engine came to {name!r}")
        here.quit(doomed=True)
        close(here)


def begin(here: Lab) -> None:
    here.start(die_at="")
    here.profile()
    here.call("create_policy", "hp", RECREATE, by="test")
    here.cluster("c", 1, policy_name="hp")
    here.wait(here.healthy, 20, "healthy")
    here.quit()


def recover(here: Lab, die_at: str) -> bool:
    """One failure, an engine that dies at a boundary, and its successor; return whether it died."""
    (here.state / "boundaries").unlink(missing_ok=True)
    lives, recoveries = len(here.lives("c-1")), count(here)
    here.start(die_at=die_at)
    here.wait(here.healthy, 20, "healthy")
    # On a busy machine a process that runs may not have come to its first line, and to its diary.
    here.wait(lambda: here.signal("c-1", signal.SIGKILL), 20, "the node is killed")
    here.wait(lambda: not here.alive or settled(here, recoveries), 20, "died or done")
    died = not here.alive or last_boundary(here) == die_at
    if died:
        here.reap()
        here.start(die_at="")
        here.wait(lambda: settled(here, recoveries), 20, f"finished after {die_at}")
    here.wait(here.healthy, 20, "healthy")
    judge(here, die_at, lives)
    return died


def judge(here: Lab, where: str, lives: int) -> None:
    """One new copy, one clean journal, a proof, one recovered incident."""
    here.wait(lambda: len(here.lives("c-1")) > lives, 20, "the new copy has said so")
    made = here.lives("c-1")[lives:]
    assert len(made) == 1, f"{len(made)} copies were made after {where}"
    assert here.violations() == []
    action = here.rows("select * from actions where action='NODE_RECOVER' order by created_us")[-1]
    steps = here.rows("select * from steps where action_id = ? order by seq", action["id"])
    assert [s["stage"] for s in steps] == STAGES, where
    assert {s["phase"] for s in steps} == {"ended"}, where
    proofs = here.rows("select * from proofs where action_id = ?", action["id"])
    assert {p["waived"] for p in proofs} == {0}, where

    def told() -> list[str]:
        sql = "select status from events where incident_id = ? order by seq"
        return [row["status"] for row in here.rows(sql, action["incident_id"])]

    # The incident is ended a moment after the action and the node's health say so.
    here.wait(lambda: told()[-1:] == ["recovered"], 20, "the incident ended recovered")
    # Held for a moment where the rest after the failure before has not ended.
    changes = [status for status in told() if status != "held"]
    assert changes == ["open", "recovering", "recovered"], where


def last_boundary(here: Lab) -> str:
    """Where the engine is; it notes a boundary just before it dies there."""
    path = here.state / "boundaries"
    return path.read_text().splitlines()[-1] if path.exists() else ""


def count(here: Lab) -> int:
    return int(here.rows("select count(*) n from actions where action = 'NODE_RECOVER'")[0]["n"])


def settled(here: Lab, before: int) -> bool:
    """Whether one more recovery has been made, and none is under way."""
    found = here.rows("select action, end_us from actions")
    recoveries = [a for a in found if a["action"] == "NODE_RECOVER"]
    return len(recoveries) == before + 1 and all(a["end_us"] for a in found)
