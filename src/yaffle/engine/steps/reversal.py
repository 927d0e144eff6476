"""Reverses what happened to a node by the cheapest operation, before the policy's actions (seed 1).

"A server stopped by accident can be simply recovered by starting it again; a paused server can be
unpaused quickly instead of being recreated."
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from yaffle.core.health.diagnosis import failing
from yaffle.ports import SupportsUndo

if TYPE_CHECKING:
    from yaffle.core.health.verdict import NodeMemory
    from yaffle.store.rows import NodeRow


def of(memory: NodeMemory, row: NodeRow) -> dict[str, object]:
    """Return the words of seed 1 for the first failing observation that bears a hint; else nothing."""
    for seen in failing(memory):
        if seen.hint is not None:
            said = {
                "event": seen.hint.event,
                "state": seen.hint.state,
                "instance_id": row.physical_id,
                "timestamp": datetime.fromtimestamp(seen.at_us // 1_000_000, UTC).isoformat(),
                "publisher": seen.hint.publisher,
            }
            return {key: value for key, value in said.items() if value}
    return {}


def cure(driver: object, asked: Mapping[str, object]) -> str:
    """Return the operation that undoes `asked["event"]`; empty where the profile `driver` knows none."""
    event = asked.get("event")
    if not isinstance(driver, SupportsUndo) or not isinstance(event, str):
        return ""
    return driver.cures.get(event, "")
