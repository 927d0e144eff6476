"""An engine that is cut off from the nodes harms none of them: not as a watcher, not as an executor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from sqlalchemy import select
from tests.sim.stage import Life, Stage, policy
from tests.sim.test_watch_assignment import SLOW, URL, cut, holders, play

from yaffle.store import actions as jobs
from yaffle.store import observer_partitions
from yaffle.store.tables import actions, decisions, steps


@pytest.mark.parametrize("engines", [1, 2])
def test_clusters_of_one_node_each_are_not_healed_by_who_is_blind(engines: int) -> None:
    async def story(s: Stage) -> None:
        cut(s.living[0])
        await s.clock.sleep(60)
        assert not s.world.acts, "all the nodes were well"
        if engines == 1:
            return
        assert set((await holders(s)).values()) == {s.living[1]}
        await s.until(s.all_well, 60, "who sees them says so")
        assert not s.world.acts

    play(story, engines=engines, clusters=4, size=1)


BOTH = [{"type": "NODE_STATUS_POLLING"}, URL]
ANY_NUMBER = {"max_unhealthy": "100%", "max_in_flight": 2}


@pytest.mark.parametrize("engines", [1, 2])
@pytest.mark.parametrize(("clusters", "size"), [(1, 3), (4, 1)])
def test_one_road_that_is_cut_off_is_not_seen_through_the_other(
    engines: int, clusters: int, size: int
) -> None:
    """The backend says "running" of every node, no URL is reached, either suffices to judge."""

    async def story(s: Stage) -> None:
        cut(s.living[0])
        await s.clock.sleep(60)
        assert not s.world.acts, "all the nodes were well"
        if engines == 1:
            held = await s.store.read(reasons_told)
            assert held == {"blind"}, held
        else:
            assert set((await holders(s)).values()) == {s.living[1]}
            await s.until(s.all_well, 60, "who sees them says so")
        assert not s.world.acts

    play(
        story,
        engines=engines,
        clusters=clusters,
        size=size,
        detection_modes=BOTH,
        limits=ANY_NUMBER,
    )


def test_what_the_backend_says_is_down_is_healed_though_no_url_is_reached() -> None:
    async def story(s: Stage) -> None:
        cut(s.living[0])
        await s.clock.sleep(40)
        assert not s.world.acts
        victim = s.node_ids()[0]
        s.world.kill(victim)

        async def tried() -> bool:
            return {a.node_id for a in s.world.acts} == {victim}

        await s.until(tried, 60, "that one, and no other")
        await s.clock.sleep(30)
        assert await tried()

    play(story, engines=1, clusters=1, size=3, detection_modes=BOTH, limits=ANY_NUMBER)


def reasons_told(conn: Any) -> set[str]:
    rows = conn.execute(select(decisions.c.reason).where(decisions.c.kind == "hold"))
    return {r.reason for r in rows}


def test_what_answered_before_the_cut_proves_nothing() -> None:
    """A slow cluster's last answer is older than the silence, and outlasts the others' verdicts."""

    async def story(s: Stage) -> None:
        cut(s.living[0])
        await s.clock.sleep(120)
        assert not s.world.acts

    async def with_a_slow_one(s: Stage) -> None:
        slow = policy(detection_modes=[URL], interval=20, node_update_timeout=40, retry=SLOW)
        await s.build(1, slow, name="slow")
        await s.clock.sleep(5)
        s.world.acts.clear()
        await story(s)

    play(with_a_slow_one, engines=1, clusters=1, size=1)


def test_one_silent_node_among_clusters_that_answer_is_healed() -> None:
    async def story(s: Stage) -> None:
        silenced = s.node_ids()[0]
        network = cut(s.living[0])
        whole = network.check

        async def only_one(targets: Any, mode: Any, *, deadline_s: float) -> Any:
            # The copy that is made anew answers.
            old = [c for c in s.world.alive(silenced) if c.physical_id == first]
            network.cut = bool(old) and any(t.node_id == silenced for t in targets)
            return await whole(targets, mode, deadline_s=deadline_s)

        (copy,) = s.world.alive(silenced)
        first = copy.physical_id
        network.check = only_one  # type: ignore[method-assign]

        async def healed() -> bool:
            return {a.node_id for a in s.world.acts} == {silenced} and await s.all_well()

        await s.until(healed, 150, "the one that is silent is healed, and no other")
        assert not await s.store.read(lambda c: observer_partitions.in_force(c, s.clock.now_us()))

    play(story, engines=1, clusters=4, size=1)


async def looked(s: Stage) -> Sequence[Any]:
    query = (
        select(steps.c.rung, steps.c.stage, steps.c.result)
        .join(actions, actions.c.id == steps.c.action_id)
        .where(actions.c.action == "NODE_RECOVER")
        .order_by(steps.c.intent_us)
    )
    return await s.store.read(lambda c: c.execute(query).all())


async def handed_over(s: Stage, blind: Life) -> None:
    cut(blind)

    async def moved() -> bool:
        return blind not in (await holders(s)).values()

    await s.until(moved, 100, "handed over")
    await s.clock.sleep(20)
    s.world.acts.clear()


@pytest.mark.parametrize("watched", [True, False], ids=["handed-over", "never-its-own"])
def test_who_is_blind_leaves_recoveries_to_those_who_see(watched: bool) -> None:
    """Its look would find the old copy dead, and the new one as well."""

    async def story(s: Stage) -> None:
        blind, seeing = s.living
        known = {i for i, holder in (await holders(s)).items() if holder is blind}
        await handed_over(s, blind)
        # The hands of the one that sees are full for a while.
        workers = seeing.ctx.settings.workers
        object.__setattr__(
            seeing.ctx, "settings", seeing.ctx.settings.model_copy(update={"workers": 0})
        )
        s.world.kill(next(n.id for n in await s.nodes() if (n.cluster_id in known) is watched))
        await s.clock.sleep(40)
        assert await s.store.read(jobs.any_claimable), "it waits"
        assert not s.world.acts
        object.__setattr__(
            seeing.ctx, "settings", seeing.ctx.settings.model_copy(update={"workers": workers})
        )
        await s.until(s.all_well, 100, "healed by who sees")
        assert len([r for r in await looked(s) if r.stage == "verify"]) == 1

    play(story, engines=2, clusters=2, size=3)


def test_who_goes_blind_while_it_heals_does_not_go_on_to_the_next_rung() -> None:
    async def story(s: Stage) -> None:
        (only,) = s.living
        victim = s.node_ids()[0]
        s.world.kill(victim)

        while not s.world.acts:
            await s.clock.sleep(0.05)
        cut(only)
        await s.clock.sleep(300)
        results = {(r.rung, r.stage, r.result) for r in await looked(s)}
        assert (0, "verify", "unclear") in results
        assert not any(rung > 0 for rung, _, _ in results)
        assert {a.node_id for a in s.world.acts} == {victim}

    play(story, engines=1, clusters=2, size=3, rise=2, node_update_timeout=20, retry=SLOW)
