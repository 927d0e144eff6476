"""Restarts and the prober: nodes outlive the engine, and a dead prober is never a dead node."""

from __future__ import annotations

import os
import signal
import time

import pytest
from tests.chaos.conftest import MakeLab
from tests.chaos.lab import close, is_alive, long, policy


@pytest.mark.parametrize("how", [pytest.param("quit", marks=long), "kill"])
def test_a_restart_adopts_its_nodes(make_lab: MakeLab, how: str) -> None:
    # By its process alone: a node that is merely held up is there, and does not answer in time.
    here = make_lab(document=policy(url=False))
    pids = {name: here.pid(name) for name in here.nodes()}
    getattr(here, how)()
    assert all(is_alive(p) for p in pids.values())
    here.start()
    time.sleep(2.5)  # nothing may happen: there is nothing to wait for
    assert {name: here.pid(name) for name in here.nodes()} == pids
    here.wait(here.healthy, 10, "healthy")
    assert here.rows("select * from incidents") == []
    here.signal("c-2", signal.SIGKILL)
    here.wait(lambda: len(here.lives("c-2")) == 2, 15, "an adopted node is healed too")
    close(here)


@pytest.mark.parametrize(
    "signals",
    [
        pytest.param([signal.SIGKILL] * 3, id="killed"),
        pytest.param([signal.SIGKILL, signal.SIGSTOP], id="frozen", marks=long),
    ],
)
def test_a_prober_that_is_killed_or_frozen_makes_nobody_unhealthy(
    make_lab: MakeLab, signals: list[int]
) -> None:
    # A node that the machine holds up for a moment must answer in time all the same.
    patient = policy(fall=2, interval=3, grace=6, backoff=3).replace(
        "poll_url_timeout: 0.8", "poll_url_timeout: 2.9"
    )
    here = make_lab(document=patient)
    seen: set[int] = set()
    for number in signals:
        here.wait(lambda: here.call("prober") not in {0, *seen}, 15, "a prober is up")
        pid = here.call("prober")
        seen.add(pid)
        os.kill(pid, number)
        time.sleep(0.8)
    here.wait(lambda: here.call("prober") not in {0, *seen}, 20, "the last one was replaced")
    here.wait(here.healthy, 15, "everything is believed to be well")
    bad = here.rows(
        "select * from events where action = 'HEALTH' and status in ('unhealthy', 'suspect')"
    )
    assert [b["reason"] for b in bad] == []
    assert here.rows("select * from decisions") == []
    here.signal("c-1", signal.SIGSTOP)  # and the new prober does see
    here.wait(lambda: len(here.lives("c-1")) == 2, 20, "a failure after all that is healed")
    close(here)
    assert not any(is_alive(p) for p in seen)
