"""Several engines share the watches: evenly, without a gap longer than a lease, and nothing twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import select, update
from tests.sim.stage import SETTINGS, Life, Stage, policy, stage

from yaffle.core.health.check_codes import OUTCOMES, judge
from yaffle.model.health import Observation
from yaffle.store import coverage, observer_partitions
from yaffle.store.tables import actions, engines, nodes, watches
from yaffle.testing import Fault, Rule, run_virtual

LEASE_S = SETTINGS.lease
URL = {
    "type": "NODE_STATUS_POLL_URL",
    "options": {"poll_url": "http://{node_ip}/", "poll_url_retry_limit": 1},
}
SLOW = {"attempts": 3, "backoff": 40, "max_backoff": 60, "stable_after": 60}
SEEN_S = SETTINGS.poll + 0.5
"""Nobody rings here: what was given up is seen a poll later."""
Story = Callable[[Stage], Awaitable[None]]


def play(story: Story, *, engines: int, clusters: int, size: int = 1, **changed: Any) -> None:
    async def main() -> None:
        async with stage(7, alone=False) as s:
            for _ in range(engines):
                s.start()
            changed.setdefault("detection_modes", [URL])
            for n in range(clusters):
                await s.build(size, policy(**changed), name=f"c{n}")
            await s.clock.sleep(2 * LEASE_S)
            s.world.acts.clear()
            await story(s)

    run_virtual(main, seed=7, cpu_s=120)


async def holders(s: Stage) -> Mapping[str, Life | None]:
    """Who holds each cluster by the rows, under a lease that is good."""
    now_us = s.clock.now_us()
    rows = await s.store.read(lambda c: c.execute(select(watches)).all())
    lives = {n.engine.session.me: n for n in s.lives if n.engine.session is not None}
    return {r.cluster_id: lives.get(r.owner) if r.lease_us >= now_us else None for r in rows}


async def counts(s: Stage) -> list[int]:
    """How many each living engine holds, the fewest first; fails where a row and a task disagree."""
    held = await holders(s)
    for life in s.living:
        mine = {i for i, holder in held.items() if holder is life}
        if mine != life.engine.watches.keys():
            return []
    found = Counter(id(holder) for holder in held.values())
    return sorted(found[id(life)] for life in s.living)


def settled(s: Stage, expected: Sequence[int]) -> Callable[[], Awaitable[bool]]:
    async def are() -> bool:
        return await counts(s) == list(expected)

    return are


async def longest_gap(s: Stage, seconds: float) -> float:
    """Let time pass; return for how long any cluster was without a living watch meanwhile (s)."""
    missing_s: dict[str, float] = {}
    worst_s = 0.0
    end_s = s.clock.monotonic_s() + seconds
    while (now_s := s.clock.monotonic_s()) < end_s:
        held = await holders(s)
        for ident, holder in held.items():
            # A row that names the dead is no watch, whatever its lease says.
            if holder in s.living and not holder.gate.frozen:
                missing_s.pop(ident, None)
            else:
                worst_s = max(worst_s, now_s - missing_s.setdefault(ident, now_s))
        await s.clock.sleep(0.1)
    return worst_s


def test_three_share_evenly_and_a_fourth_gets_its_share_within_a_lease() -> None:
    async def story(s: Stage) -> None:
        assert await counts(s) == [4, 4, 4]
        before = await holders(s)
        s.start()
        gap_s = await longest_gap(s, LEASE_S)
        assert await counts(s) == [3, 3, 3, 3]
        after = await holders(s)
        moved = [i for i in before if before[i] is not after[i]]
        assert len(moved) == 3, "nothing moves but the new one's share"
        assert gap_s <= SEEN_S

    play(story, engines=3, clusters=12)


def test_what_a_killed_engine_watched_is_watched_within_a_lease_and_a_second() -> None:
    async def story(s: Stage) -> None:
        await killed_after_a_renewal(s)
        assert await longest_gap(s, 2 * LEASE_S) <= LEASE_S + 1
        assert await counts(s) == [4, 5]

    play(story, engines=3, clusters=9)


async def killed_after_a_renewal(s: Stage) -> None:
    """Kill an engine whose lease has just begun: nobody else may act for the whole of it."""
    life = s.living[0]
    assert life.engine.session is not None
    query = select(engines.c.seen_us).where(engines.c.id == life.engine.session.me)

    async def seen_us() -> Any:
        return await s.store.read(lambda c: c.execute(query).scalar_one())

    before = await seen_us()
    while await seen_us() == before:
        await s.clock.sleep(0.1)
    await life.kill()


def test_two_that_die_together_leave_nothing_unwatched() -> None:
    """The one that should take over may be as dead as the one that held it."""

    async def story(s: Stage) -> None:
        await killed_after_a_renewal(s)
        await killed_after_a_renewal(s)
        assert await longest_gap(s, 2 * LEASE_S) <= LEASE_S + 1
        assert await counts(s) == [9]

    play(story, engines=3, clusters=9)


def test_an_engine_that_ends_leaves_no_gap() -> None:
    async def story(s: Stage) -> None:
        ending = s.living[0]
        assert ending.task is not None
        ending.task.cancel()
        await asyncio.wait([ending.task], timeout=60)
        ending.gate.dead = True
        assert await longest_gap(s, LEASE_S) <= SEEN_S
        assert await counts(s) == [3, 3]

    play(story, engines=3, clusters=6)


def test_a_frozen_engine_finds_everything_taken_and_begins_anew() -> None:
    async def story(s: Stage) -> None:
        frozen = s.living[0]
        assert frozen.engine.session is not None
        before = frozen.engine.session.epoch
        frozen.gate.freeze()
        assert await longest_gap(s, 10 * LEASE_S) <= LEASE_S + 1
        held = await holders(s)
        assert frozen not in held.values()
        frozen.gate.thaw()
        await s.until(settled(s, [2, 2, 2]), 2 * LEASE_S, "the thawed one has its share again")
        assert frozen.engine.session.epoch > before
        assert frozen.ctx.metrics.registry.get_sample_value("yaffle_sessions_lost_total") == 1
        assert not s.world.acts, "nobody was healed for nothing"

    play(story, engines=3, clusters=6, size=2)


def test_what_nobody_takes_is_taken_by_somebody_else() -> None:
    """An engine that renews its lease and takes nothing must not keep others from watching."""

    async def story(s: Stage) -> None:
        lazy, killed, other = s.living
        asks = lazy.ctx.signals.watches
        asks.wait = lambda _seconds: asyncio.sleep(1e6)  # type: ignore[method-assign] # it sleeps
        await s.clock.sleep(2 * SETTINGS.poll)
        await killed.kill()
        assert await longest_gap(s, 2 * LEASE_S) <= LEASE_S + 1
        assert await longest_gap(s, 5 * LEASE_S) == 0, "and it is not offered what it leaves lying"
        held = await holders(s)
        assert sum(holder is other for holder in held.values()) == 6

    play(story, engines=3, clusters=9)


def test_a_successor_knows_what_was_known_and_grants_no_second_grace() -> None:
    async def story(s: Stage) -> None:
        ident = next(iter(await holders(s)))
        (node,) = (n for n in await s.nodes() if n.cluster_id == ident)
        holder = (await holders(s))[ident]
        assert holder is not None
        await holder.kill()

        async def taken() -> bool:
            return (await holders(s))[ident] in s.living

        await s.until(taken, LEASE_S + 1, "taken over")
        began_s = s.clock.monotonic_s()
        (again,) = (n for n in await s.nodes() if n.id == node.id)
        assert (again.health, again.grace_us) == ("healthy", node.grace_us)
        s.world.hang(node.id)

        async def unhealthy() -> bool:
            return any(n.id == node.id and n.health == "unhealthy" for n in await s.nodes())

        # Two fresh failures of checks every 5 s; a grace of a minute would outlast them.
        await s.until(unhealthy, 25, "judged by fresh observations")
        assert s.clock.monotonic_s() - began_s < 25
        await s.until(s.all_well, 200, "healed")

    play(story, engines=2, clusters=2, node_update_timeout=60)


def test_a_recovery_goes_on_while_its_watch_moves() -> None:
    async def story(s: Stage) -> None:
        victims = s.node_ids()
        s.plan.rules.append(Rule(fault=Fault.LATE, call="submit", times=6))
        for ident in victims:
            s.world.hang(ident)

        async def acting() -> bool:
            return bool(s.world.acts)

        await s.until(acting, 60, "recoveries began")
        for _ in range(2):
            s.start()
        await s.until(s.all_well, 300, "healed once, whoever watched")
        query = select(actions.c.node_id).where(actions.c.action == "NODE_RECOVER")
        recovered = (await s.store.read(lambda c: c.execute(query))).scalars().all()
        assert len(recovered) == len(set(recovered)) == len(victims)

    play(story, engines=1, clusters=6)


class Silent:
    """A detector whose network is gone: every question is asked, nothing ever answers."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.cut, self.code = inner, False, "L4-TIMEOUT"

    async def check(self, targets: Any, mode: Any, *, deadline_s: float) -> Any:
        seen = await self.inner.check(targets, mode, deadline_s=deadline_s)
        if not self.cut:
            return seen
        return [
            replace(
                one,
                outcome=judge(self.code),
                code=self.code,
                detail=OUTCOMES[self.code].sentence,
                answered=False,
            )
            for one in seen
            if isinstance(one, Observation)
        ]


