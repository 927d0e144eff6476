"""A cluster's status from its nodes': how many are ACTIVE against how many are wanted."""

from __future__ import annotations

import pytest

from yaffle.core.cluster_status import evaluate
from yaffle.model.health import ClusterStatus


@pytest.mark.parametrize(
    ("statuses", "desired", "minimum", "status"),
    [
        pytest.param(["ACTIVE"] * 2, 2, 0, "ACTIVE", id="all"),
        pytest.param(["ACTIVE"] * 3, 2, 0, "ACTIVE", id="more-than-wanted"),
        pytest.param([], 0, 0, "ACTIVE", id="none-wanted"),
        pytest.param(["ACTIVE", "INIT"], 2, 0, "CREATING", id="one-to-come"),
        pytest.param(["ERROR", "CREATING"], 2, 2, "CREATING", id="creating-before-critical"),
        pytest.param(["ACTIVE", "ERROR"], 2, 1, "WARNING", id="the-minimum"),
        pytest.param(["ACTIVE", "WARNING"], 2, 0, "WARNING", id="a-sick-node-is-not-active"),
        pytest.param(["ACTIVE", "ERROR"], 3, 2, "CRITICAL", id="below-the-minimum"),
        pytest.param(["ERROR", "ERROR"], 2, 0, "CRITICAL", id="none-left"),
    ],
)
def test_evaluate(statuses: list[str], desired: int, minimum: int, status: str) -> None:
    found, reason = evaluate(statuses, desired=desired, minimum=minimum)
    assert found is ClusterStatus(status)
    assert reason == f"{statuses.count('ACTIVE')} of {desired} nodes are ACTIVE"


def test_no_minimum_is_asked_for_unless_it_is_said() -> None:
    assert evaluate(["ACTIVE", "ERROR"], desired=2)[0] is ClusterStatus.WARNING
