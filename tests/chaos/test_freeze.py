"""An engine that was frozen acts on nothing it believed before; a suspended machine is the same."""

from __future__ import annotations

import signal
import time

from tests.chaos.conftest import MakeLab
from tests.chaos.lab import Lab, close, long, now_us, policy

LEASE_S = 0.5
# A node that the machine holds up for a moment must answer in time all the same: only the one that
# is stopped may be suspect.
PATIENT = policy(interval=3, grace=6, backoff=3).replace(
    "poll_url_timeout: 0.8", "poll_url_timeout: 2.9"
)


def test_frozen_for_ten_leases_a_node_recovers_by_itself_nothing_is_done(
    make_lab: MakeLab,
) -> None:
    here = make_lab(document=PATIENT, lease=LEASE_S)
    before = last_us(here)
    pids = {name: here.pid(name) for name in here.nodes()}
    # One failing look is on record when the engine falls asleep: a second one would be a verdict.
    here.falls_asleep(lambda: here.signal("c-1", signal.SIGSTOP))
    assert here.nodes()["c-1"]["health"] == "suspect"
    stopped_us = now_us()
    time.sleep(LEASE_S * 10)
    goes_on(here, "c-1")
    woken_us = now_us()
    here.thaw()
    here.wait(
        lambda: here.rows("select count(*) n from engines where started_us > ?", woken_us)[0]["n"],
        10,
        "a new session with a new epoch",
    )
    here.wait(here.healthy, 10, "healthy without help")
    time.sleep(3.5)  # and one look more
    assert acts_between(here, stopped_us + 50_000, woken_us) == []
    assert here.rows("select * from decisions where kind = 'recover' and at_us > ?", before) == []
    assert here.rows("select * from actions where action = 'NODE_RECOVER'") == []
    assert {name: here.pid(name) for name in here.nodes()} == pids
    close(here)


@long
def test_a_node_that_died_during_the_freeze_is_judged_by_fresh_looks_then_healed(
    make_lab: MakeLab,
) -> None:
    here = make_lab(document=policy(fall=3), lease=LEASE_S)
    here.freeze()
    here.signal("c-2", signal.SIGKILL)
    time.sleep(LEASE_S * 4)
    woken_us = now_us()
    here.thaw()
    here.wait(lambda: len(here.lives("c-2")) == 2, 15, "the node runs again")
    decided = here.rows("select at_us from decisions where kind = 'recover'")
    # Three fresh looks, a second apart with 10 % of jitter.
    assert len(decided) == 1
    assert decided[0]["at_us"] > woken_us + 1_700_000
    here.wait(here.healthy, 10, "healthy")
    close(here)


@long
def test_a_freeze_shorter_than_a_lease_starts_the_counting_anew(make_lab: MakeLab) -> None:
    here = make_lab(document=policy(), lease=20.0)
    here.falls_asleep(lambda: here.signal("c-1", signal.SIGSTOP))
    time.sleep(2.0)  # longer than `engine.late`, a tenth of the lease
    goes_on(here, "c-1")
    here.thaw()
    here.wait(here.healthy, 10, "healthy without help")
    time.sleep(2.5)
    assert here.rows("select * from actions where action = 'NODE_RECOVER'") == []
    assert "session lost" not in here.log()
    assert "loop late" in here.log()
    close(here)


def goes_on(here: Lab, name: str) -> None:
    """Let a node go on, and wait until it does: it answers again before the engine can ask."""
    since_us = now_us()
    here.signal(name, signal.SIGCONT)
    here.wait(lambda: here.lives(name)[-1].last_us > since_us, 10, "the node goes on")


def last_us(here: Lab) -> int:
    return int(here.rows("select max(at_us) at from events")[0]["at"])


def acts_between(here: Lab, begin_us: int, end_us: int) -> list[str]:
    """Everything that was decided or done in that time."""
    return [
        f"{table}.{column} {r[column]}"
        for table, column in (
            ("decisions", "at_us"),
            ("steps", "intent_us"),
            ("steps", "submitted_us"),
            ("steps", "ended_us"),
            ("actions", "created_us"),
            ("events", "at_us"),
        )
        for r in here.rows(
            f"select {column} from {table} where {column} > ? and {column} < ?", begin_us, end_us
        )
    ]
