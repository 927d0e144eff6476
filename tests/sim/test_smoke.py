"""A quiet world: one node dies, one engine heals it, everybody hears of it."""

from __future__ import annotations

from tests.sim.stage import policy, stage

from yaffle.testing import run_virtual


def test_one_node_dies_and_is_healed() -> None:
    async def story() -> None:
        async with stage(1) as s:
            s.start()
            await s.build(3, policy())
            victim = s.node_ids()[0]
            s.world.kill(victim)
            await s.clock.sleep(20)
            await s.until(s.all_well, 60, "healed")
            assert s.world.serving(victim)
            topics = {m.topic for m in s.notifier.received}
            assert topics == {"incident.opened", "incident.recovering", "incident.recovered"}

    run_virtual(story, seed=1, cpu_s=30)
