"""Stored policies are parsed once; the cache is shared by threads and emptied when it is full."""

from __future__ import annotations

from typing import Any

import pytest

from yaffle.engine.detection import cluster_snapshot
from yaffle.store.rows import PolicyRow

DOCUMENT = {
    "type": "senlin.policy.health",
    "version": "1.3",
    "properties": {
        "detection": {"detection_modes": [{"type": "NODE_STATUS_POLLING"}]},
        "recovery": {},
    },
}


class Emptied(dict[Any, Any]):
    """A cache that another thread empties right after it was asked."""

    def __contains__(self, key: object) -> bool:
        found = super().__contains__(key)
        self.clear()
        return found

    def get(self, key: object, default: object = None) -> Any:
        found = super().get(key, default)
        self.clear()
        return found


def test_a_policy_is_returned_though_another_thread_empties_the_cache_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    row = PolicyRow(
        id="p", name="p", type="senlin.policy.health-1.3", spec=DOCUMENT, given=None, source="",
        warnings=[], project="", user="", domain="", created_us=0, updated_us=None,
    )  # type: ignore[arg-type]  # fmt: skip
    policy = cluster_snapshot.parsed(row)
    monkeypatch.setattr(cluster_snapshot, "_PARSED", Emptied(cluster_snapshot._PARSED))
    assert cluster_snapshot.parsed(row) == policy