def cut(life: Life, code: str = "L4-TIMEOUT") -> Silent:
    """Cut one engine off from the nodes, and from nothing else."""
    detectors: Any = life.ctx.drivers.detectors
    found = detectors["NODE_STATUS_POLL_URL"]
    if not isinstance(found, Silent):
        found = detectors["NODE_STATUS_POLL_URL"] = Silent(found)
    found.cut, found.code = True, code
    return found


async def owners(s: Stage) -> Mapping[str, str]:
    rows = await s.store.read(lambda c: c.execute(select(watches)).all())
    return {r.cluster_id: r.owner for r in rows}


def test_who_cannot_see_the_nodes_hands_them_over_until_it_is_mended() -> None:
    async def story(s: Stage) -> None:
        blind, seeing = s.living
        assert await counts(s) == [2, 2]
        network = cut(blind)

        async def known() -> bool:
            rows = await s.store.read(lambda c: observer_partitions.in_force(c, s.clock.now_us()))
            return len(rows) == 2

        await s.until(known, 60, "it says that it is blind")
        assert await longest_gap(s, LEASE_S) <= SEEN_S
        assert set((await holders(s)).values()) == {seeing}
        network.cut = False
        await s.until(s.all_well, 60, "they were well all the time")
        assert not s.world.acts
        await s.until(settled(s, [2, 2]), 200, "and it is asked again, in the end")

    play(story, engines=2, clusters=4, size=3)


