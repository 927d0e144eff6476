"""Every decision that a simulated engine stores is made once more from its row alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import select

from yaffle.core.decision_audit.replay import Agreement, recheck
from yaffle.engine.queries.decisions import stored
from yaffle.store.tables import decisions


class Recheck:
    """Asked when there are new ones; `fail` is told of the first that differs."""

    def __init__(self, engine: Any, fail: Callable[[str], None]) -> None:
        self._engine = engine
        self._fail = fail
        self._after = 0
        self.agreed = 0

    def __call__(self) -> None:
        query = select(decisions).where(decisions.c.seq > self._after).order_by(decisions.c.seq)
        with self._engine.connect() as conn, conn.begin():
            rows = conn.execute(query).mappings().all()
        for row in rows:
            self._after = row["seq"]
            found = recheck(stored(row))
            if not isinstance(found, Agreement):
                self._fail(f"decision {row['seq']} ({row['kind']} {row['reason']}): {found}")
            self.agreed += 1
