"""Chooses which of several answers to one question is kept as the reason."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from yaffle.model.operations import Progress

CUT_SHORT: Final = 0.8
"""An attempt that has less than this share of the time of a whole one is cut short."""
_SINCE: Final = "; since then: "


def more_telling(before: Progress, now: Progress) -> Progress:
    """Return the newer answer; one that tells nothing does not push out what was told before.

    Only its words are kept: that nobody could be asked last stands beside them.
    """
    if not now.untold or before.untold:
        return now
    return replace(now, detail=since_then(before.detail, now.detail), untold=False)


def since_then(told: str, now: str) -> str:
    """Return what was told, with what was heard last beside it."""
    return f"{told.partition(_SINCE)[0]}{_SINCE}{now}"


def tells(now: tuple[bool, float], before: tuple[bool, float]) -> bool:
    """Whether an attempt that was answered or not, in so many seconds, tells as much as the one before.

    One that the end of the step cuts short says no more than that; the ones before it say why.
    """
    return now[0] > before[0] or (now[0] == before[0] and now[1] >= CUT_SHORT * before[1])
