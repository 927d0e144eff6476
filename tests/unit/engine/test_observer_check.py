"""Whether it is us: what an engine that hears nothing of its one node makes of the others' silence."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.core.build import SECOND, T0, URL, memory, observation

from yaffle.core.health.verdict import Belief, NodeMemory, Track
from yaffle.core.planning.observer_partition import is_blind
from yaffle.engine.detection.observer_check import ObserverCheck
from yaffle.engine.runtime.evidence_index import EvidenceIndex
from yaffle.engine.runtime.metrics import Metrics
from yaffle.model.health import Health, Outcome
from yaffle.model.ids import ClusterId

INTERVAL_S = 10.0


def silent(name: str) -> NodeMemory:
    last = observation(Outcome.FAIL, mode=URL, code="L4-TIMEOUT")
    down = Track(belief=Belief.DOWN, fails=3, fell=3, last=last)
    return memory(node_id=name, health=Health.UNHEALTHY, first_fail_us=T0, tracks={URL: down})


def watched(*names: str) -> Any:
    return SimpleNamespace(memories={name: silent(name) for name in names})


@pytest.mark.parametrize(
    ("given_us", "asked"),
    [
        pytest.param(None, 1, id="one-alone-proves-nothing"),
        pytest.param(T0 + SECOND, 2, id="given-away-while-it-is-silent"),
        pytest.param(T0 - 3600 * SECOND, 1, id="given-away-long-before"),
    ],
)
def test_a_silent_cluster_that_was_given_away_bears_witness(
    given_us: int | None, asked: int
) -> None:
    evidence, mine = EvidenceIndex(), watched("a")
    evidence.join(ClusterId("mine"), mine)
    if given_us is not None:
        others = watched("b")
        evidence.join(ClusterId("given"), others)
        evidence.note(ClusterId("given"), blind=True)
        evidence.leave(ClusterId("given"), others, given_us)
    clock = SimpleNamespace(monotonic_s=lambda: 100.0)
    check = ObserverCheck(SimpleNamespace(tally=evidence, clock=clock, metrics=Metrics()))  # type: ignore[arg-type]
    sights = asyncio.run(check.take(mine.memories.values(), (), INTERVAL_S))
    assert sights.whole.asked == asked
    assert is_blind(sights.whole) is (asked > 1)
    assert check.sure is (asked > 1)
