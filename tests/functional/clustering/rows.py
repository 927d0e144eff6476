"""Rows by the thousand, written past the API, for lists that are long."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence

from sqlalchemy import insert
from tests.functional.clustering.senlin import Senlin

from yaffle.store.dialects import WRITE
from yaffle.store.tables import nodes

BORN_US = 1_790_000_000_000_000


def add_nodes(senlin: Senlin, profile: str, rows: Sequence[Mapping[str, object]]) -> None:
    """Insert nodes that nobody will ever build; `rows` may say anything about each."""
    engine = senlin.live.service.store.engine.execution_options(**{WRITE: True})
    values = [
        {
            "id": str(uuid.uuid4()),
            "name": f"row-{place}",
            "profile_id": profile,
            "created_us": BORN_US + place,
            "metadata": {},
            "data": {},
            "attributes": {},
            **row,
        }
        for place, row in enumerate(rows)
    ]
    with engine.connect() as conn, conn.begin():
        conn.execute(insert(nodes), values)
