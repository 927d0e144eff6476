"""Waiting for what other processes do: one way for all tests, which leaves the machine to those."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

PAUSE_MAX_S: Final = 1.0


def wait_for(
    condition: Callable[[], T], *, within_s: float = 60.0, every_s: float = 0.05, why: object = ""
) -> T:
    """Poll until `condition` holds and return what it said; the bound is for broken code only."""
    return wait_until(condition, bool, within_s=within_s, every_s=every_s, why=why)


def wait_until(
    ask: Callable[[], T],
    holds: Callable[[T], object],
    *,
    within_s: float = 60.0,
    every_s: float = 0.05,
    why: object = "",
) -> T:
    """Ask until the answer satisfies `holds` and return it; the last one is in the failure.

    `why` says what is waited for; a function is called when it is too late. A pause is twice as long
    as the look before it, at least: many tests wait at once, and some looks read all of /proc.
    """
    end_s = time.monotonic() + within_s
    while True:
        began_s = time.monotonic()
        found = ask()
        if holds(found):
            return found
        now_s = time.monotonic()
        if now_s >= end_s:
            said = why() if callable(why) else why
            raise AssertionError(f"not within {within_s:g} s: {said or ask} (the last: {found!r})")
        time.sleep(max(every_s, min(2 * (now_s - began_s), PAUSE_MAX_S)))
