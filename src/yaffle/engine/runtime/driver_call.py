"""Calls a driver, bounded in time; the result is a value or a `Failure`.

A driver may be a stranger's. It may hang, raise anything (`CancelledError` included), or answer
nonsense; none of that may end the engine, which has other nodes to look after.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

import structlog

log = structlog.get_logger()

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The driver gave no usable answer: what it did or did not do is unknown."""

    why: str
    late: bool = False
    """It did not answer in time, as opposed to having failed."""


async def call_driver(
    call: Callable[[], Awaitable[object]], kind: type[T], *, within_s: float, what: str
) -> T | Failure:
    """Return the driver's answer if it is a `kind` and came within `within_s`; never raises."""
    try:
        async with asyncio.timeout(within_s):
            answer = await call()
    except TimeoutError:
        return Failure(why=f"{what} did not answer within {within_s:.3g} s", late=True)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise  # it is we who are being cancelled
        log.exception("driver cancelled itself", what=what)
        return Failure(why=f"{what} cancelled itself")
    except Exception as error:
        log.exception("driver failed", what=what)
        return Failure(why=f"{what} failed: {type(error).__name__}: {error}"[:500])
    if not isinstance(answer, kind):
        log.error("driver answered nonsense", what=what, answer=type(answer).__name__)
        return Failure(why=f"{what} answered with a {type(answer).__name__}")
    return answer
