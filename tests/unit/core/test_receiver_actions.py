"""What a receiver may start, read from the table itself, and what becomes of what callers send."""

from __future__ import annotations

from typing import Any

import pytest

from yaffle.api.clustering.action_requests import CLUSTER_VERBS
from yaffle.core.receiver_actions import ACTIONS, Route, called, faults, inputs, inputs_of

SENLIN = {
    "ADD_NODES", "ATTACH_POLICY", "CHECK", "DELETE", "DEL_NODES", "DETACH_POLICY", "OPERATION",
    "RECOVER", "REPLACE_NODES", "RESIZE", "SCALE_IN", "SCALE_OUT", "UPDATE", "UPDATE_POLICY",
}  # fmt: skip
"""The contract: "any CLUSTER_* but CLUSTER_CREATE"."""


def test_every_cluster_action_but_create() -> None:
    assert set(ACTIONS) == {f"CLUSTER_{word}" for word in SENLIN}


def test_every_action_has_a_way() -> None:
    for name, action in ACTIONS.items():
        assert bool(action.verb) == (action.route is Route.ACT), name
    verbs = [action.verb for action in ACTIONS.values() if action.verb]
    assert len(verbs) == len(set(verbs))


GOOD: dict[str, Any] = {
    "count": 2, "adjustment_type": "EXACT_CAPACITY", "number": 1.5, "min_size": 0, "max_size": -1,
    "min_step": 1, "strict": False, "delete_check_action": True, "operation": "REBOOT",
    "operation_params": {}, "check": True, "check_capacity": False, "destroy_after_deletion": True,
    "policy_id": "p", "enabled": True, "name": "n", "profile_id": "p", "metadata": {},
    "timeout": 60, "profile_only": True, "config": {}, "force": True, "filters": {}, "params": {},
}  # fmt: skip
NODES: dict[str, Any] = {"CLUSTER_REPLACE_NODES": {"old": "new"}}


@pytest.mark.parametrize("action", sorted(ACTIONS))
def test_every_word_of_every_action_can_be_given(action: str) -> None:
    nodes = NODES.get(action, ["n1"])
    params = {key: GOOD.get(key, nodes) for key in ACTIONS[action].takes}
    assert list(faults(action, params)) == []
    assert inputs(action, params) == (params, ())


@pytest.mark.parametrize("action", sorted(ACTIONS))
def test_every_word_of_every_action_is_judged(action: str) -> None:
    for key in ACTIONS[action].takes:
        wrong: object = object()
        assert len(inputs(action, {key: wrong})[1]) == 1, key


@pytest.mark.parametrize(
    ("action", "params", "place"),
    [
        pytest.param("CLUSTER_SCALE_IN", {"count": 0}, "params.count", id="zero"),
        pytest.param("CLUSTER_SCALE_IN", {"count": -1}, "params.count", id="negative"),
        pytest.param("CLUSTER_SCALE_OUT", {"count": True}, "params.count", id="true-is-no-number"),
        pytest.param("CLUSTER_SCALE_OUT", {"count": "two"}, "params.count", id="text"),
        pytest.param("CLUSTER_SCALE_OUT", {"count": 1.5}, "params.count", id="half"),
        pytest.param(
            "CLUSTER_RESIZE", {"adjustment_type": "MORE"}, "params.adj", id="no-such-type"
        ),
        pytest.param("CLUSTER_DEL_NODES", {"nodes": ["n", "n"]}, "params.nodes", id="twice"),
        pytest.param("CLUSTER_SCALE_OUT", {"cuont": 2}, "params.cuont", id="misspelt"),
        pytest.param("CLUSTER_ADD_NODES", {"nodes": []}, "params.nodes", id="nobody"),
        pytest.param("CLUSTER_REPLACE_NODES", {"nodes": {}}, "params.nodes", id="nobody-replaced"),
        pytest.param("CLUSTER_ADD_NODES", {"nodes": "n1"}, "params.nodes", id="no-list"),
        pytest.param("CLUSTER_CHECK", {"count": 1}, "params.count", id="another-action's"),
    ],
)
def test_a_receiver_that_can_only_fail_is_refused(
    action: str, params: dict[str, object], place: str
) -> None:
    (fault,) = faults(action, params)
    assert fault.startswith(place)


def test_a_count_of_null_is_no_count() -> None:
    assert list(faults("CLUSTER_SCALE_OUT", {"count": None})) == []


@pytest.mark.parametrize("action", sorted(ACTIONS))
def test_a_caller_says_how_many_and_nothing_else(action: str) -> None:
    nodes = NODES.get(action, ["n1"])
    for key in ACTIONS[action].takes:
        value = GOOD.get(key, nodes)
        found, wrong = called(action, {}, {key: value})
        if key == "count":
            assert (found, wrong) == ({key: value}, ())
        else:
            assert [text.partition(":")[0] for text in wrong] == [f"params.{key}"]
        # What is pinned stays, even where a caller may speak, and whatever they say.
        assert called(action, {key: value}, {key: object()}) == ({key: value}, ())
    assert called(action, {}, {"severity": "low", "count": None}) == ({}, ())


def test_foreign_words_and_null_are_dropped() -> None:
    report = {"count": 3, "alarm_id": "a", "current": "alarm", "severity": "low"}
    assert inputs("CLUSTER_SCALE_OUT", report) == ({"count": 3}, ())
    assert inputs("CLUSTER_SCALE_OUT", {"count": None}) == ({}, ())


def test_the_command_line_s_texts_are_numbers_and_booleans() -> None:
    given = {
        "adjustment_type": "CHANGE_IN_PERCENTAGE",
        "number": "12.5",
        "min_step": "1",
        "strict": "False",
    }
    wanted = {**given, "number": 12.5, "min_step": 1, "strict": False}
    assert inputs("CLUSTER_RESIZE", given) == (wanted, ())


@pytest.mark.parametrize("name", sorted(n for n, a in ACTIONS.items() if a.verb))
def test_an_action_takes_what_the_api_takes(name: str) -> None:
    verb = CLUSTER_VERBS[ACTIONS[name].verb]
    assert set(ACTIONS[name].takes) == set(verb.schema["properties"])


@pytest.mark.parametrize(
    ("version", "body", "wanted"),
    [
        pytest.param(1, {"params": {"count": 2}}, {"count": 2}, id="v1-wrapped"),
        pytest.param(1, {"count": 2}, {}, id="v1-bare"),
        pytest.param(1, {"params": [1]}, {}, id="v1-no-map"),
        pytest.param(2, {"count": 2}, {"count": 2}, id="v2-bare"),
        pytest.param(9, {"count": 2}, {"count": 2}, id="v9-as-v2"),
        pytest.param(
            2, {"params": {"count": 2}}, {"params": {"count": 2}}, id="v2-is-not-unwrapped"
        ),
        pytest.param(2, [1], {}, id="list"),
        pytest.param(2, None, {}, id="nothing"),
    ],
)
def test_the_version_alone_says_where_the_inputs_are(
    version: int, body: object, wanted: dict[str, object]
) -> None:
    assert inputs_of(version, body) == wanted
