"""Clusters, as Senlin's clients use them: one long life with an engine, and refusals without."""

from __future__ import annotations

from typing import Any

import pytest
from tests.functional.clustering.senlin import Senlin
from tests.functional.clustering.test_policies import HEALTH

KEYS = {
    "id",
    "name",
    "profile_id",
    "profile_name",
    "user",
    "project",
    "domain",
    "init_at",
    "created_at",
    "updated_at",
    "min_size",
    "max_size",
    "desired_capacity",
    "timeout",
    "status",
    "status_reason",
    "metadata",
    "data",
    "dependents",
    "config",
    "nodes",
    "policies",
}


def cluster(senlin: Senlin, name: str) -> dict[str, Any]:
    found: dict[str, Any] = senlin.call("GET", f"/clusters/{name}")["cluster"]
    return found


def test_the_life_of_a_cluster(living: Senlin) -> None:
    profile = living.profile("life")
    body = {"cluster": {"name": "life", "profile_id": "life", "desired_capacity": 2, "max_size": 5}}
    action, told = living.started("POST", "/clusters", body)
    made = told["cluster"]
    assert set(made) == KEYS
    assert (made["status"], made["status_reason"]) == ("INIT", "Initializing")
    assert (made["nodes"], made["created_at"], made["updated_at"]) == ([], None, None)
    assert (made["min_size"], made["max_size"], made["desired_capacity"]) == (0, 5, 2)
    assert (made["profile_id"], made["profile_name"], made["timeout"]) == (profile, "life", 3600)
    ended = living.ended(action)
    assert (ended["action"], ended["cause"]) == ("CLUSTER_CREATE", "RPC Request")
    assert ended["target"] == ended["cluster_id"] == made["id"]
    assert ended["status_reason"] == "Action completed successfully."
    assert ended["depends_on"] == ended["depended_by"] == []
    shown = cluster(living, "life")
    assert shown["status"] == "ACTIVE"
    assert shown["created_at"] is not None
    assert len(shown["nodes"]) == 2
    parts = living.call("GET", f"/actions?cluster_id={made['id']}&action=NODE_CREATE")["actions"]
    assert {a["cause"] for a in parts} == {"Derived Action"}
    assert {a["target"] for a in parts} == set(shown["nodes"])

    act = "/clusters/life/actions"
    assert set(living.done("POST", act, {"scale_out": {"count": None}})) == {"action"}
    assert cluster(living, "life")["desired_capacity"] == 3
    living.done("POST", act, {"scale_in": {"count": "1"}})
    living.done("POST", act, {"resize": {"adjustment_type": "EXACT_CAPACITY", "number": 1}})
    assert len(cluster(living, "life")["nodes"]) == 1
    living.done("POST", act, {"check": {}})

    spec = {"policy": {"name": "hp", "spec": HEALTH}}
    policy = living.call("POST", "/policies", spec, want=201)["policy"]["id"]
    living.done("POST", act, {"policy_attach": {"policy_id": "hp", "enabled": False}})
    (bound,) = living.call("GET", "/clusters/life/policies")["cluster_policies"]
    assert bound["policy_id"] == policy
    assert (bound["policy_name"], bound["cluster_name"]) == ("hp", "life")
    assert bound["enabled"] is False
    one = living.call("GET", "/clusters/life/policies/hp")["cluster_policy"]
    assert one == bound
    for query in ("enabled=true", "policy_name=nope", "policy_type=nope"):
        assert living.call("GET", f"/clusters/life/policies?{query}")["cluster_policies"] == []
    query = "enabled=False&policy_name=hp&policy_type=senlin.policy.health-1.2&sort=enabled:desc"
    assert living.call("GET", f"/clusters/life/policies?{query}")["cluster_policies"] == [bound]
    assert cluster(living, "life")["policies"] == [policy]
    assert living.refused("DELETE", "/policies/hp", want=409)[0] == "ResourceInUse"
    living.done("POST", act, {"policy_update": {"policy_id": "hp", "enabled": "True"}})
    assert living.call("GET", "/clusters/life/policies/hp")["cluster_policy"]["enabled"] is True
    living.done("POST", act, {"policy_detach": {"policy_id": "hp"}})
    kind, _ = living.refused("GET", "/clusters/life/policies/hp", want=404)
    assert kind == "PolicyBindingNotFound"

    change = {"cluster": {"name": "life2", "metadata": {"k": "v"}}}
    before = cluster(living, "life")
    assert living.done("PATCH", "/clusters/life", change) == {"cluster": before}
    after = cluster(living, "life2")
    assert (after["name"], after["metadata"]) == ("life2", {"k": "v"})
    living.call("GET", "/profiles/life")
    assert living.refused("DELETE", "/profiles/life", want=409)[0] == "ResourceInUse"

    (node,) = after["nodes"]
    found = living.call("GET", "/clusters/life2/attrs/status")["cluster_attributes"]
    assert found == [{"id": node, "value": "ACTIVE"}]
    found = living.call("GET", "/clusters/life2/attrs/details.physical_id")["cluster_attributes"]
    physical = living.call("GET", f"/nodes/{node}")["node"]["physical_id"]
    assert found == [{"id": node, "value": physical}]
    assert living.call("GET", "/clusters/life2/attrs/nothing")["cluster_attributes"] == []

    living.done("POST", "/clusters/life2/ops", {"reboot": {"filters": {"status": "ACTIVE"}}})
    action, told = living.started("DELETE", f"/clusters/{made['id']}", {"force": True})
    assert told is None
    living.until("/clusters", lambda answer: not answer["clusters"])
    assert living.ended(action)["action"] == "CLUSTER_DELETE"


