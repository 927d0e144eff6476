"""A recovery that failed is tried again by itself, though nothing new is seen of the node."""

from __future__ import annotations

import signal

from tests.chaos.conftest import MakeLab
from tests.chaos.lab import close, policy


def test_a_node_that_crashes_at_its_start_is_started_until_it_stays(make_lab: MakeLab) -> None:
    # Rise 2: a start that lives only for the first look must not pass for a recovery.
    document = policy(url=False, fall=1, rise=2, actions="[{name: RECREATE, timeout: 10}]")
    here = make_lab(size=2, document=document)
    here.manner("c-1", "crash 2")
    here.signal("c-1", signal.SIGKILL)
    here.wait(lambda: len(here.lives("c-1")) == 4, 25, "two failed starts and one that stays")

    def told() -> list[str]:
        found = here.rows("select status from events where action = 'INCIDENT' order by seq")
        return [event["status"] for event in found]

    here.wait(lambda: told()[-1] == "recovered", 15, "the incident ended recovered")
    here.wait(here.healthy, 10, "healthy")
    assert [life.crashed for life in here.lives("c-1")] == [False, True, True, False]
    assert told()[0] == "open"
    assert len(here.rows("select 1 from incidents")) == 1
    close(here)
