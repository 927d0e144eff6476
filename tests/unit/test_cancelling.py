"""Who is cancelled in the moment in which a task of its group fails, ends: it does not go on for ever."""

from __future__ import annotations

import ast
import asyncio
from pathlib import Path

import pytest

from yaffle.integrations.cancellation import cancellable

SRC = Path(__file__).parents[2] / "src"
BOUND_S = 60


class Lost(Exception):
    """What one of the group's tasks raises."""


async def _supervised(fails: asyncio.Event, begun: list[int], *, in_body: bool) -> None:
    """Begin a group again whenever it has failed, as the engine does and the prober's client."""

    async def one() -> None:
        await fails.wait()
        fails.clear()
        raise Lost

    async def group() -> None:
        begun.append(1)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(one())
            tasks.create_task(asyncio.sleep(600))
            if in_body:
                await asyncio.sleep(600)

    while True:
        try:
            await cancellable(group())
        except* Lost:
            pass


@pytest.mark.parametrize("in_body", [False, True])
@pytest.mark.parametrize("first", ["the failure", "the cancellation"])
@pytest.mark.parametrize("turns", range(10))
def test_a_cancellation_is_heeded_whatever_fails_beside_it(
    turns: int, first: str, in_body: bool
) -> None:
    async def scene() -> bool:
        loop, fails, begun = asyncio.get_running_loop(), asyncio.Event(), list[int]()
        supervisor = loop.create_task(_supervised(fails, begun, in_body=in_body))
        while not begun:
            await asyncio.sleep(0)
        await asyncio.sleep(0)

        def later(what: object, left: int) -> None:
            assert callable(what)
            what() if left == 0 else loop.call_soon(later, what, left - 1)

        later(fails.set, 0 if first == "the failure" else turns)
        later(supervisor.cancel, turns if first == "the failure" else 0)
        for _ in range(50):
            await asyncio.sleep(0)
        heeded = supervisor.cancelled()
        while not supervisor.done():
            supervisor.cancel()
            await asyncio.sleep(0)
        return heeded

    assert asyncio.run(scene())


def test_what_the_work_comes_to_is_passed_on() -> None:
    async def answers() -> int:
        return 7

    async def fails() -> None:
        raise Lost

    assert asyncio.run(cancellable(answers())) == 7
    with pytest.raises(Lost):
        asyncio.run(cancellable(fails()))


@pytest.mark.parametrize("times", [1, 3])
def test_who_is_cancelled_waits_for_what_it_has_begun(times: int) -> None:
    async def scene() -> list[str]:
        said: list[str] = []

        async def work() -> None:
            try:
                await asyncio.sleep(600)
            finally:
                await asyncio.sleep(0.01)
                said.append("put away")

        task = asyncio.create_task(cancellable(work()))
        await asyncio.sleep(0.01)
        for _ in range(times):
            task.cancel()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        await asyncio.wait([task], timeout=BOUND_S)
        assert task.cancelled()
        return said

    assert asyncio.run(scene()) == ["put away"]


def test_whoever_takes_up_the_errors_of_a_group_heeds_cancellations() -> None:
    """All that is awaited below an `except*` is `cancellable`."""
    found = 0
    for path in SRC.rglob("*.py"):
        for tried in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(tried, ast.TryStar):
                continue
            found += 1
            inside = [node for part in tried.body for node in ast.walk(part)]
            assert not [n for n in inside if isinstance(n, ast.AsyncWith)], path
            for awaited in (n.value for n in inside if isinstance(n, ast.Await)):
                assert isinstance(awaited, ast.Call), path
                assert isinstance(awaited.func, ast.Name), path
                assert awaited.func.id == "cancellable", path
    assert found
