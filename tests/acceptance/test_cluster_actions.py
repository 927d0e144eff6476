"""Every action of a cluster, what it does, and every wrong input it must refuse."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest
from tests.acceptance import shapes
from tests.acceptance.rig import action_of
from tests.acceptance.world import World
from tests.waiting import wait_for

NOWHERE = "00000000-0000-4000-8000-000000000000"


@pytest.fixture(scope="module")
def pair(world: World) -> Any:
    """A cluster of two, one to three, that nobody changes."""
    return world.cluster(2, min_size=1, max_size=3)


@pytest.fixture(scope="module")
def bound(world: World) -> Any:
    """An empty cluster with one policy attached, and that policy."""
    cluster = world.cluster()
    return cluster, world.attached(cluster["id"], "senlin.policy.batch-1.0")


def size(world: World, cluster: str) -> tuple[int, int]:
    """Return the desired capacity and the number of members."""
    found = world.api.get(f"clusters/{cluster}")["cluster"]
    return found["desired_capacity"], len(found["nodes"])


# --- the envelope -------------------------------------------------------------------------------------

VERBS = [
    *("add_nodes", "del_nodes", "replace_nodes", "scale_in", "scale_out", "resize", "check"),
    *("recover", "policy_attach", "policy_detach", "policy_update", "complete_lifecycle"),
]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "No action specified"),
        ({"check": {}, "recover": {}}, "Multiple actions specified"),
        ({"bogus": {}}, "Unrecognized action 'bogus' specified"),
        ({"CHECK": {}}, "Unrecognized action 'CHECK' specified"),
        ({"create": {}}, "Unrecognized action 'create' specified"),
        ({"delete": {}}, "Unrecognized action 'delete' specified"),
        ({"": {}}, "Unrecognized action '' specified"),
    ],
)
def test_envelopes_that_are_refused(world: World, pair: Any, body: Any, message: str) -> None:
    path = f"clusters/{pair['id']}/actions"
    world.api.refused("POST", path, body, kind="HTTPBadRequest", message=message)


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("data", [None, [], "x", 1, True])
def test_data_that_is_no_map(world: World, pair: Any, verb: str, data: Any) -> None:
    world.api.refused(
        "POST",
        f"clusters/{pair['id']}/actions",
        {verb: data},
        kind="HTTPBadRequest",
        message="The data provided is not a map",
    )


@pytest.mark.parametrize("verb", VERBS)
def test_an_unknown_key(world: World, bound: Any, verb: str) -> None:
    cluster, policy = bound
    data = {
        "policy_attach": {"policy_id": policy["id"]},
        "policy_detach": {"policy_id": policy["id"]},
        "policy_update": {"policy_id": policy["id"], "enabled": True},
    }.get(verb, {})
    answer = world.act(cluster["id"], verb, {**data, "bogus": 1}, want=(400, 202))
    if verb in {"recover", "policy_attach", "policy_detach", "policy_update"}:
        assert answer.status == 400, answer
    if answer.status == 202:
        world.api.ended(answer, want=None)


# --- wrong inputs -------------------------------------------------------------------------------------

WRONG: list[Any] = [
    pytest.param("add_nodes", {}, None, id="add: no nodes"),
    pytest.param(
        "add_nodes",
        {"nodes": []},
        "Value for 'nodes' must have at least 1 item(s).",
        id="add: empty",
    ),
    pytest.param("add_nodes", {"nodes": "x"}, None, id="add: text"),
    pytest.param("add_nodes", {"nodes": {}}, None, id="add: map"),
    pytest.param("add_nodes", {"nodes": [1]}, None, id="add: number"),
    pytest.param("add_nodes", {"nodes": ["nope", "nope"]}, None, id="add: twice"),
    pytest.param("add_nodes", {"nodes": ["nope"]}, "Nodes not found: ['nope'].", id="add: unknown"),
    pytest.param(
        "add_nodes",
        {"nodes": ["{member}"]},
        "Nodes ['{member}'] already owned by some cluster.",
        id="add: owned",
    ),
    pytest.param("del_nodes", {}, None, id="del: no nodes"),
    pytest.param(
        "del_nodes",
        {"nodes": []},
        "Value for 'nodes' must have at least 1 item(s).",
        id="del: empty",
    ),
    pytest.param("del_nodes", {"nodes": ["nope"]}, "Nodes not found: ['nope'].", id="del: unknown"),
    pytest.param("del_nodes", {"nodes": ["{orphan}"]}, None, id="del: not a member"),
    pytest.param(
        "del_nodes",
        {"nodes": ["{member}"], "destroy_after_deletion": "maybe"},
        None,
        id="del: destroy maybe",
    ),
    pytest.param("del_nodes", {"nodes": ["{member}", "{other}"]}, None, id="del: below min"),
    pytest.param(
        "replace_nodes", {"nodes": []}, "The data provided is not a map", id="replace: list"
    ),
    pytest.param("replace_nodes", {}, None, id="replace: no nodes"),
    pytest.param("replace_nodes", {"nodes": {}}, None, id="replace: empty"),
    pytest.param("replace_nodes", {"nodes": {"nope": "{orphan}"}}, None, id="replace: old unknown"),
    pytest.param("replace_nodes", {"nodes": {"{member}": "nope"}}, None, id="replace: new unknown"),
    pytest.param(
        "replace_nodes", {"nodes": {"{orphan}": "{orphan}"}}, None, id="replace: old no member"
    ),
    pytest.param(
        "replace_nodes", {"nodes": {"{member}": "{other}"}}, None, id="replace: new is a member"
    ),
    pytest.param(
        "replace_nodes",
        {"nodes": {"{member}": "{orphan}", "{other}": "{orphan}"}},
        None,
        id="replace: one for two",
    ),
    pytest.param("replace_nodes", {"nodes": {"{member}": 1}}, None, id="replace: number"),
    pytest.param(
        "scale_in", {"count": 0}, "Count for scale-in request cannot be 0.", id="in: zero"
    ),
    pytest.param(
        "scale_out", {"count": 0}, "Count for scale-out request cannot be 0.", id="out: zero"
    ),
    pytest.param(
        "scale_in", {"count": -1}, "Value must be >= 0 for field 'count'.", id="in: negative"
    ),
    pytest.param(
        "scale_out", {"count": -1}, "Value must be >= 0 for field 'count'.", id="out: negative"
    ),
    pytest.param("scale_in", {"count": "x"}, None, id="in: text"),
    pytest.param("scale_out", {"count": "x"}, None, id="out: text"),
    pytest.param("scale_out", {"count": []}, None, id="out: list"),
    pytest.param("scale_out", {"count": 1.5}, None, id="out: one and a half"),
    pytest.param("scale_in", {"count": 2}, None, id="in: below min"),
    pytest.param("scale_out", {"count": 2}, None, id="out: above max"),
    pytest.param("scale_out", {"count": 10**20}, None, id="out: enormous"),
    pytest.param("resize", {}, "Not enough parameters to do resize action.", id="resize: nothing"),
    pytest.param(
        "resize",
        {"number": 1},
        "Missing adjustment_type value for size adjustment.",
        id="resize: no type",
    ),
    pytest.param(
        "resize",
        {"adjustment_type": "EXACT_CAPACITY"},
        "Missing number value for size adjustment.",
        id="resize: no number",
    ),
    pytest.param(
        "resize", {"adjustment_type": "BOGUS", "number": 1}, None, id="resize: bogus type"
    ),
    pytest.param(
        "resize", {"adjustment_type": "EXACT_CAPACITY", "number": "x"}, None, id="resize: number x"
    ),
    pytest.param(
        "resize", {"adjustment_type": "EXACT_CAPACITY", "number": -1}, None, id="resize: exact -1"
    ),
    pytest.param(
        "resize", {"adjustment_type": "EXACT_CAPACITY", "number": 9}, None, id="resize: above max"
    ),
    pytest.param(
        "resize", {"adjustment_type": "EXACT_CAPACITY", "number": 0}, None, id="resize: below min"
    ),
    pytest.param(
        "resize", {"adjustment_type": "CHANGE_IN_CAPACITY", "number": 9}, None, id="resize: +9"
    ),
    pytest.param(
        "resize", {"adjustment_type": "CHANGE_IN_CAPACITY", "number": -9}, None, id="resize: -9"
    ),
    pytest.param("resize", {"min_size": 3, "max_size": 1}, None, id="resize: min above max"),
    pytest.param("resize", {"min_size": -1}, None, id="resize: min -1"),
    pytest.param("resize", {"max_size": -2}, None, id="resize: max -2"),
    pytest.param("resize", {"min_size": "x"}, None, id="resize: min x"),
    pytest.param(
        "resize",
        {"adjustment_type": "CHANGE_IN_PERCENTAGE", "number": 50, "min_step": -1},
        None,
        id="resize: step -1",
    ),
    pytest.param(
        "resize",
        {"adjustment_type": "EXACT_CAPACITY", "number": 2, "strict": "maybe"},
        None,
        id="resize: strict maybe",
    ),
    pytest.param("resize", {"max_size": 1}, None, id="resize: max below desired, strict"),
    pytest.param("resize", {"min_size": 3}, None, id="resize: min above desired, strict"),
    pytest.param("check", {"delete_check_action": "maybe"}, None, id="check: maybe"),
    pytest.param(
        "recover",
        {"operation": "FOO"},
        "Operation value 'FOO' has to be one of the following: REBOOT, REBUILD, RECREATE.",
        id="recover: operation",
    ),
    pytest.param(
        "recover", {"foo": 1}, "Action parameter ['foo'] is not recognizable.", id="recover: key"
    ),
    pytest.param(
        "recover",
        {"operation": "REBOOT", "operation_params": {"type": "MEDIUM"}},
        None,
        id="recover: reboot type",
    ),
    pytest.param("recover", {"check": "maybe"}, None, id="recover: check maybe"),
    pytest.param("recover", {"check_capacity": "maybe"}, None, id="recover: capacity maybe"),
    pytest.param("policy_attach", {}, None, id="attach: nothing"),
    pytest.param(
        "policy_attach",
        {"policy_id": "nope"},
        "The specified policy 'nope' could not be found.",
        id="attach: unknown",
    ),
    pytest.param("policy_attach", {"policy_id": None}, None, id="attach: null"),
    pytest.param("policy_attach", {"policy_id": 1}, None, id="attach: number"),
    pytest.param(
        "policy_attach", {"policy_id": "{policy}", "enabled": "maybe"}, None, id="attach: maybe"
    ),
    pytest.param(
        "policy_attach", {"policy_id": "{policy}", "priority": 1}, None, id="attach: priority"
    ),
    pytest.param("policy_detach", {}, None, id="detach: nothing"),
    pytest.param("policy_detach", {"policy_id": "nope"}, None, id="detach: unknown"),
    pytest.param(
        "policy_detach",
        {"policy_id": "{policy}"},
        "The policy '{policy}' is not attached to the specified cluster '{cluster}'.",
        id="detach: not attached",
    ),
    pytest.param(
        "policy_update", {"policy_id": "nope", "enabled": True}, None, id="update: unknown"
    ),
    pytest.param(
        "policy_update",
        {"policy_id": "{policy}", "enabled": True},
        "The policy '{policy}' is not attached to the specified cluster '{cluster}'.",
        id="update: not attached",
    ),
    pytest.param("policy_update", {"policy_id": "{policy}"}, None, id="update: no change"),
    pytest.param(
        "policy_update", {"policy_id": "{policy}", "enabled": "maybe"}, None, id="update: maybe"
    ),
    pytest.param("complete_lifecycle", {}, None, id="lifecycle: nothing"),
    pytest.param("complete_lifecycle", {"lifecycle_action_token": 7}, None, id="lifecycle: number"),
]


@pytest.fixture(scope="module")
def cast(world: World, pair: Any) -> dict[str, str]:
    """Who plays in the wrong inputs."""
    return {
        "cluster": pair["id"],
        "member": pair["nodes"][0],
        "other": pair["nodes"][1],
        "orphan": world.node()["id"],
        "policy": world.policy("senlin.policy.deletion-1.0")["id"],
    }


def filled(value: Any, cast: dict[str, str]) -> Any:
    """Put the cast in the place of their names."""
    if isinstance(value, str):
        for name, ident in cast.items():
            value = value.replace(f"{{{name}}}", ident)
        return value
    if isinstance(value, list):
        return [filled(item, cast) for item in value]
    if isinstance(value, dict):
        return {filled(key, cast): filled(item, cast) for key, item in value.items()}
    return value


@pytest.mark.parametrize(("verb", "data", "message"), WRONG)
def test_wrong_inputs(
    world: World, pair: Any, cast: dict[str, str], verb: str, data: Any, message: str | None
) -> None:
    said = world.api.refused(
        "POST", f"clusters/{pair['id']}/actions", {verb: filled(data, cast)}, status=400
    )
    if message is not None:
        assert said == filled(message, cast)
    assert world.api.get(f"actions?target={pair['id']}&status=RUNNING")["actions"] == []


def test_after_all_wrong_inputs_the_cluster_is_what_it_was(world: World, pair: Any) -> None:
    assert world.api.get(f"clusters/{pair['id']}")["cluster"] == pair


def test_an_unknown_lifecycle_token(world: World, pair: Any) -> None:
    body = {"complete_lifecycle": {"lifecycle_action_token": NOWHERE}}
    path = f"clusters/{pair['id']}/actions"
    message = f"The action '{NOWHERE}' could not be found."
    world.api.refused("POST", path, body, status=404, kind="ResourceNotFound", message=message)


# --- what they do -------------------------------------------------------------------------------------


def test_add_and_del_nodes(world: World) -> None:
    cluster = world.cluster(1)["id"]
    node = world.node(role="r")
    answer = world.act(cluster, "add_nodes", {"nodes": [node["name"]]})
    assert set(answer.json) == {"action"}
    action = world.api.ended(action_of(answer))
    shapes.check(action, shapes.ACTION)
    assert action["action"] == "CLUSTER_ADD_NODES"
    assert size(world, cluster) == (2, 2)
    joined = world.api.get(f"nodes/{node['id']}")["node"]
    assert (joined["cluster_id"], joined["index"]) == (cluster, 2)
    assert joined["physical_id"] == node["physical_id"]

    world.acted(cluster, "del_nodes", {"nodes": [node["id"]]})
    assert size(world, cluster) == (1, 1)
    left = world.api.get(f"nodes/{node['id']}")["node"]
    assert (left["cluster_id"], left["index"], left["status"]) == ("", -1, "ACTIVE")
    assert node["id"] in world.server.living().values()

    world.acted(cluster, "add_nodes", {"nodes": [node["id"]]})
    again = world.api.get(f"nodes/{node['id']}")["node"]
    assert again["index"] == 3, "an index is never given twice"
    world.acted(cluster, "del_nodes", {"nodes": [node["id"]], "destroy_after_deletion": True})
    world.api.refused("GET", f"nodes/{node['id']}", status=404, kind="ResourceNotFound")
    assert node["id"] not in world.server.living().values()


def test_add_what_is_too_much(world: World) -> None:
    cluster = world.cluster(1, max_size=1)["id"]
    node = world.node()["id"]
    body = {"add_nodes": {"nodes": [node]}}
    world.api.refused("POST", f"clusters/{cluster}/actions", body, kind="BadRequest")


def test_replace_nodes(world: World) -> None:
    cluster = world.cluster(2)["id"]
    old = world.members(cluster)[0]
    new = world.node()
    world.acted(cluster, "replace_nodes", {"nodes": {old["id"]: new["id"]}})
    assert size(world, cluster) == (2, 2)
    members = {node["id"] for node in world.members(cluster)}
    assert new["id"] in members
    assert old["id"] not in members
    left = world.api.get(f"nodes/{old['id']}")["node"]
    assert (left["cluster_id"], left["index"]) == ("", -1)
    world.nodes.append(old["id"])


@pytest.mark.parametrize("data", [{}, {"count": None}, {"count": 1}, {"count": "1"}])
def test_scale_by_one(world: World, data: Any) -> None:
    cluster = world.shared.setdefault("scaled", world.cluster(1)["id"])
    before = size(world, cluster)[0]
    action = world.acted(cluster, "scale_out", data)
    assert action["action"] == "CLUSTER_SCALE_OUT"
    assert size(world, cluster) == (before + 1, before + 1)
    action = world.acted(cluster, "scale_in", data)
    assert action["action"] == "CLUSTER_SCALE_IN"
    assert size(world, cluster) == (before, before)


RESIZES = [
    # start, data, desired, min, max
    (1, {"adjustment_type": "EXACT_CAPACITY", "number": 3}, 3, 0, -1),
    (3, {"adjustment_type": "EXACT_CAPACITY", "number": 0}, 0, 0, -1),
    (1, {"adjustment_type": "CHANGE_IN_CAPACITY", "number": 2}, 3, 0, -1),
    (3, {"adjustment_type": "CHANGE_IN_CAPACITY", "number": -2}, 1, 0, -1),
    (2, {"adjustment_type": "CHANGE_IN_PERCENTAGE", "number": 50}, 3, 0, -1),
    (3, {"adjustment_type": "CHANGE_IN_PERCENTAGE", "number": 50}, 4, 0, -1),
    (1, {"adjustment_type": "CHANGE_IN_PERCENTAGE", "number": 10}, 2, 0, -1),
    (2, {"adjustment_type": "CHANGE_IN_PERCENTAGE", "number": -10}, 1, 0, -1),
    (1, {"adjustment_type": "CHANGE_IN_PERCENTAGE", "number": 10, "min_step": 2}, 3, 0, -1),
    (2, {"adjustment_type": "CHANGE_IN_PERCENTAGE", "number": 25.0}, 3, 0, -1),
    (1, {"min_size": 1, "max_size": 4}, 1, 1, 4),
    (2, {"max_size": 1, "strict": False}, 1, 0, 1),
    (1, {"min_size": 2, "strict": False}, 2, 2, -1),
    (
        1,
        {"adjustment_type": "EXACT_CAPACITY", "number": 9, "max_size": 2, "strict": False},
        2,
        0,
        2,
    ),
    (
        2,
        {
            "adjustment_type": "CHANGE_IN_CAPACITY",
            "number": -5,
            "min_size": 1,
            "max_size": 3,
            "strict": False,
        },
        1,
        1,
        3,
    ),
    (
        1,
        {
            "adjustment_type": "EXACT_CAPACITY",
            "number": 2,
            "min_size": None,
            "max_size": None,
            "min_step": None,
            "strict": None,
        },
        2,
        0,
        -1,
    ),
]


@pytest.mark.parametrize(("start", "data", "desired", "least", "most"), RESIZES)
def test_resize(world: World, start: int, data: Any, desired: int, least: int, most: int) -> None:
    cluster = world.cluster(start)["id"]
    answer = world.act(cluster, "resize", data, want=(202, 400))
    if answer.status == 400:
        assert None in data.values() or 25.0 in data.values(), answer
        world.act(cluster, "resize", {k: v for k, v in data.items() if v is not None and v != 25.0})
        return
    action = world.api.ended(answer)
    assert action["action"] == "CLUSTER_RESIZE"
    assert size(world, cluster) == (desired, desired)
    found = world.api.get(f"clusters/{cluster}")["cluster"]
    assert (found["min_size"], found["max_size"], found["status"]) == (least, most, "ACTIVE")


def test_check_makes_a_check_of_every_node(world: World) -> None:
    cluster = world.cluster(2)
    action = world.acted(cluster["id"], "check", {})
    assert action["action"] == "CLUSTER_CHECK"
    found = world.api.get(f"actions?cluster_id={cluster['id']}&action=NODE_CHECK")["actions"]
    assert sorted(item["target"] for item in found) == sorted(cluster["nodes"])
    assert {item["cause"] for item in found} == {"Derived Action"}
    assert {item["cluster_id"] for item in found} == {cluster["id"]}


@pytest.mark.parametrize("flag", [True, False, "true"])
def test_delete_check_action(world: World, flag: Any) -> None:
    cluster = world.cluster()["id"]
    answer = world.act(cluster, "check", {"delete_check_action": flag})
    ident = action_of(answer)
    if flag in {True, "true"}:
        # The row may go once the check is over.
        assert world.api.ask("GET", f"actions/{ident}").status in {200, 404}
    else:
        world.api.ended(ident)


def kill_one(world: World, node: str) -> None:
    """Kill the process behind a node and wait until it is gone."""

    for pid, owner in world.server.living().items():
        if owner == node:
            os.kill(pid, signal.SIGKILL)
    wait_for(lambda: node not in world.server.living().values())


def test_check_sees_a_dead_node_and_recover_heals_it(world: World) -> None:
    cluster = world.cluster(2)
    ident, victim = cluster["id"], cluster["nodes"][0]
    kill_one(world, victim)
    world.acted(ident, "check", {}, want=None)
    node = world.api.get(f"nodes/{victim}")["node"]
    assert node["status"] != "ACTIVE"
    assert world.api.get(f"clusters/{ident}")["cluster"]["status"] == "WARNING"
    action = world.acted(ident, "recover", {"operation": "RECREATE"})
    assert action["action"] == "CLUSTER_RECOVER"
    after = world.api.get(f"clusters/{ident}")["cluster"]
    assert after["status"] == "ACTIVE"
    assert victim in after["nodes"]
    assert sorted(world.server.living().values()).count(victim) == 1


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"operation": "REBOOT"},
        {"operation": "reboot", "operation_params": {"type": "SOFT"}},
        {"operation": "Rebuild"},
        {"operation": "RECREATE", "check": True},
        {"check": False},
        {"check": "true"},
    ],
)
def test_recover_what_is_well(world: World, data: Any) -> None:
    cluster = world.shared.setdefault("well", world.cluster(1)["id"])
    action = world.acted(cluster, "recover", data)
    assert action["action"] == "CLUSTER_RECOVER"
    assert world.api.get(f"clusters/{cluster}")["cluster"]["status"] == "ACTIVE"


def test_recover_with_check_finds_the_dead_by_itself(world: World) -> None:
    cluster = world.cluster(1)
    kill_one(world, cluster["nodes"][0])
    world.acted(cluster["id"], "recover", {"check": True, "operation": "RECREATE"})
    assert world.api.get(f"nodes/{cluster['nodes'][0]}")["node"]["status"] == "ACTIVE"
    assert cluster["nodes"][0] in world.server.living().values()


def test_check_capacity_fills_the_cluster_up(world: World) -> None:
    cluster = world.cluster(2)
    ident = cluster["id"]
    keeping = {"destroy_after_deletion": True, "reduce_desired_capacity": False}
    world.attached(ident, "senlin.policy.deletion-1.0", {"criteria": "OLDEST_FIRST", **keeping})
    world.acted(ident, "del_nodes", {"nodes": cluster["nodes"][:1]})
    assert size(world, ident) == (2, 1)
    world.acted(ident, "recover", {"check": True})
    assert size(world, ident) == (2, 1)
    world.acted(ident, "recover", {"check": True, "check_capacity": True})
    assert size(world, ident) == (2, 2)
    assert world.api.get(f"clusters/{ident}")["cluster"]["status"] == "ACTIVE"


def test_attach_twice_is_a_no_op(world: World) -> None:
    cluster = world.cluster()["id"]
    policy = world.policy("senlin.policy.batch-1.0")
    action = world.acted(cluster, "policy_attach", {"policy_id": policy["name"], "enabled": False})
    assert action["action"] == "CLUSTER_ATTACH_POLICY"
    assert action["inputs"]["enabled"] is False
    assert action["inputs"]["policy_id"] == policy["id"]
    again = world.acted(cluster, "policy_attach", {"policy_id": policy["id"]})
    assert again["status_reason"] == "Action completed successfully."
    (binding,) = world.api.get(f"clusters/{cluster}/policies")["cluster_policies"]
    assert binding["enabled"] is False
    action = world.acted(cluster, "policy_update", {"policy_id": policy["id"], "enabled": True})
    assert action["action"] == "CLUSTER_UPDATE_POLICY"
    action = world.acted(cluster, "policy_detach", {"policy_id": policy["name"]})
    assert action["action"] == "CLUSTER_DETACH_POLICY"
    assert world.api.get(f"clusters/{cluster}")["cluster"]["policies"] == []


@pytest.mark.parametrize(
    "kind", ["senlin.policy.batch-1.0", "senlin.policy.deletion-1.0", "senlin.policy.health-1.2"]
)
def test_a_second_policy_of_a_singleton_type_fails(world: World, kind: str) -> None:
    cluster = world.cluster()["id"]
    first = world.attached(cluster, kind)["id"]
    second = world.policy(kind)["id"]
    world.acted(cluster, "policy_attach", {"policy_id": second}, want="FAILED")
    assert world.api.get(f"clusters/{cluster}")["cluster"]["policies"] == [first]


def test_two_scaling_policies_may_live_together(world: World) -> None:
    cluster = world.cluster()["id"]
    world.attached(cluster, "senlin.policy.scaling-1.0")
    adjustment = {"type": "CHANGE_IN_CAPACITY", "number": 1, "cooldown": 0}
    world.attached(
        cluster,
        "senlin.policy.scaling-1.0",
        {"event": "CLUSTER_SCALE_IN", "adjustment": adjustment},
    )
    assert len(world.api.get(f"clusters/{cluster}")["cluster"]["policies"]) == 2
