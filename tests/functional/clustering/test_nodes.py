"""Nodes, as Senlin's clients use them."""

from __future__ import annotations

import pytest
from tests.functional.clustering.senlin import Senlin

KEYS = {
    "id",
    "name",
    "cluster_id",
    "physical_id",
    "profile_id",
    "profile_name",
    "user",
    "project",
    "domain",
    "index",
    "role",
    "init_at",
    "created_at",
    "updated_at",
    "status",
    "status_reason",
    "data",
    "metadata",
    "dependents",
    "tainted",
    "health",
    "backend_status",
}


def test_the_life_of_a_node(living: Senlin) -> None:
    profile = living.profile("nodes")
    body = {"node": {"name": "n1", "profile_id": profile, "role": "r", "metadata": {"a": 1}}}
    action, told = living.started("POST", "/nodes", body)
    made = told["node"]
    assert set(made) == KEYS
    assert (made["status"], made["status_reason"]) == ("INIT", "Initializing")
    assert (made["cluster_id"], made["index"]) == ("", -1)
    assert [made[k] for k in ("physical_id", "created_at", "updated_at")] == [None] * 3
    assert (made["role"], made["metadata"], made["tainted"]) == ("r", {"a": 1}, False)
    ended = living.ended(action)
    assert (ended["action"], ended["target"]) == ("NODE_CREATE", made["id"])
    shown = living.call("GET", "/nodes/n1")["node"]
    assert set(shown) == KEYS
    assert (shown["status"], shown["physical_id"] is not None) == ("ACTIVE", True)
    older = living.ask("GET", "/nodes/n1", version="1.12").json()["node"]
    assert set(older) == KEYS - {"tainted"}
    detailed = living.call("GET", "/nodes/n1?show_details=True")["node"]
    assert set(detailed) == KEYS | {"details"}
    assert detailed["details"]["physical_id"] == shown["physical_id"]
    assert living.refused("GET", "/nodes/n1?show_details=maybe")[0] == "HTTPBadRequest"

    change = {"node": {"name": "n1b", "role": "r2", "tainted": True}}
    before = living.call("GET", "/nodes/n1")["node"]
    assert living.done("PATCH", "/nodes/n1", change) == {"node": before}
    after = living.call("GET", "/nodes/n1b")["node"]
    assert (after["role"], after["tainted"]) == ("r2", True)
    living.done("POST", "/nodes/n1b/actions", {"check": {}})
    living.done("POST", "/nodes/n1b/ops", {"reboot": {}})
    body = {"recover": {"operation": "reboot", "check": "false"}}
    living.done("POST", "/nodes/n1b/actions", body)
    action, told = living.started("DELETE", "/nodes/n1b")
    assert told is None
    living.ended(action)
    assert living.refused("GET", "/nodes/n1b", want=404) == (
        "ResourceNotFound",
        "The node 'n1b' could not be found.",
    )
    events = living.call("GET", f"/events?oid={made['id']}")["events"]
    assert {e["otype"] for e in events} == {"NODE"}
    assert living.call("GET", f"/events/{events[0]['id'][:13]}") == {"event": events[0]}


@pytest.fixture(scope="module")
def waiting(senlin: Senlin) -> Senlin:
    """A node `n` that nobody builds, and an empty cluster `c`."""
    senlin.profile("p")
    senlin.started("POST", "/nodes", {"node": {"name": "n", "profile_id": "p"}})
    senlin.done("POST", "/clusters", {"cluster": {"name": "c", "profile_id": "p"}})
    return senlin


BAD, SHAPE = "BadRequest", "HTTPBadRequest"
ACTIONS = [
    ("actions", {}, SHAPE, "No action specified."),
    ("actions", {"check": {}, "recover": {}}, SHAPE, "Multiple actions specified."),
    ("actions", {"dance": {}}, SHAPE, "Unrecognized action 'dance' specified"),
    ("actions", {"check": None}, SHAPE, "The params provided is not a map."),
    (
        "actions",
        {"recover": {"weather": "fog", "operation": "RECREATE"}},
        BAD,
        "Action parameter ['weather'] is not recognizable.",
    ),
    (
        "actions",
        {"recover": {"operation": "FOO"}},
        BAD,
        "Operation value 'FOO' has to be one of the following: REBOOT, REBUILD, RECREATE.",
    ),
    (
        "ops",
        {"dance": {}},
        BAD,
        (
            "The requested operation 'dance' is not supported by the profile type"
            " 'yaffle.local.process-1.0'."
        ),
    ),
    ("ops", {}, SHAPE, "No operation specified."),
    ("ops", {"reboot": {}, "start": {}}, SHAPE, "Multiple operations specified."),
    ("ops", {"reboot": [1]}, SHAPE, "The data provided is not a map"),
    ("ops", {"reboot": None}, SHAPE, "The data provided is not a map"),
]


@pytest.mark.parametrize(("where", "body", "kind", "message"), ACTIONS)
def test_what_no_node_can_be_asked_for(
    waiting: Senlin, where: str, body: object, kind: str, message: str
) -> None:
    assert waiting.refused("POST", f"/nodes/n/{where}", body) == (kind, message)


def test_what_no_node_can_be_made_of(waiting: Senlin) -> None:
    for body, message in (
        ({"name": "x", "profile_id": "nope"}, "The specified profile 'nope' could not be found."),
        (
            {"name": "x", "profile_id": "p", "cluster_id": "nope"},
            "The specified cluster 'nope' could not be found.",
        ),
    ):
        assert waiting.refused("POST", "/nodes", {"node": body}) == (BAD, message)


def test_nodes_are_listed_by_cluster(waiting: Senlin) -> None:
    assert waiting.call("GET", "/nodes?cluster_id=c")["nodes"] == []
    assert [n["name"] for n in waiting.call("GET", "/nodes")["nodes"]] == ["n"]
    told = waiting.refused("GET", "/nodes?cluster_id=nope")
    assert told == (BAD, "Cannot find the given cluster: nope.")


def test_a_busy_node_is_not_deleted_unless_by_force(waiting: Senlin) -> None:
    waiting.started("POST", "/nodes", {"node": {"name": "busy", "profile_id": "p"}})
    status = waiting.call("GET", "/nodes/busy")["node"]["status"]
    if status in {"CREATING", "UPDATING", "DELETING", "RECOVERING"}:
        assert waiting.refused("DELETE", "/nodes/busy", want=409)[0] == "ActionInProgress"
    waiting.started("DELETE", "/nodes/busy", {"force": True})


def test_adopting_came_with_1_7(waiting: Senlin) -> None:
    body = {"identity": "1", "type": "yaffle.local.process-1.0"}
    for path in ("/nodes/adopt", "/nodes/adopt-preview"):
        assert waiting.refused("POST", path, body, version="1.6")[0] == "MethodVersionNotFound"
    nulls = {**body, "overrides": None, "snapshot": None, "identity": "no-such-thing"}
    answer = waiting.ask("POST", "/nodes/adopt-preview", nulls)
    assert 400 <= answer.status_code < 500, answer.text
