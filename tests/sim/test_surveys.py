"""Where an answer rests on all nodes of a cluster, one is never asked about without the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.sim.stage import policy, stage

from yaffle.model.health import Observation
from yaffle.testing import run_virtual

SURVEYED = [{"type": "LIFECYCLE_EVENTS"}]


class Survey:
    """Reads as status polling does, and notes of whom it was told besides."""

    type = "LIFECYCLE_EVENTS"

    def __init__(self, inside: Any) -> None:
        self._inside = inside
        self.asked: list[tuple[frozenset[str], dict[str, str]]] = []

    async def check(self, targets: Any, mode: Any, *, deadline_s: float) -> Any:
        raise AssertionError("asked about some, and not told of the others")

    async def check_among(
        self, targets: Any, mode: Any, *, whole: Any, deadline_s: float
    ) -> Sequence[Observation]:
        cluster = {one.node_id: one.physical_id for one in await whole()}
        self.asked.append((frozenset(one.node_id for one in targets), cluster))
        for one in targets:
            assert cluster[one.node_id] == one.physical_id
        seen: Sequence[Observation] = await self._inside.check(targets, mode, deadline_s=deadline_s)
        return seen


def test_the_look_before_an_act_and_after_it_is_told_of_all_nodes() -> None:
    surveys: list[Survey] = []
    nodes: set[str] = set()

    async def story() -> None:
        async with stage(3) as s:
            s.start()
            for ctx in (s.ctx, *(life.ctx for life in s.lives)):
                detectors: Any = ctx.drivers.detectors
                surveys.append(Survey(detectors["NODE_STATUS_POLLING"]))
                detectors["LIFECYCLE_EVENTS"] = surveys[-1]
            await s.build(3, policy(detection_modes=SURVEYED))
            nodes.update(s.node_ids())
            for survey in surveys:
                survey.asked.clear()
            s.world.kill(s.node_ids()[0])
            await s.clock.sleep(10)
            await s.until(s.all_well, 120, "healed")

    run_virtual(story, seed=3, cpu_s=60)
    asked = [one for survey in surveys for one in survey.asked]
    assert any(len(targets) == 1 for targets, _ in asked), "nobody looked before acting"
    assert any(len(targets) == 3 for targets, _ in asked), "nobody polled"
    assert all(set(cluster) == nodes for _, cluster in asked)
