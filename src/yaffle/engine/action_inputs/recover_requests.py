"""Requests to recover that could not begin at once: how long they wait, and how they end.

What a person wants done to a node at once may be wrong an hour later: the node may have healed, or
have been healed. So a request that had to wait is a request to look first, unless it says `force`;
and one that waited for too long ends, and says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from yaffle.model.action import ActionKind
from yaffle.model.incident import HoldReason
from yaffle.store import actions

if TYPE_CHECKING:
    from yaffle.store.rows import ActionRow

REQUEST_S: Final = 900
"""A person's request that could not be admitted for so long is dropped, and says so."""
LATE_S: Final = 60
"""One that is begun later than this speaks of a node as it was, whatever kept it."""
NOT_BEGUN: Final = "nothing was done, for the node is well by now and the request is an old one"
HELD: Final = "held"
"""Under this key a request's inputs name the last guard that held it, but for those of its turn."""
TURNS: Final = frozenset({HoldReason.IN_FLIGHT, HoldReason.RATE})
"""Who waits for these waits for its turn among others; only time makes such a request late."""
FORCE: Final = "force"
"""Under this key they say that a node that is well by then is recovered all the same."""


def expires_us(action: ActionRow) -> int | None:
    """Return when a request that waits is dropped; None for what is none."""
    waits = action.status == actions.WAITING and action.lock_key is not None
    if not waits or action.action != ActionKind.NODE_RECOVER:
        return None
    return action.created_us + REQUEST_S * 1_000_000


def held(action: ActionRow, reason: HoldReason) -> dict[str, object]:
    """Return the columns that say in a request that waits what holds it; empty where they say so."""
    said = f"held: {reason.value}"
    if expires_us(action) is None or action.status_reason == said:
        return {}
    kept = {} if reason in TURNS else {HELD: reason.value}
    return {"status_reason": said, "inputs": {**action.inputs, **kept}}


def waited_for(action: ActionRow) -> str:
    """Return why a request that has begun is to look first; empty where it acts on its word.

    A clock that was set back says nothing of how long it waited, so that it counts as long.
    """
    if action.inputs.get(FORCE) is True:
        return ""
    if guard := action.inputs.get(HELD):
        return f"it was held ({guard})"
    begun_us = action.start_us or action.created_us
    waited_s = (begun_us - action.created_us) / 1e6
    return "" if 0 <= waited_s <= LATE_S else "nothing could begin it at once"
