"""The database all engines share is restarted, hangs, goes away in each phase of a recovery, goes back.

Minutes are scaled down where every test runs (`make test-all`); `make chaos` takes ten leases, and ten
minutes where it is asked for at least ten.
"""

from __future__ import annotations

import signal
import time

import pytest
from tests.chaos.fleet.conftest import DOCUMENT, LEASE_S, only
from tests.chaos.fleet.lab import Fleet
from tests.chaos.fleet.scenario import trouble
from tests.chaos.fleet.server import keep
from tests.chaos.lab import MINUTES, long, now_us

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400 + int(MINUTES * 60))]
AWAY_S = 600.0 if MINUTES >= 10 else LEASE_S * 10 if MINUTES else LEASE_S * 1.5
PHASES = [
    # stage, phase, the database on which it is hit where time is short, and the node: each time
    # another one, since who was healed a moment ago is healed again only after a pause
    ("look", "intent", "postgresql", "k-1"),
    ("fence", "intent", "mariadb", "k-1"),
    ("delete", "submitted", "postgresql", "k-2"),
    ("create", "intent", "mariadb", "k-2"),
    ("verify", "intent", "postgresql", "l-2"),
]


@pytest.mark.parametrize(("stage", "phase", "kind", "node"), PHASES, ids=[p[0] for p in PHASES])
def test_away_in_the_middle_of_a_recovery(
    shared: Fleet, stage: str, phase: str, kind: str, node: str
) -> None:
    only(shared, kind)
    before, began_us = len(shared.diaries.lives(node)), now_us()
    with trouble(shared, DOCUMENT) as here:
        # Stopped, not killed: to look, and to ask it to end, take their time.
        shared.diaries.manner(node, "slow 1.5" if stage == "verify" else "")
        shared.diaries.signal(node, signal.SIGSTOP)
        was_hit = here.step_seen(stage, phase)
        here.outage(AWAY_S if stage == "delete" or MINUTES >= 10 else 0.5)
        shared.wait(lambda: len(shared.diaries.lives(node)) > before, 60, "made anew")
    shared.diaries.manner(node)
    # One process for each copy that was asked for: on a busy machine a node may fail once more.
    made = shared.rows(
        "select s.operation_id from steps s join actions a on a.id = s.action_id"
        " join nodes n on n.id = a.node_id where n.name = %s and s.stage = 'create'"
        " and a.action = 'NODE_RECOVER' and s.submitted_us > %s",
        node,
        began_us,
    )
    assert len(shared.diaries.lives(node)) == before + len(made)
    print(f"{stage} {phase}: {'hit' if was_hit else 'just missed'}")


def test_frozen_for_longer_than_a_lease(shared: Fleet) -> None:
    only(shared, "mariadb")
    with trouble(shared, DOCUMENT) as here:
        shared.diaries.signal("l-1", signal.SIGKILL)
        here.step_seen("fence", "intent")
        here.hang(LEASE_S * 1.5)


@long
def test_restarted(shared: Fleet) -> None:
    with trouble(shared, DOCUMENT) as here:
        shared.diaries.signal("l-1", signal.SIGKILL)
        here.step_seen("delete", "intent")
        with here.deed("database restarted"):
            shared.server.restart()


def test_failed_over_to_an_older_state(shared: Fleet) -> None:
    only(shared, "postgresql")
    with trouble(shared, DOCUMENT) as here:
        with here.deed("database kept"):
            keep(shared.server)
        shared.wait(shared.healthy, 60, "healthy after the restart")
        shared.diaries.signal("m-1", signal.SIGKILL)
        shared.wait(lambda: len(shared.diaries.lives("m-1")) > 1, 60, "healed, and then forgotten")
        shared.wait(shared.healthy, 60, "healthy")
        here.back_in_time()
        shared.wait(lambda: here.observer.looks[-1].stopped, 60, "a stop is set")
        shared.diaries.signal("m-2", signal.SIGKILL)
        until_us = now_us() + int((LEASE_S + 2) * 1e6)
        while now_us() < until_us:
            time.sleep(0.1)  # nothing may happen: there is nothing to wait for
        assert not shared.diaries.running("m-2")
        here.lift()
        shared.wait(shared.healthy, 60, "healed once a person has let it go on")
