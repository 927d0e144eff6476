"""Keeps this process's wall clock in step with the database's, by which engines compare times.

Grace, rests, pauses, budgets and deadlines are rows. An engine whose machine is an hour ahead would
find every grace over and every rest ended, and one that is behind would wait for hours. So where
the database is shared its clock is everybody's (docs/adr/0010). A file has one machine's clock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from yaffle.ports.clock import SteeredClock
from yaffle.store import leases

if TYPE_CHECKING:
    from yaffle.ports import Clock
    from yaffle.store.database import Store

log = structlog.get_logger()

EVERY_S: Final = 1.0
SLACK_US: Final = 20_000
"""What two clocks may differ by before ours is moved; less than it takes to notice anything."""
TOLD_US: Final = 1_000_000
ANSWER_S: Final = 5.0


async def keep_time(store: Store, clock: Clock) -> None:
    """Ask the database for the time and steer our clock by it; raises StoreUnavailable.

    Does nothing on a file, and with a clock that cannot be steered (a simulation's).
    """
    if not isinstance(clock, SteeredClock) or not store.place.shared:
        return
    asked_us = clock.now_us()
    found_us = await store.read(leases.now, timeout_s=ANSWER_S)
    answered_s, answered_us = clock.monotonic_s(), clock.now_us()
    error_us = correction(asked_us, found_us, answered_us)
    clock.steer(answered_us + error_us, answered_s)
    if abs(error_us) > TOLD_US:
        log.warning("clock set by the database's", by_s=round(error_us / 1e6, 3))


def correction(asked_us: int, found_us: int, answered_us: int) -> int:
    """Return by how much our clock is wrong for sure; 0 while the answer may fit in between.

    The database looked at its clock somewhere between question and answer; a slow answer says
    little, and moves nothing that a quick one has set.
    """
    if found_us > answered_us + SLACK_US:
        return found_us - answered_us
    if found_us < asked_us - SLACK_US:
        return found_us - asked_us
    return 0
