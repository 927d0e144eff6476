"""Actions: shown, found, cancelled; and how parents and children stand to each other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.acceptance import shapes
from tests.acceptance.rig import UNFINISHED, Api, action_of
from tests.acceptance.world import World
from tests.waiting import wait_for

NOWHERE = "00000000-0000-4000-8000-000000000000"
OF_CLUSTERS = (
    *("CREATE", "DELETE", "UPDATE", "ADD_NODES", "DEL_NODES", "RESIZE", "CHECK", "RECOVER"),
    *("REPLACE_NODES", "SCALE_OUT", "SCALE_IN", "ATTACH_POLICY", "DETACH_POLICY"),
    *("UPDATE_POLICY", "OPERATION"),
)
OF_NODES = ("CREATE", "DELETE", "UPDATE", "JOIN", "LEAVE", "CHECK", "RECOVER", "OPERATION")
NAMES = [*(f"CLUSTER_{word}" for word in OF_CLUSTERS), *(f"NODE_{word}" for word in OF_NODES)]


@pytest.fixture(scope="module")
def created(world: World) -> Any:
    """A cluster of two, and the action that made it, over."""
    cluster, answer = world.asked_cluster(2)
    return cluster, world.api.ended(answer)


def test_show(world: World, created: Any) -> None:
    cluster, action = created
    shapes.check(action, shapes.ACTION)
    assert action["name"] == f"cluster_create_{cluster['id'][:8]}"
    assert action["action"] == "CLUSTER_CREATE"
    assert action["target"] == action["cluster_id"] == cluster["id"]
    assert action["cause"] == "RPC Request"
    assert action["interval"] == -1
    assert action["timeout"] == 3600
    assert action["status"] == "SUCCEEDED"
    assert action["status_reason"] == "Action completed successfully."
    assert action["depends_on"] == action["depended_by"] == []
    assert action["owner"] is None
    assert 0 < action["start_time"] <= action["end_time"]
    assert action["end_time"] > 1_700_000_000
    assert isinstance(action["start_time"], float)


@pytest.mark.parametrize(
    ("verb", "data", "name"),
    [
        ("check", {}, "cluster_check_"),
        ("scale_out", {"count": 1}, "cluster_scale_out_"),
        ("resize", {"max_size": 9}, "cluster_resize_"),
        ("policy_attach", None, "attach_policy_"),
        ("policy_detach", None, "detach_policy_"),
    ],
)
def test_names_and_inputs(world: World, verb: str, data: Any, name: str) -> None:
    cluster = world.shared.setdefault("named", world.cluster()["id"])
    if data is None:
        policy = world.shared.setdefault("policy", world.policy("senlin.policy.batch-1.0")["id"])
        data = {"policy_id": policy}
    action = world.acted(cluster, verb, data)
    assert action["name"] == f"{name}{cluster[:8]}"
    assert data.items() <= action["inputs"].items()


@pytest.mark.parametrize("how", ["id", "name", "prefix"])
def test_show_by(world: World, created: Any, how: str) -> None:
    _, action = created
    ident = {"id": action["id"], "name": action["name"], "prefix": action["id"][:13]}[how]
    assert world.api.get(f"actions/{ident}")["action"]["id"] == action["id"]


@pytest.mark.parametrize("ident", ["nope", NOWHERE])
def test_unknown(api: Api, ident: str) -> None:
    how: dict[str, Any] = {
        "status": 404,
        "kind": "ResourceNotFound",
        "message": f"The action '{ident}' could not be found.",
    }
    api.refused("GET", f"actions/{ident}", **how)
    api.refused("PATCH", f"actions/{ident}", {"action": {"status": "CANCELLED"}}, **how)


def test_children(world: World, created: Any) -> None:
    cluster, parent = created
    found = world.api.get(f"actions?cluster_id={cluster['id']}&action=NODE_CREATE")["actions"]
    assert len(found) == 2
    for child in found:
        shapes.check(child, shapes.ACTION)
        assert child["cause"] == "Derived Action"
        assert child["cluster_id"] == cluster["id"]
        assert child["status"] == "SUCCEEDED"
        assert child["name"] == f"node_create_{child['target'][:8]}"
        assert child["end_time"] <= parent["end_time"]
        assert child["depended_by"] == []


def test_a_parent_waits_for_its_children(world: World) -> None:
    cluster = world.cluster(2, profile_id=world.stubborn())["id"]
    query = f"actions?cluster_id={cluster}&action=NODE_OPERATION"

    def running() -> list[Any]:
        found = world.api.get(query)["actions"]
        return [child for child in found if child["status"] == "RUNNING" and child["start_time"]]

    with world.held():
        answer = world.api.post(f"clusters/{cluster}/ops", {"reboot": {"params": {"type": "SOFT"}}})
        parent = world.api.action(answer)
        assert parent["status"] in UNFINISHED
        children = world.api.get(query)["actions"]
        assert sorted(parent["depends_on"]) == sorted(child["id"] for child in children)
        assert [child["depended_by"] for child in children] == [[parent["id"]]] * 2
        assert all(child["end_time"] is None for child in wait_for(running))
        assert world.api.get(f"clusters/{cluster}")["cluster"]["status"] == "OPERATING"
    world.api.ended(answer)
    assert {child["status"] for child in world.api.get(query)["actions"]} == {"SUCCEEDED"}


def test_a_parent_is_woken_by_its_last_child(world: World) -> None:
    """No fixed sleeps: Senlin needs three seconds for this, each time."""
    cluster = world.cluster(2)["id"]
    checks = [world.acted(cluster, "check", {}) for _ in range(3)]
    assert min(check["end_time"] - check["start_time"] for check in checks) < 2.5


# --- lists --------------------------------------------------------------------------------------------


def test_list_filters(world: World, created: Any) -> None:
    cluster, action = created

    def asked(query: str) -> list[Any]:
        found = world.api.get(f"actions?{query}")["actions"]
        for item in found:
            shapes.check(item, shapes.ACTION)
        return list(found)

    assert [item["id"] for item in asked(f"name={action['name']}")] == [action["id"]]
    assert action["id"] in {item["id"] for item in asked(f"target={cluster['id']}")}
    assert {item["cluster_id"] for item in asked(f"cluster_id={cluster['id']}")} == {cluster["id"]}
    assert len(asked(f"cluster_id={cluster['id']}")) == 3
    assert asked(f"target={cluster['id']}&action=CLUSTER_CREATE&status=SUCCEEDED")
    assert asked(f"target={cluster['id']}&status=FAILED") == []
    both = f"cluster_id={cluster['id']}&action=CLUSTER_CREATE&action=NODE_CREATE"
    assert len(asked(both)) == 3
    assert asked(f"cluster_id={NOWHERE}") == []
    assert asked("cluster_id=nope") == []


@pytest.mark.parametrize("name", NAMES)
def test_every_name_of_an_action_is_a_filter(api: Api, name: str) -> None:
    for item in api.get(f"actions?action={name}&limit=5")["actions"]:
        assert item["action"] == name


@pytest.mark.parametrize("status", shapes.ACTION_STATUS)
def test_every_status_is_a_filter(api: Api, status: str) -> None:
    for item in api.get(f"actions?status={status}&limit=5")["actions"]:
        assert item["status"] == status


# --- cancelling ---------------------------------------------------------------------------------------


@contextmanager
def busy(world: World, size: int = 1) -> Iterator[tuple[str, str]]:
    """Yield a cluster and the action that keeps it busy until the block ends."""
    cluster = world.cluster(size, profile_id=world.stubborn())["id"]
    with world.held():
        yield cluster, action_of(world.api.post(f"clusters/{cluster}/ops", {"stop": {}}))


def cancel(world: World, action: str, query: str = "") -> Any:
    body = {"action": {"status": "CANCELLED"}}
    return world.api.ask("PATCH", f"actions/{action}{query}", body, want=202)


def test_cancel(world: World) -> None:
    with busy(world, 2) as (cluster, action):
        cancel(world, action)
    over = world.api.ended(action, want=None)
    assert over["status"] in {"CANCELLED", "SUCCEEDED", "FAILED"}
    children = world.api.get(f"actions?cluster_id={cluster}&action=NODE_OPERATION")["actions"]
    assert all(child["status"] not in UNFINISHED for child in children)
    # No lock is left: the cluster can be worked with.
    world.acted(cluster, "check", {}, want=None)


@pytest.mark.parametrize("flag", ["true", "True"])
def test_force_cancels_at_once(world: World, flag: str) -> None:
    with busy(world) as (cluster, action):
        cancel(world, action, f"?force={flag}")
        assert world.api.action(action)["status"] == "CANCELLED"
    world.acted(cluster, "check", {}, want=None)


def test_cancel_a_node_action(world: World) -> None:
    node = world.node(profile_id=world.stubborn())["id"]
    with world.held():
        action = action_of(world.api.post(f"nodes/{node}/ops", {"stop": {}}))
        cancel(world, action)
    assert world.api.ended(action, want=None)["status"] in {"CANCELLED", "SUCCEEDED", "FAILED"}
    world.api.ended(world.api.post(f"nodes/{node}/actions", {"check": {}}), want=None)


def test_what_is_over_cannot_be_cancelled(world: World, created: Any) -> None:
    _, action = created
    path = f"actions/{action['id']}"
    body = {"action": {"status": "CANCELLED"}}
    world.api.refused("PATCH", path, body, status=409, kind="ActionImmutable")
    world.api.refused("PATCH", f"{path}?force=true", body, status=409, kind="ActionImmutable")


@pytest.mark.parametrize(
    ("body", "part"),
    [
        ({"action": {"status": "FOO"}}, "Unknown status FOO for action {id}."),
        ({"action": {"status": "SUCCEEDED"}}, "Unknown status SUCCEEDED for action {id}."),
        ({"action": {}}, None),
        ({"action": {"status": None}}, None),
        ({"action": {"status": 1}}, None),
        ({"action": {"name": "x"}}, None),
        ({}, "Malformed request data, missing 'action' key in request body."),
        ({"action": []}, None),
    ],
)
def test_updates_that_are_refused(world: World, created: Any, body: Any, part: str | None) -> None:
    _, action = created
    said = world.api.refused("PATCH", f"actions/{action['id']}", body)
    if part:
        assert said == part.format(id=action["id"])


@pytest.mark.parametrize("body", [{"action": {}}, {"name": "a", "action": "CLUSTER_CHECK"}, {}])
def test_nobody_makes_actions(api: Api, body: Any) -> None:
    api.refused("POST", "actions", body, status=403, kind="Forbidden")
