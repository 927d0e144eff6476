"""The rules of hosts' incidents, asked of the rows after each write: one for each host and outage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from sqlalchemy import select

from yaffle.store.tables import incidents

HOSTS = ("host-lost", "host-unclear")
QUARANTINED = "host-quarantined"


class Outages:
    """Asked when incidents have changed; `fail` is told of what should not be."""

    def __init__(self, engine: Any, fail: Callable[[str], None]) -> None:
        self._engine, self._fail = engine, fail

    def __call__(self) -> None:
        with self._engine.connect() as conn, conn.begin():
            rows = conn.execute(select(incidents)).all()
        whole = {r.id: r for r in rows if r.node_id == ""}
        parts = [r for r in rows if r.parent_id is not None]
        named = Counter(
            f"{r.node_name}, {r.cause == QUARANTINED}"
            for r in whole.values()
            if r.open_key is not None
        )
        for name, count in named.items():
            if count > 1:
                self._fail(f"{count} incidents of {name} are open at once")
        open_parts = Counter(r.parent_id for r in parts if r.open_key is not None)
        for row in whole.values():
            if row.cause == QUARANTINED:
                self._of_quarantine(row, open_parts[row.id])
                continue
            if row.cause not in HOSTS or not row.node_name.startswith("host "):
                self._fail(f"an incident of no node is none of a host: {row.node_name}")
            if (row.open_key is not None) is not bool(open_parts[row.id]):
                self._fail(
                    f"the incident of {row.node_name} is {row.state},"
                    f" and {open_parts[row.id]} of its parts are open"
                )
        for row in parts:
            if row.parent_id not in whole:
                self._fail(f"the incident of {row.node_name} is part of one that is none of a host")

    def _of_quarantine(self, row: Any, parts: int) -> None:
        """It has copies and no parts, and ends only when each is gone, or by a person's word."""
        if parts:
            self._fail(f"the quarantine of {row.node_name} has parts")
        copies = row.hold_numbers["copies"]
        left = [c["physical_id"] for c in copies if c["known"] != "gone"]
        proved = row.open_key is None and row.acknowledged_us is None
        if not copies or (proved and left):
            self._fail(
                f"the quarantine of {row.node_name} is {row.state}, and {left} are left there"
            )
