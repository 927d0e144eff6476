"""Cancellations that are not lost: a task group that fails in the same moment drops them.

Until Python 3.13 a group whose owner is cancelled while one of its tasks fails raises what that
task raised, and nothing else; and how often its owner was cancelled cannot be told afterwards, for a
group that fails counts as a cancellation itself (CPython gh-116720). Whoever takes up the errors of a
group and goes on has to have it in a task of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


async def cancellable(work: Coroutine[object, object, T]) -> T:
    """Carry out work that ends with its task group; a cancellation ends it, and is raised always."""
    inner = asyncio.get_running_loop().create_task(work)
    try:
        await asyncio.wait([inner])
    except asyncio.CancelledError:
        inner.cancel()
        while not inner.done():
            # As a group does: what was begun is seen to its end, however often that is asked for.
            with suppress(asyncio.CancelledError):
                await asyncio.wait([inner])
        if not inner.cancelled():
            # Looked at, or it would be told as one that nobody has seen.
            inner.exception()
        raise
    return inner.result()
