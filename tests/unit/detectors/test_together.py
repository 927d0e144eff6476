"""Who asks at the same time about what one answer tells is asked for once, and harms no other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from yaffle.core.health.backend_status_codes import classify
from yaffle.engine.runtime.clock import SystemClock
from yaffle.errors import DependencyError
from yaffle.integrations.batch_read import BATCH, GATHER_S, Asked, BatchReader, Question
from yaffle.model.ids import NodeId
from yaffle.model.operations import Reading, Target
from yaffle.model.timing import JITTER, in_step

DEADLINE_S = 5.0


@dataclass
class Backend:
    """A profile of which every call is counted; it takes `takes_s`, and chokes on some nodes."""

    takes_s: float = 0.05
    chokes_on: str = ""
    miscounts: bool = False
    away: bool = False
    hangs_on: str = "nobody"
    calls: list[list[str]] = field(default_factory=list)

    def pool(self, target: Target) -> str:
        return target.project

    async def read(self, targets: Sequence[Target], *, deadline_s: float) -> list[Reading]:
        names = [target.node_id for target in targets]
        self.calls.append([str(name) for name in names])
        await asyncio.sleep(30 if self.hangs_on == targets[0].project else self.takes_s)
        if self.away:
            raise DependencyError("the backend is away")
        if self.chokes_on in names:
            if self.miscounts:
                return []
            raise ValueError(self.chokes_on)
        return [
            Reading(exists=True, up=True, backend_status="ACTIVE", detail=name) for name in names
        ]


class Apart(Backend):
    """One that is asked node by node: nobody shares its answers."""

    pool = None  # type: ignore[assignment]


class Broken(Backend):
    """A stranger's, whose pools cannot be had."""

    def pool(self, target: Target) -> str:
        raise ValueError(target.name)


def cluster(name: str, size: int = 2, project: str = "") -> list[Target]:
    return [
        Target(node_id=NodeId(f"{name}{n}"), name=f"{name}{n}", profile_type="k", spec={},
               physical_id=f"p-{name}{n}", project=project)
        for n in range(size)
    ]  # fmt: skip


def asker(backend: Backend) -> BatchReader[Reading]:
    context: Any = SimpleNamespace(clock=SystemClock(), profiles={"k": backend})
    question: Question[Reading] = Question(
        read_of=lambda profile: profile.read,  # type: ignore[attr-defined]
        classify=classify,
        cannot="cannot be asked",
        error="ST-ERROR",
        timeout="ST-TIMEOUT",
    )
    return BatchReader(context, question)


def run(story: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(story(), 60))  # type: ignore[arg-type]


async def asked(
    one: BatchReader[Reading], *clusters: list[Target]
) -> list[Sequence[Asked[Reading]]]:
    return await asyncio.gather(*(one.ask(c, deadline_s=DEADLINE_S) for c in clusters))


def codes(answers: Sequence[Asked[Reading]]) -> list[str]:
    return [one.seen[0] for one in answers]


def test_five_clusters_that_ask_at_once_are_one_call_and_each_gets_its_own_answers() -> None:
    async def story() -> None:
        backend, several = Backend(), [cluster(name, 3) for name in "abcde"]
        for mine, answers in zip(several, await asked(asker(backend), *several), strict=True):
            assert [a.answer.detail for a in answers if a.answer] == [t.node_id for t in mine]
        (call,) = backend.calls
        assert call[:6] == ["a0", "b0", "c0", "d0", "e0", "a1"], "the last get what is left over"

    run(story)


def test_who_asks_while_a_call_runs_gets_an_answer_that_is_asked_for_later() -> None:
    async def story() -> None:
        backend = Backend(takes_s=0.3)
        one = asker(backend)
        first = asyncio.ensure_future(one.ask(cluster("a"), deadline_s=DEADLINE_S))
        while not backend.calls:
            await asyncio.sleep(GATHER_S / 5)
        await one.ask(cluster("b"), deadline_s=DEADLINE_S)
        await first
        assert backend.calls == [["a0", "a1"], ["b0", "b1"]]

    run(story)


@pytest.mark.parametrize(
    ("kind", "sizes", "calls"),
    [
        pytest.param(Backend, (1, 2, 1), 3, id="one node: about to be acted upon"),
        pytest.param(Apart, (2, 2, 2), 3, id="a backend that is asked node by node"),
        pytest.param(Broken, (2, 2, 2), 3, id="a driver that fails to say"),
        pytest.param(Backend, (600, 600, 300), 2, id="more than a list holds"),
    ],
)
def test_who_asks_alone(kind: type[Backend], sizes: Sequence[int], calls: int) -> None:
    async def story() -> None:
        backend = kind()
        await asked(asker(backend), *(cluster(f"c{n}-", size) for n, size in enumerate(sizes)))
        assert len(backend.calls) == calls
        assert max(map(len, backend.calls)) <= BATCH

    run(story)