def test_who_cannot_even_ask_hands_over_until_one_can() -> None:
    """Each engine looks for itself: that the one before knew nothing says nothing of the next."""

    async def story(s: Stage) -> None:
        for life in s.living[:2]:
            cut(life, "X-LOCAL")

        async def with_the_third() -> bool:
            return set((await holders(s)).values()) == {s.living[2]} and await s.all_well()

        await s.until(with_the_third, 100, "the one that can ask has them all")
        assert not s.world.acts
        said = await s.store.read(lambda c: observer_partitions.in_force(c, s.clock.now_us()))
        able = s.living[2].engine.session
        assert able is not None
        assert said
        assert not any(able.me in blind for blind in said.values())

    # It takes two answers to be healthy again: meanwhile the word of the one before stands.
    play(story, engines=3, clusters=6, rise=2, interval=10, node_update_timeout=30, retry=SLOW)


def test_a_cluster_that_nobody_asks_about_is_not_handed_round() -> None:
    async def story(s: Stage) -> None:
        for n in range(4):
            await s.commands.create_cluster(f"plain{n}", "profile-c0", 2, by="sim")
        await s.clock.sleep(60)
        # As after a policy was taken away: nothing is known of the nodes, and nobody asks.
        await s.store.write(lambda c: c.execute(update(nodes).values(health="unknown")))
        await s.living[0].kill()
        await s.clock.sleep(2 * LEASE_S)
        before = await owners(s)
        await s.clock.sleep(200)
        assert await owners(s) == before
        assert not await s.store.read(lambda c: observer_partitions.in_force(c, s.clock.now_us()))

    play(story, engines=3, clusters=1)


