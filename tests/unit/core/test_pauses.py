"""Which pauses cover a node, and until when."""

from __future__ import annotations

import pytest
from tests.unit.core.build import CLUSTER, T0, pause

from yaffle.core.planning.pauses import covering, covers, in_force
from yaffle.model.ids import ClusterId, NodeId
from yaffle.model.incident import Pause, PauseKind


@pytest.mark.parametrize(
    ("starts", "expires", "inside"),
    [
        pytest.param(0, None, True, id="begins-now"),
        pytest.param(1, None, False, id="not-yet"),
        pytest.param(-1, 1, True, id="inside"),
        pytest.param(-1, 0, False, id="ends-now"),
        pytest.param(-2, -1, False, id="over"),
    ],
)
def test_in_force(starts: int, expires: int | None, inside: bool) -> None:
    ends = None if expires is None else T0 + expires
    assert in_force(pause(starts_us=T0 + starts, expires_us=ends), T0) is inside


@pytest.mark.parametrize(
    ("scope", "target", "inside"),
    [
        pytest.param("all", "", True, id="all"),
        pytest.param("cluster", "c", True, id="its-cluster"),
        pytest.param("cluster", "d", False, id="another-cluster"),
        pytest.param("cluster", "n1", False, id="a-cluster-named-like-the-node"),
        pytest.param("node", "n1", True, id="the-node"),
        pytest.param("node", "n2", False, id="another-node"),
        pytest.param("node", "c", False, id="a-node-named-like-the-cluster"),
    ],
)
def test_covers(scope: str, target: str, inside: bool) -> None:
    assert covers(pause(scope=scope, target=target), NodeId("n1"), CLUSTER) is inside


def test_covering_names_the_longest_first() -> None:
    pauses = [
        pause(id="short", expires_us=T0 + 1),
        pause(id="b-endless"),
        pause(id="long", expires_us=T0 + 9),
        pause(id="a-endless"),
        pause(id="over", starts_us=T0 - 9, expires_us=T0),
        pause(id="stop", kind="stop"),
        pause(id="elsewhere", scope="node", target="n2"),
    ]

    def named(kind: PauseKind) -> list[str]:
        found: tuple[Pause, ...] = covering(pauses, kind, NodeId("n1"), ClusterId("c"), T0)
        return [p.id for p in found]

    assert named(PauseKind.MAINTENANCE) == ["a-endless", "b-endless", "long", "short"]
    assert named(PauseKind.STOP) == ["stop"]


def test_an_expiry_at_the_epoch_is_not_endless() -> None:
    early = [pause(id="ends", starts_us=-9, expires_us=0), pause(id="later", starts_us=-9)]
    found = covering(early, PauseKind.MAINTENANCE, NodeId("n"), CLUSTER, -1)
    assert [p.id for p in found] == ["later", "ends"]
