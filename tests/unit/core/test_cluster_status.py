"""A cluster's status from its nodes': how many are ACTIVE against how many are wanted."""

from __future__ import annotations

import pytest

from yaffle.core.health.cluster_status import judge
from yaffle.model.health import ClusterStatus


@pytest.mark.parametrize(
    ("active", "desired", "min_size", "max_size", "status", "reason"),
    [
        pytest.param(
            2, 2, 0, -1, "ACTIVE", "is equal or above desired_capacity (2).", id="as-wanted"
        ),
        pytest.param(
            3, 2, 0, 3, "ACTIVE", "is equal or above desired_capacity (2).", id="up-to-the-maximum"
        ),
        pytest.param(
            0, 0, 0, 0, "ACTIVE", "is equal or above desired_capacity (0).", id="none-wanted"
        ),
        pytest.param(1, 2, 1, -1, "WARNING", "is below desired_capacity (2).", id="too-few"),
        pytest.param(0, 2, 0, -1, "WARNING", "is below desired_capacity (2).", id="none-left"),
        pytest.param(1, 3, 2, -1, "ERROR", "is below min_size (2).", id="below-the-minimum"),
        pytest.param(4, 2, 0, 3, "WARNING", "is above max_size (3).", id="too-many"),
        pytest.param(1, 0, 0, 0, "WARNING", "is above max_size (0).", id="none-may-be"),
    ],
)
def test_judge(
    active: int, desired: int, min_size: int, max_size: int, status: str, reason: str
) -> None:
    assert judge(
        active, desired=desired, min_size=min_size, max_size=max_size, operation="CLUSTER_CHECK"
    ) == (ClusterStatus(status), f"CLUSTER_CHECK: number of active nodes {reason}")
