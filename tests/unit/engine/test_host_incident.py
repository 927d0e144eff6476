"""Which hosts are known to be lost: those whose incident says so, while it is open."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from sqlalchemy import insert

from yaffle.core.planning.host_attribution import key_of
from yaffle.engine.incidents.host_incident import lost_hosts
from yaffle.engine.runtime.clock import SystemClock
from yaffle.store import tables
from yaffle.store.database import open_store


@pytest.mark.parametrize(
    ("cause", "is_open", "lost"),
    [
        ("host-lost", True, {"cmp1"}),
        ("host-lost", False, set()),
        ("host-unclear", True, set()),
        ("dead", True, set()),
    ],
)
def test_a_host_is_lost_while_its_incident_as_lost_is_open(
    cause: str, is_open: bool, lost: set[str]
) -> None:
    """What is left on it is not healed as if it were well, when most of its nodes are away."""

    def work(conn: Any) -> frozenset[str]:
        values = {"id": "i", "node_id": "", "state": "open", "cause": cause, "opened_us": 1}
        key = key_of("cmp1") if is_open else None
        conn.execute(insert(tables.incidents).values(**values, open_key=key, project=""))
        return lost_hosts(conn, ["cmp1", "cmp2"])

    async def story() -> frozenset[str]:
        store = open_store("sqlite://", clock=SystemClock(), runner="inline")
        try:
            return await store.write(work)
        finally:
            await store.close()

    assert asyncio.run(story()) == lost
