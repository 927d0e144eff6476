"""When a reading says that what is stored of a node's copy is not true of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from yaffle.core.health.backend_status_codes import copy_of
from yaffle.model.health import OtherCopy
from yaffle.model.ids import NodeId
from yaffle.model.operations import Reading, Target

KNOWN: Mapping[str, object] = {"host": "cmp1", "node_ip": "192.0.2.1"}
ELSEWHERE: Mapping[str, object] = {"host": "cmp2"}


def target(physical_id: str = "s-1", attributes: Mapping[str, object] = KNOWN) -> Target:
    return Target(
        node_id=NodeId("n-1"), name="web", physical_id=physical_id,
        profile_type="os.nova.server-1.0", spec={}, attributes=attributes,
    )  # fmt: skip


def reading(**changed: Any) -> Reading:
    words: dict[str, Any] = {"exists": True, "up": True, "physical_id": "s-1"}
    return Reading(backend_status="ACTIVE", detail="", **{**words, **changed})


@pytest.mark.parametrize(
    ("node", "seen", "present"),
    [
        pytest.param(target(), reading(), None, id="nothing is told of it"),
        pytest.param(target(), reading(attributes={"host": "cmp1"}), None, id="as it is known"),
        pytest.param(target(), reading(attributes=ELSEWHERE), "s-1", id="moved"),
        pytest.param(target(attributes={}), reading(attributes=ELSEWHERE), "s-1", id="new to us"),
        pytest.param(target(), reading(attributes=ELSEWHERE, exists=False), None, id="gone"),
        pytest.param(
            target(""), reading(attributes=ELSEWHERE, physical_id=""), None, id="never made"
        ),
        pytest.param(target("s-0"), reading(attributes=ELSEWHERE), "s-1", id="another copy"),
    ],
)
def test_what_is_told_of_a_copy(node: Target, seen: Reading, present: str | None) -> None:
    told = copy_of(node, seen)
    if present is None:
        assert told is None
    else:
        known = node.physical_id
        assert told == OtherCopy(known=known, present=present, attributes=ELSEWHERE)


@pytest.mark.parametrize(
    "facts", [["x"], "cmp2", 7, {"host": object()}, {"host": float("nan")}, {1j: "x"}]
)
@pytest.mark.parametrize("known", ["s-1", "s-0"])
def test_what_no_row_could_keep_is_no_fact(facts: Any, known: str) -> None:
    """A driver that says nonsense of one node must not end the engine of all."""
    told = copy_of(target(known), reading(attributes=facts))
    assert told == (None if known == "s-1" else OtherCopy(known=known, present="s-1"))