@pytest.fixture(scope="module")
def empty(senlin: Senlin) -> Senlin:
    """A cluster `c` without nodes, which needs no engine."""
    senlin.profile("p")
    body = {"cluster": {"name": "c", "profile_id": "p", "max_size": 2}}
    senlin.done("POST", "/clusters", body)
    return senlin


CREATE = [
    ({"name": "x"}, "HTTPBadRequest", "'profile_id' is a required property"),
    (
        {"name": "x", "profile_id": "nope"},
        "BadRequest",
        "The specified profile 'nope' could not be found.",
    ),
    (
        {"name": "x", "profile_id": "p", "desired_capacity": 5, "max_size": 2},
        "BadRequest",
        "The target capacity (5) is greater than the specified max_size (2).",
    ),
    (
        {"name": "x", "profile_id": "p", "min_size": -1},
        "HTTPBadRequest",
        "Value must be >= 0 for field 'min_size'.",
    ),
    (
        {"name": "x", "profile_id": "p", "max_size": -2},
        "HTTPBadRequest",
        "Value must be >= -1 for field 'max_size'.",
    ),
    (
        {"name": "x", "profile_id": "p", "timeout": "soon"},
        "HTTPBadRequest",
        "The value for timeout must be an integer: 'soon'.",
    ),
]


@pytest.mark.parametrize(("body", "kind", "message"), CREATE)
def test_what_no_cluster_can_be_made_of(
    empty: Senlin, body: dict[str, object], kind: str, message: str
) -> None:
    assert empty.refused("POST", "/clusters", {"cluster": body}) == (kind, message)


BAD, SHAPE, MISSING = "BadRequest", "HTTPBadRequest", "ResourceNotFound"
GONE = "The cluster 'nope' could not be found."
ACTIONS = [
    ({}, SHAPE, "No action specified"),
    (None, SHAPE, "No action specified"),
    ({"check": {}, "recover": {}}, SHAPE, "Multiple actions specified"),
    ({"bogus": {}}, SHAPE, "Unrecognized action 'bogus' specified"),
    ({"check": None}, SHAPE, "The data provided is not a map"),
    ({"check": []}, SHAPE, "The data provided is not a map"),
    ({"add_nodes": {"nodes": []}}, SHAPE, "Value for 'nodes' must have at least 1 item(s)."),
    ({"add_nodes": {}}, SHAPE, "Value for 'nodes' must have at least 1 item(s)."),
    ({"del_nodes": {"nodes": ["nope"]}}, BAD, "Nodes not found: ['nope']."),
    ({"replace_nodes": {"nodes": []}}, SHAPE, "The data provided is not a map"),
    ({"scale_in": {"count": 0}}, BAD, "Count for scale-in request cannot be 0."),
    ({"scale_out": {"count": "0"}}, BAD, "Count for scale-out request cannot be 0."),
    ({"scale_in": {"count": -1}}, SHAPE, "Value must be >= 0 for field 'count'."),
    ({"resize": {}}, SHAPE, "Not enough parameters to do resize action."),
    ({"resize": {"strict": True}}, SHAPE, "Not enough parameters to do resize action."),
    (
        {"resize": {"number": 1}},
        SHAPE,
        "Missing adjustment_type value for size adjustment.",
    ),
    (
        {"resize": {"adjustment_type": "EXACT_CAPACITY"}},
        SHAPE,
        "Missing number value for size adjustment.",
    ),
    (
        {"recover": {"operation": "FOO"}},
        BAD,
        "Operation value 'FOO' has to be one of the following: REBOOT, REBUILD, RECREATE.",
    ),
    ({"recover": {"foo": 1}}, BAD, "Action parameter ['foo'] is not recognizable."),
    (
        {"policy_attach": {"policy_id": "nope"}},
        BAD,
        "The specified policy 'nope' could not be found.",
    ),
    (
        {"policy_attach": {"policy_id": "x", "more": 1}},
        SHAPE,
        "Additional properties are not allowed ('more' was unexpected)",
    ),
]


