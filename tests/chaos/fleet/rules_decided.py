"""Decisions, judged from their own rows: each comes to the same when it is decided once more."""

from __future__ import annotations

import json
from collections.abc import Iterator

from tests.chaos.fleet.evidence import History

from yaffle.core.decision_audit.replay import Agreement, recheck
from yaffle.engine.queries.decisions import stored


def _read(value: object) -> object:
    """Return a column of JSON as it is read without SQLAlchemy: one database gives text, one values."""
    return json.loads(value) if isinstance(value, str) else value


def decided_otherwise(history: History) -> Iterator[str]:
    """What was stored is what was decided, and follows from what was stored with it."""
    for row in history.tables.get("decisions", ()):
        whole = {**row, "numbers": _read(row["numbers"]), "inputs": _read(row["inputs"])}
        found = recheck(stored(whole))
        if not isinstance(found, Agreement):
            yield f"decision {row['seq']} ({row['kind']} {row['reason']}): {found}"


RULES = (decided_otherwise,)
