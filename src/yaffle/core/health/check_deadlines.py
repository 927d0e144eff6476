"""Deadlines of a node's health: when it may next change by time alone, and need not be computed before.

Between an observation and that moment `conclude` would return what it was given. It is true of a
clock that goes forward: after one that was set back every node has to be looked at again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yaffle.core.health.staleness import SECOND, freshness

if TYPE_CHECKING:
    from yaffle.core.health.verdict import NodeMemory
    from yaffle.model.ids import ModeKey
    from yaffle.model.policy import Detection


def next_change_us(memory: NodeMemory, detection: Detection, now_us: int) -> int | None:
    """Return the first moment after `now_us` at which `conclude` may come to something else.

    None for never. `memory` was concluded under `detection` at `now_us`. What can change: an
    observation grows stale, a mode has not been heard of for too long, grace ends.
    """
    moments = [_stale_us(memory, k, old_us) for k, old_us in freshness(detection).items()]
    if memory.grace_us is not None:
        moments.append(memory.grace_us + int(detection.node_update_timeout_s * SECOND))
    return min((m for m in moments if m is not None and m > now_us), default=None)


def _stale_us(memory: NodeMemory, mode: ModeKey, stale_us: int) -> int | None:
    track = memory.tracks.get(mode)
    if track is None:
        since_us = memory.unheard_us
    else:
        since_us = None if track.last is None else track.last.at_us
    return None if since_us is None else since_us + stale_us + 1