@pytest.mark.parametrize(("body", "kind", "message"), ACTIONS)
def test_what_no_cluster_can_be_asked_for(
    empty: Senlin, body: object, kind: str, message: str
) -> None:
    assert empty.refused("POST", "/clusters/c/actions", body) == (kind, message)


RESIZE = {"min_size": 3, "max_size": 2}
LOOKED_FOR = [
    ("GET", "policies?enabled=maybe", None, 400, SHAPE, "Invalid value 'maybe'"),
    ("GET", "policies?sort=bogus", None, 400, SHAPE, "Unsupported sort key 'bogus' for 'sort'."),
    ("GET", "policies", None, 404, MISSING, GONE),
    ("GET", "attrs/None", None, 400, SHAPE, "Required path attribute is missing."),
    ("POST", "actions", {"resize": RESIZE}, 400, SHAPE, "The specified min_size (3) is greater"),
    ("POST", "actions", {"check": {"k1": "v1"}}, 404, MISSING, GONE),
]
"""In Senlin's order: some faults are told before it is known whether there is such a cluster."""


@pytest.mark.parametrize(("method", "path", "body", "status", "kind", "message"), LOOKED_FOR)
def test_what_is_told_of_a_cluster_that_is_not_there(
    senlin: Senlin, method: str, path: str, body: object, status: int, kind: str, message: str
) -> None:
    told = senlin.refused(method, f"/clusters/nope/{path}", body, want=status)
    assert told[0] == kind
    assert told[1].startswith(message)


def test_some_actions_came_later(empty: Senlin) -> None:
    body: object = {"replace_nodes": {"nodes": {"a": "b"}}}
    told = empty.refused("POST", "/clusters/c/actions", body, version="1.2")
    assert told == ("MethodVersionNotFound", "API version '1.2' is not supported on this method.")
    body = {"complete_lifecycle": {"lifecycle_action_token": "x"}}
    told = empty.refused("POST", "/clusters/c/actions", body, version="1.8")
    assert told[0] == "MethodVersionNotFound"


def test_operations_have_to_be_known(empty: Senlin) -> None:
    assert empty.refused("POST", "/clusters/c/ops", {"dance": {}}) == (
        BAD,
        (
            "The requested operation 'dance' is not supported by the profile type"
            " 'yaffle.local.process-1.0'."
        ),
    )
    told = empty.refused("POST", "/clusters/c/ops", {"reboot": {"filters": {"colour": "x"}}})
    assert told[0] == BAD
    assert empty.refused("POST", "/clusters/c/ops", {"reboot": {}})[0] == BAD


@pytest.mark.parametrize(
    "path", ["a[", "'", "x[?(@.a>1)]", "a&b", "`len`", "(" * 200, "é", "a..*..b"]
)
def test_bad_paths_are_refused(empty: Senlin, path: str) -> None:
    assert empty.refused("GET", f"/clusters/c/attrs/{path}")[0] == SHAPE


@pytest.mark.parametrize("suffix", ["", "/policies", "/attrs/status", "/policies/x"])
def test_what_is_not_there_is_not_found(empty: Senlin, suffix: str) -> None:
    assert empty.refused("GET", f"/clusters/nope{suffix}", want=404) == (
        "ResourceNotFound",
        "The cluster 'nope' could not be found.",
    )
    told = empty.refused("GET", "/clusters/c/policies/nope", want=404)
    assert told == ("ResourceNotFound", "The policy 'nope' could not be found.")


def test_nothing_to_change_is_told(empty: Senlin) -> None:
    told = empty.refused("PATCH", "/clusters/c", {"cluster": {"name": "c"}})
    assert told == (BAD, "No property needs an update.")
    assert empty.refused("PATCH", "/clusters/c", {}) == (
        SHAPE,
        "Malformed request data, missing 'cluster' key in request body.",
    )


def test_pages_of_bindings_are_not_known(empty: Senlin) -> None:
    told = empty.refused("GET", "/clusters/c/policies?limit=1")
    assert told == (SHAPE, "Invalid parameter limit")
