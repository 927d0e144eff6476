"""Asks a profile who brought a node into its state, and says what a failure is once that is known.

It stands here because several detectors ask so, and no driver imports another.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from yaffle.errors import DependencyError
from yaffle.model.operations import Actor, Cause, Reading, Target

if TYPE_CHECKING:
    from yaffle.core.health.backend_status_codes import Seen
    from yaffle.ports.context import DriverContext
    from yaffle.ports.profile import SupportsCauseLookup

log = structlog.get_logger(__name__)

CAUSES: Final = 16
"""Questions for a cause that are under way at once, of all nodes of a detector together."""
_UNFINISHED: Final = frozenset({"ST-GONE", "ST-STUCK"})
Unfound = tuple[str, str]
"""A row, and a sentence for why there is no cause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memo:
    """Why a node was as it was read then; holds for the same reading, for a while."""

    reading: Reading | None
    cause: Cause
    at_s: float


class Tracer:
    """Asks for some causes at once; never raises, and never takes longer than it was told."""

    def __init__(self, context: DriverContext) -> None:
        self._clock = context.clock
        self._turns = asyncio.Semaphore(CAUSES)

    async def ask(
        self, profile: SupportsCauseLookup, target: Target, until_s: float
    ) -> Cause | Unfound:
        """Return the cause, or a row and a sentence for why there is none."""
        try:
            async with asyncio.timeout(until_s - self._clock.monotonic_s()), self._turns:
                left_s = max(0.01, until_s - self._clock.monotonic_s())
                return await profile.cause(target, deadline_s=left_s)
        except TimeoutError:
            return "ST-UNCLEAR", "who asked for that could not be found out in time"
        except (OSError, DependencyError) as error:
            return "ST-UNCLEAR", f"who asked for that could not be found out: {error}"
        except Exception as error:
            # As for readings: a third party's driver must not end the watch.
            log.exception("profile failed to trace", profile=target.profile_type)
            return "X-BUG", f"who asked for that is unknown: {type(error).__name__}"


def unfound(seen: Seen, answer: Unfound) -> Seen:
    """Return what a failure is whose cause could not be asked for."""
    code, why = answer
    return code, f"{seen[1]}; {why}", seen[2]


def wished(seen: Seen, cause: Cause) -> Seen:
    """Return what a failure is once it is known who wanted it."""
    code, detail, word = seen
    match cause.actor:
        case Actor.USER:
            return "EV-OWN-WILL", f"{detail}; {cause.detail}", word
        case Actor.OURSELVES if code in _UNFINISHED:
            # A fence or a deletion of ours after which nothing was built: while that goes on the node
            # is locked, and afterwards nobody else would ever find out that it is missing.
            return code, f"{detail}; our own work: {cause.detail}", word
        case Actor.OURSELVES:
            # No recovery leaves a node so: somebody asked us for it.
            return "EV-OWN-WILL", f"{detail}; our own work: {cause.detail}", word
        case Actor.UNASKED:
            return "ST-UNCLEAR", f"{detail}; {cause.detail}", word
        case Actor.NOBODY | Actor.UNKNOWN:
            return code, f"{detail}; {cause.detail}" if cause.detail else detail, word
