"""A recovery that failed is tried again by itself, though nothing new is seen of the node."""

from __future__ import annotations

import signal

from tests.chaos.conftest import MakeLab
from tests.chaos.lab import close, policy


def test_a_node_that_crashes_at_its_start_is_started_until_it_stays(make_lab: MakeLab) -> None:
    document = policy(url=False, fall=1, actions="[{name: RECREATE, timeout: 10}]")
    here = make_lab(size=2, document=document)
    here.manner("c-1", "crash 2")
    here.signal("c-1", signal.SIGKILL)
    here.wait(lambda: len(here.lives("c-1")) == 4, 25, "two failed starts and one that stays")
    here.wait(here.healthy, 10, "healthy")
    assert [life.crashed for life in here.lives("c-1")] == [False, True, True, False]
    told = [e["status"] for e in here.rows("select status from events where action = 'INCIDENT'")]
    assert told[0] == "open"

    def states() -> set[str]:
        return {row["state"] for row in here.rows("select state from incidents")}

    # A start that lives just long enough to be verified is a failure of its own: one incident or more.
    here.wait(lambda: states() == {"recovered"}, 15, "every incident ended recovered")
    close(here)