def test_a_project_that_keeps_us_waiting_keeps_no_other() -> None:
    """Asked about with another credential it is another pool, though the cloud is the same."""

    async def story() -> None:
        backend = Backend(hangs_on="mine")
        one = asker(backend)
        several = [cluster("a", project="mine"), cluster("b", project="theirs")]
        found = await asyncio.gather(*(one.ask(c, deadline_s=0.5) for c in several))
        assert [set(codes(answers)) for answers in found] == [{"ST-TIMEOUT"}, {"ST-UP"}]

    run(story)


def test_that_the_backend_is_away_is_heard_once_for_all() -> None:
    async def story() -> None:
        backend = Backend(away=True)
        found = await asked(asker(backend), cluster("a"), cluster("b"), cluster("c"))
        assert [codes(one) for one in found] == [["ST-ERROR"] * 2] * 3
        assert len(backend.calls) == 1

    run(story)


@pytest.mark.parametrize("miscounts", [False, True])
def test_a_node_that_a_driver_cannot_read_blinds_its_own_cluster_alone(miscounts: bool) -> None:
    async def story() -> None:
        backend = Backend(chokes_on="b1", miscounts=miscounts)
        found = await asked(asker(backend), cluster("a"), cluster("b"), cluster("c"))
        assert [set(codes(one)) for one in found] == [{"ST-UP"}, {"X-BUG"}, {"ST-UP"}]

    run(story)


@pytest.mark.parametrize("after_s", [0.0, GATHER_S / 2, GATHER_S * 3])
def test_that_the_first_asker_goes_away_is_nothing_to_the_others(after_s: float) -> None:
    async def story() -> None:
        backend = Backend(takes_s=0.3)
        one = asker(backend)
        first = asyncio.ensure_future(one.ask(cluster("a"), deadline_s=DEADLINE_S))
        await asyncio.sleep(0)
        others = asyncio.ensure_future(asked(one, cluster("b"), cluster("c")))
        await asyncio.sleep(after_s)
        first.cancel()
        assert [codes(found) for found in await others] == [["ST-UP"] * 2] * 2

    run(story)


def test_that_another_asker_goes_away_ends_nobodys_call() -> None:
    async def story() -> None:
        backend = Backend(takes_s=0.3)
        one = asker(backend)
        several = [
            asyncio.ensure_future(one.ask(cluster(name), deadline_s=DEADLINE_S)) for name in "abc"
        ]
        await asyncio.sleep(GATHER_S / 2)
        several[1].cancel()
        assert codes(await several[0]) == codes(await several[2]) == ["ST-UP"] * 2
        assert len(backend.calls) == 1

    run(story)


def test_a_call_that_is_late_is_late_for_all_and_is_not_made_again_by_each() -> None:
    async def story() -> None:
        backend = Backend(takes_s=30)
        one = asker(backend)
        first = asyncio.ensure_future(one.ask(cluster("a"), deadline_s=0.5))
        await asyncio.sleep(GATHER_S / 2)
        others = await asyncio.gather(*(one.ask(cluster(n), deadline_s=0.5) for n in "bcd"))
        found = [await first, *others]
        assert [codes(answers) for answers in found] == [["ST-TIMEOUT"] * 2] * 4
        assert len(backend.calls) == 1

    run(story)


@pytest.mark.parametrize("began_s", [0.0, 0.1, 7.0, 14.9, 15.0, 15.1, 29.9, 1e6 + 11])
def test_looks_are_in_step_after_five_and_never_earlier_or_later_than_a_check_may_be(
    began_s: float,
) -> None:
    interval_s, now_s = 30.0, began_s
    for _ in range(5):
        pause_s = in_step(now_s, interval_s)
        assert abs(pause_s - interval_s) <= JITTER * interval_s + 1e-6
        now_s += pause_s
    off_s = now_s % interval_s
    assert min(off_s, interval_s - off_s) < 1e-3
    assert in_step(now_s, interval_s) == pytest.approx(interval_s, abs=1e-3)


def test_pools_are_not_all_looked_at_in_one_moment() -> None:
    interval_s = 60.0
    beats = []
    for number in range(60):
        now_s = 0.0
        for _ in range(6):
            now_s += in_step(now_s, interval_s, f"project-{number}")
        beats.append(now_s % interval_s)
    assert max(sum(abs(beat - other) < 1.0 for other in beats) for beat in beats) <= 8
