"""What was decided, and whether it still comes to the same from what was stored with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yaffle.core.recheck import Agreement, Disagreement, NotRecheckable, recheck
from yaffle.core.record import Stored
from yaffle.engine.queries import shown

if TYPE_CHECKING:
    from sqlalchemy import RowMapping

    from yaffle.core.recheck import Verdict
    from yaffle.engine.queries.shown import Shown


def stored(row: RowMapping) -> Stored:
    """Return a row as the checker takes it; what was damaged to be no object is an empty one."""
    numbers, inputs = row["numbers"], row["inputs"]
    return Stored(
        cluster_id=row["cluster_id"],
        node_id=row["node_id"],
        kind=row["kind"],
        reason=row["reason"],
        numbers=numbers if isinstance(numbers, dict) else {},
        inputs=inputs if isinstance(inputs, dict) else {},
        policy_id=row["policy_id"],
        policy_version=row["policy_version"],
        at_us=row["at_us"],
        until_us=row["until_us"],
    )


def decision(row: RowMapping) -> Shown:
    """Return a decision with everything that led to it."""
    return {
        "seq": row["seq"],
        "cluster_id": row["cluster_id"],
        "node_id": row["node_id"],
        "kind": row["kind"],
        "reason": row["reason"],
        "numbers": row["numbers"],
        "inputs": row["inputs"],
        "policy_id": row["policy_id"],
        "policy_version": row["policy_version"],
        "incident_id": row["incident_id"],
        **shown.times(at=row["at_us"], until=row["until_us"]),
        "recheck": rechecked(recheck(stored(row))),
    }


def rechecked(found: Verdict) -> Shown:
    """Return `agrees` (true, false, or null where nothing can be said) and why."""
    match found:
        case Agreement():
            return {"agrees": True, "why": ""}
        case Disagreement():
            return {
                "agrees": False,
                "why": str(found),
                "field": found.field,
                "stored": found.stored,
                "recomputed": found.recomputed,
            }
        case NotRecheckable():
            return {"agrees": None, "why": found.why}


def sentence(found: Shown) -> str:
    """Return what `why` says of it in one line."""
    match found["agrees"]:
        case True:
            return "Recomputed from what was stored with it, this decision comes to the same."
        case None:
            return f"Whether this decision was right cannot be recomputed: {found['why']}."
        case _:
            return (
                f"This decision does NOT follow from what was stored with it: {found['why']}."
                " That is a fault of Yaffle's or of the database: report it."
            )