def test_where_all_are_blind_nothing_is_handed_round() -> None:
    async def story(s: Stage) -> None:
        for life in s.living:
            cut(life)
        await s.clock.sleep(60)
        moves = 0
        before = await owners(s)
        for _ in range(300):
            await s.clock.sleep(1)
            after = await owners(s)
            moves += sum(before[i] != after[i] for i in before)
            before = after
        # A blindness ends by itself and is doubled: a few tries, and less and less often.
        assert moves <= 16, moves
        assert not s.world.acts, "and nothing is healed that nobody can see"

    play(story, engines=2, clusters=4, size=3)


def test_one_engine_alone_keeps_what_it_cannot_see() -> None:
    async def story(s: Stage) -> None:
        before = await owners(s)
        cut(s.living[0])
        await s.clock.sleep(60)
        assert await owners(s) == before
        assert not await s.store.read(lambda c: observer_partitions.in_force(c, s.clock.now_us()))
        assert not s.world.acts

    play(story, engines=1, clusters=2, size=3)


class StandsStill:
    """A bell that never wakes anybody."""

    def ring(self) -> None:
        pass

    async def wait(self, _seconds: float) -> bool:
        await asyncio.sleep(1e6)
        return False


@pytest.mark.parametrize("stubborn", [False, True], ids=["ends-when-told", "does-not-even-end"])
def test_a_watch_that_stands_still_is_anothers(stubborn: bool) -> None:
    async def story(s: Stage) -> None:
        first = s.living[0]
        ident, watch = next(iter(first.engine.watches.items()))
        bell = StandsStill()
        if stubborn:
            bell.wait = deaf  # type: ignore[method-assign]
        watch._wakeup = bell  # type: ignore[assignment]

        async def moved() -> bool:
            return (await holders(s))[ident] is s.living[1]

        await s.until(moved, 120 + 2 * LEASE_S, "another engine watches it")
        assert ident not in first.engine.watches

    play(story, engines=2, clusters=2)


async def deaf(_seconds: float) -> bool:
    end_s = asyncio.get_running_loop().time() + 10_000
    while (left_s := end_s - asyncio.get_running_loop().time()) > 0:
        try:
            await asyncio.sleep(left_s)
        except asyncio.CancelledError:
            if left_s < 5_000:
                raise
    return False


def test_coverage_counts_what_is_watched() -> None:
    async def story(s: Stage) -> None:
        found = await s.store.read(coverage.measure)
        assert (found.clusters, found.clusters_watched) == (4, 4)
        assert (found.nodes, found.nodes_watched) == (8, 8)
        assert (found.ratio, found.longest_s) == (1.0, 0.0)
        (one, other) = s.living
        await one.kill()
        await other.kill()
        await s.clock.sleep(LEASE_S + 7)
        found = await s.store.read(coverage.measure)
        assert (found.clusters_watched, found.nodes_watched, found.ratio) == (0, 0, 0.0)
        assert 7 <= found.longest_s <= 7 + LEASE_S / 4 + 1

    play(story, engines=2, clusters=4, size=2)


def test_every_message_is_sent_by_one_engine() -> None:
    async def story(s: Stage) -> None:
        sent: list[str] = []
        deliver = s.notifier.send

        async def counted(message: Any, *, deadline_s: float) -> Any:
            sent.append(message.id)
            await s.clock.sleep(2 * SETTINGS.poll)  # long enough for every engine to see it
            return await deliver(message, deadline_s=deadline_s)

        s.notifier.send = counted  # type: ignore[method-assign]
        for ident in s.node_ids():
            s.world.hang(ident)
        await s.clock.sleep(20)
        await s.until(s.all_well, 200, "healed")
        await s.clock.sleep(6 * LEASE_S)
        assert len(sent) >= 3 * len(s.node_ids()), "opened, recovering, recovered"
        assert len(sent) == len(set(sent)), "and each of them once"
        # Whoever carries the news dies: another engine does, within a lease and a second.
        await s.living[0].kill()
        await s.living[0].kill()
        s.world.hang(s.node_ids()[0])
        told = len(sent)
        await s.clock.sleep(LEASE_S + 15)
        assert len(sent) > told

    play(story, engines=3, clusters=3)
