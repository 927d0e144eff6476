"""Shared by the checks: answers within the deadline, operations followed to their end."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Final, TypeVar

from yaffle.model.ids import OperationId
from yaffle.model.operations import Progress, ProgressState

if TYPE_CHECKING:
    from yaffle.ports import Clock

T = TypeVar("T")

Hang = Callable[[], AbstractAsyncContextManager[object]]
"""While it is entered, the backend takes requests and never answers."""

DEADLINE_S: Final = 20.0
"""For answers that are to come: long enough for a backend on a busy machine."""
SHORT_S: Final = 0.5
SLACK_S: Final = 1.0


def new_id() -> OperationId:
    """Return an operation id that no backend has seen."""
    return OperationId(str(uuid.uuid4()))


async def bounded(
    clock: Clock, what: str, call: Callable[[float], Awaitable[T]], deadline_s: float = DEADLINE_S
) -> T:
    """Return the call's answer; it must come within its deadline."""
    began_s = clock.monotonic_s()
    try:
        async with asyncio.timeout(deadline_s + 10 * SLACK_S):
            answer = await call(deadline_s)
    except TimeoutError as error:
        raise AssertionError(
            f"{what} did not come back: it must give up by itself within {deadline_s:g} s"
        ) from error
    took_s = clock.monotonic_s() - began_s
    assert took_s <= deadline_s + SLACK_S, (
        f"{what} took {took_s:.2f} s where its deadline was {deadline_s:g} s"
    )
    return answer


async def followed(
    clock: Clock,
    submit: Callable[[], Awaitable[Progress]],
    poll: Callable[[], Awaitable[Progress]],
    patience_s: float,
    *,
    repeatable: bool,
) -> Progress:
    """Submit, and poll until the operation has ended, as an engine does.

    `repeatable`: the driver promises DEDUPLICATES. What it says ABSENT of is then submitted again, for
    this is how a profile asks to be let begin the next part of an operation.
    """
    end_s = clock.monotonic_s() + patience_s
    done = await submit()
    while done.state is ProgressState.RUNNING:
        assert clock.monotonic_s() < end_s, f"no end within {patience_s:g} s: {done.detail}"
        await clock.sleep(0.05)
        done = await poll()
        if done.state is ProgressState.ABSENT and repeatable:
            done = await submit()
    return done
