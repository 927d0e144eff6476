"""Nodes, with and without a cluster; their checks, recoveries, operations, and adoption."""

from __future__ import annotations

from typing import Any

import pytest
from tests.acceptance import shapes
from tests.acceptance.rig import Api, action_of, fresh
from tests.acceptance.world import BROKEN, KIND, World

NOWHERE = "00000000-0000-4000-8000-000000000000"


@pytest.fixture(scope="module")
def node(world: World) -> Any:
    """A node that nobody changes for good."""
    return world.node(role="r", metadata={"a": "b"})


@pytest.fixture(scope="module")
def cluster(world: World) -> Any:
    return world.cluster(1)


def test_create_answers_before_it_is_done(world: World) -> None:
    name = fresh("node")
    body = {"name": name, "profile_id": world.quick(), "role": "r", "metadata": {"k": 1}}
    answer = world.api.post("nodes", {"node": body})
    made = answer.json["node"]
    world.nodes.append(made["id"])
    shapes.check(made, shapes.NODE)
    assert made["status"] == "INIT"
    assert made["status_reason"] == "Initializing"
    assert (made["cluster_id"], made["index"], made["role"]) == ("", -1, "r")
    assert made["physical_id"] is made["created_at"] is made["updated_at"] is None
    assert made["metadata"] == {"k": 1}
    assert made["data"] == made["dependents"] == {}
    assert made["tainted"] is False
    assert "details" not in made

    action = world.api.ended(answer)
    assert (action["action"], action["target"]) == ("NODE_CREATE", made["id"])
    assert action["cause"] == "RPC Request"
    after = world.api.get(f"nodes/{made['id']}")["node"]
    shapes.check(after, shapes.NODE)
    assert (after["status"], after["status_reason"]) == ("ACTIVE", "Creation succeeded")
    assert after["physical_id"]
    assert after["created_at"]
    assert made["id"] in world.server.living().values()


def test_defaults(world: World) -> None:
    made = world.node()
    assert made["metadata"] == {}
    assert made["role"] in {"", None}


def test_create_in_a_cluster(world: World, cluster: Any) -> None:
    made = world.node(name="the-name-is-not-taken", cluster_id=cluster["name"], role="web")
    assert made["cluster_id"] == cluster["id"]
    assert made["index"] == 2
    assert made["role"] == "web"
    assert made["name"] != "the-name-is-not-taken"
    after = world.api.get(f"clusters/{cluster['id']}")["cluster"]
    assert made["id"] in after["nodes"]
    assert after["desired_capacity"] == 2
    world.api.ended(world.api.delete(f"nodes/{made['id']}"))
    after = world.api.get(f"clusters/{cluster['id']}")["cluster"]
    assert after["nodes"] == cluster["nodes"]
    assert after["desired_capacity"] == 1


def test_create_in_a_full_cluster(world: World) -> None:
    full = world.cluster(1, max_size=1)["id"]
    body = {"name": "x", "profile_id": world.quick(), "cluster_id": full}
    answer = world.api.ask("POST", "nodes", {"node": body})
    # Senlin answers 202 and fails later; 400 at once is welcome.
    assert answer.status in {202, 400}, answer
    if answer.status == 202:
        world.api.ended(answer, want="FAILED")


def test_a_node_that_cannot_start(world: World) -> None:
    made = world.node(profile_id=world.profile(BROKEN)["id"], want="FAILED")
    assert made["status"] == "ERROR"
    assert made["status_reason"]
    found = world.api.get(f"nodes?name={made['name']}&status=ERROR")["nodes"]
    assert [item["id"] for item in found] == [made["id"]]
    world.api.ended(world.api.delete(f"nodes/{made['id']}"))


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"name": "a b"}, None),
        ({"name": ""}, None),
        ({"name": None}, None),
        ({"profile_id": "nope"}, "The specified profile 'nope' could not be found."),
        ({"profile_id": 1}, None),
        ({"cluster_id": "nope"}, "The specified cluster 'nope' could not be found."),
        ({"metadata": "x"}, None),
        ({"role": []}, None),
        ({"bogus": 1}, "Additional properties are not allowed"),
        ({"index": 3}, "Additional properties are not allowed"),
        ({"tainted": True}, "Additional properties are not allowed"),
    ],
)
def test_creations_that_are_refused(world: World, change: Any, part: str | None) -> None:
    body = {"name": "refused", "profile_id": world.quick(), **change}
    world.api.refused("POST", "nodes", {"node": body}, part=part)
    assert world.api.get("nodes?name=refused")["nodes"] == []


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "Request body missing 'node' key."),
        ({"nodes": {}}, "Request body missing 'node' key."),
        ({"node": {"name": "x"}}, "'profile_id' is a required property"),
        ({"node": {"profile_id": "x"}}, "'name' is a required property"),
        ({"node": []}, None),
        ({"node": None}, None),
    ],
)
def test_bodies_that_are_refused(api: Api, body: Any, message: str | None) -> None:
    api.refused("POST", "nodes", body, kind="HTTPBadRequest", message=message)


@pytest.mark.parametrize("how", ["id", "name", "prefix"])
def test_show_by(world: World, node: Any, how: str) -> None:
    ident = {"id": node["id"], "name": node["name"], "prefix": node["id"][:13]}[how]
    assert world.api.get(f"nodes/{ident}")["node"]["id"] == node["id"]


@pytest.mark.parametrize("flag", ["true", "True", "false", None])
def test_details_are_shown_when_asked_for(world: World, node: Any, flag: str | None) -> None:
    query = f"?show_details={flag}" if flag else ""
    shown = world.api.get(f"nodes/{node['id']}{query}")["node"]
    asked = flag in {"true", "True"}
    assert ("details" in shown) is asked
    if asked:
        assert isinstance(shown["details"], dict)
        assert shown["details"]
    shapes.check(shown, shapes.NODE, more=frozenset({"details"}))


def test_show_details_maybe(world: World, node: Any) -> None:
    world.api.refused("GET", f"nodes/{node['id']}?show_details=maybe")
    world.api.refused("GET", f"nodes/{node['id']}?bogus=1", kind="HTTPBadRequest")


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "", None),
        ("PATCH", "", {"node": {"name": "x"}}),
        ("DELETE", "", None),
        ("POST", "/actions", {"check": {}}),
        ("POST", "/actions", {"recover": {}}),
        ("POST", "/ops", {"reboot": {}}),
    ],
)
@pytest.mark.parametrize("ident", ["nope", NOWHERE])
def test_unknown(api: Api, method: str, path: str, body: Any, ident: str) -> None:
    given = () if body is None else (body,)
    message = f"The node '{ident}' could not be found."
    how: dict[str, Any] = {"status": 404, "kind": "ResourceNotFound", "message": message}
    api.refused(method, f"nodes/{ident}{path}", *given, **how)


def test_two_of_one_name(world: World) -> None:
    name = fresh("twin")
    for _ in range(2):
        world.node(name=name)
    world.api.refused("GET", f"nodes/{name}", kind="MultipleChoices")
    assert len(world.api.get(f"nodes?name={name}")["nodes"]) == 2


def test_list_filters(world: World, node: Any, cluster: Any) -> None:
    found = world.api.get(f"nodes?name={node['name']}")["nodes"]
    assert [item["id"] for item in found] == [node["id"]]
    shapes.check(found[0], shapes.NODE)
    for ident in (cluster["id"], cluster["name"]):
        found = world.api.get(f"nodes?cluster_id={ident}")["nodes"]
        assert [item["id"] for item in found] == cluster["nodes"]
    found = world.api.get(f"nodes?name={node['name']}&status=ACTIVE&status=ERROR")["nodes"]
    assert len(found) == 1
    assert world.api.get(f"nodes?name={node['name']}&status=CREATING")["nodes"] == []
    world.api.refused("GET", "nodes?cluster_id=nope")


@pytest.mark.parametrize(
    "change",
    [
        {"name": "renamed"},
        {"role": "other"},
        {"metadata": {"k": "v"}},
        {"tainted": True},
        {"name": "n1b", "role": "r2", "tainted": True, "metadata": {}},
    ],
)
def test_update(world: World, change: dict[str, Any]) -> None:
    before = world.node(role="r", metadata={"a": 1})
    answer = world.api.patch(f"nodes/{before['id']}", {"node": change})
    answered = answer.json["node"]
    assert {key: answered[key] for key in change} == {key: before[key] for key in change}
    action = world.api.ended(answer)
    assert action["action"] == "NODE_UPDATE"
    after = world.api.get(f"nodes/{before['id']}")["node"]
    assert {key: after[key] for key in change} == change
    assert after["status"] == "ACTIVE"
    assert after["updated_at"]


def test_update_of_the_profile(world: World) -> None:
    before = world.node()
    new = world.profile()["id"]
    world.api.ended(world.api.patch(f"nodes/{before['id']}", {"node": {"profile_id": new}}))
    assert world.api.get(f"nodes/{before['id']}")["node"]["profile_id"] == new


def test_an_update_that_changes_nothing(world: World, node: Any) -> None:
    same = {"name": node["name"], "role": node["role"]}
    message = "No property needs an update."
    world.api.refused("PATCH", f"nodes/{node['id']}", {"node": same}, message=message)


@pytest.mark.parametrize(
    ("body", "part"),
    [
        ({}, "Malformed request data, missing 'node' key in request body."),
        ({"node": {}}, None),
        ({"node": {"bogus": 1}}, "Additional properties are not allowed"),
        ({"node": {"cluster_id": "x"}}, "Additional properties are not allowed"),
        ({"node": {"name": "a b"}}, None),
        ({"node": {"tainted": "maybe"}}, None),
        ({"node": {"metadata": 1}}, None),
        ({"node": {"profile_id": "nope"}}, "The specified profile 'nope' could not be found."),
    ],
)
def test_updates_that_are_refused(world: World, node: Any, body: Any, part: str | None) -> None:
    world.api.refused("PATCH", f"nodes/{node['id']}", body, part=part)


@pytest.mark.parametrize("how", ["plain", "body", "query"])
def test_delete(world: World, how: str) -> None:
    made = world.node()
    path = f"nodes/{made['id']}"
    if how == "body":
        answer = world.api.ask("DELETE", path, {"force": True}, want=202)
    else:
        answer = world.api.delete(path + ("?force=true" if how == "query" else ""))
    assert answer.json is None
    assert world.api.ended(answer)["action"] == "NODE_DELETE"
    world.api.refused("GET", path, status=404, kind="ResourceNotFound")
    assert made["id"] not in world.server.living().values()


# --- actions and operations -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verb", "data", "name"),
    [
        ("check", {}, "NODE_CHECK"),
        ("recover", {}, "NODE_RECOVER"),
        ("recover", {"operation": "REBOOT"}, "NODE_RECOVER"),
        ("recover", {"operation": "REBOOT", "operation_params": {"type": "HARD"}}, "NODE_RECOVER"),
        ("recover", {"operation": "rebuild"}, "NODE_RECOVER"),
        ("recover", {"operation": "RECREATE", "check": False}, "NODE_RECOVER"),
        ("recover", {"check": True}, "NODE_RECOVER"),
        (
            "recover",
            {"operation": "RECREATE", "check": False, "delete_timeout": 60, "force_recreate": True},
            "NODE_RECOVER",
        ),
    ],
)
def test_actions(world: World, node: Any, verb: str, data: Any, name: str) -> None:
    answer = world.api.post(f"nodes/{node['id']}/actions", {verb: data})
    assert set(answer.json) == {"action"}
    action = world.api.ended(action_of(answer))
    shapes.check(action, shapes.ACTION)
    assert (action["action"], action["target"]) == (name, node["id"])
    told = {key: value for key, value in action["inputs"].items() if key != "operation"}
    assert told == {key: value for key, value in data.items() if key != "operation"}
    assert str(action["inputs"].get("operation")).upper() == str(data.get("operation")).upper()
    after = world.api.get(f"nodes/{node['id']}")["node"]
    assert after["status"] == "ACTIVE", after
    assert list(world.server.living().values()).count(node["id"]) == 1


def test_recreate_is_done_when_asked_for_even_if_all_is_well(world: World) -> None:
    before = world.node()
    path = f"nodes/{before['id']}"
    body = {"recover": {"operation": "RECREATE"}}
    world.api.ended(world.api.post(f"{path}/actions", body))
    after = world.api.get(path)["node"]
    assert after["physical_id"] != before["physical_id"]
    assert list(world.server.living().values()).count(before["id"]) == 1


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "No action specified."),
        ({"check": {}, "recover": {}}, "Multiple actions specified."),
        ({"bogus": {}}, "Unrecognized action 'bogus' specified"),
        ({"check": None}, "The params provided is not a map."),
        ({"check": []}, "The params provided is not a map."),
        ({"recover": None}, "The params provided is not a map."),
        ({"recover": "x"}, "The params provided is not a map."),
        (
            {"recover": {"weather": "fog", "operation": "RECREATE"}},
            "Action parameter ['weather'] is not recognizable.",
        ),
        (
            {"recover": {"operation": "FOO"}},
            "Operation value 'FOO' has to be one of the following: REBOOT, REBUILD, RECREATE.",
        ),
        ({"recover": {"operation": "REBOOT", "operation_params": {"type": "ODD"}}}, None),
        ({"recover": {"operation": 5}}, None),
        ({"recover": {"check": "maybe"}}, None),
        ({"recover": {"delete_timeout": "x"}}, None),
    ],
)
def test_actions_that_are_refused(world: World, node: Any, body: Any, message: str | None) -> None:
    said = world.api.refused("POST", f"nodes/{node['id']}/actions", body)
    if message:
        assert said.rstrip(".") == message.rstrip(".")
        if message.endswith("specified."):
            assert said.endswith(".")


@pytest.mark.parametrize(
    ("operation", "params", "status"),
    [
        ("reboot", {"type": "SOFT"}, "ACTIVE"),
        ("reboot", {"type": "HARD"}, "ACTIVE"),
        ("reboot", {}, "ACTIVE"),
        ("rebuild", {}, "ACTIVE"),
        ("stop", {}, None),
        ("start", {}, "ACTIVE"),
    ],
)
def test_operations(
    world: World, node: Any, operation: str, params: Any, status: str | None
) -> None:
    answer = world.api.post(f"nodes/{node['id']}/ops", {operation: params})
    assert set(answer.json) == {"action"}
    action = world.api.ended(action_of(answer))
    assert action["action"] == "NODE_OPERATION"
    after = world.api.get(f"nodes/{node['id']}")["node"]
    if status:
        assert after["status"] == status
    running = node["id"] in world.server.living().values()
    assert running is (operation != "stop")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            {"dance": {}},
            f"The requested operation 'dance' is not supported by the profile type '{KIND}-1.0'.",
        ),
        ({}, None),
        ({"reboot": {}, "stop": {}}, None),
        ({"reboot": "x"}, None),
        ({"reboot": {"type": "ODD"}}, None),
        ({"reboot": {"bogus": 1}}, None),
    ],
)
def test_operations_that_are_refused(
    world: World, node: Any, body: Any, message: str | None
) -> None:
    world.api.refused("POST", f"nodes/{node['id']}/ops", body, message=message)


# --- adoption -----------------------------------------------------------------------------------------


def left_alone(world: World) -> Any:
    """Return a node whose process can be adopted, if another node may take it."""
    return world.node()


@pytest.mark.parametrize("path", ["nodes/adopt", "nodes/adopt-preview"])
@pytest.mark.parametrize(
    "body",
    [
        {},
        {"identity": "x"},
        {"type": f"{KIND}-1.0"},
        {"identity": "x", "type": "bogus-1.0"},
        {"identity": "x", "type": KIND},
        {"identity": "", "type": f"{KIND}-1.0"},
        {"identity": None, "type": f"{KIND}-1.0"},
        {"identity": "x", "type": f"{KIND}-1.0", "bogus": 1},
        {"identity": "x", "type": f"{KIND}-1.0", "overrides": "x"},
        {"identity": "x", "type": f"{KIND}-1.0", "snapshot": "maybe"},
    ],
)
def test_adoptions_that_are_refused(api: Api, path: str, body: Any) -> None:
    answer = api.ask("POST", path, body)
    assert answer.status in {400, 404}, answer


@pytest.mark.parametrize("path", ["nodes/adopt", "nodes/adopt-preview"])
def test_adopt_what_is_not_there(api: Api, path: str) -> None:
    body = {"identity": "no-such-thing", "type": f"{KIND}-1.0", "overrides": None, "snapshot": None}
    answer = api.ask("POST", path, body)
    assert answer.status in {400, 404, 409, 500}, answer
    if answer.status == 500:
        assert answer.json["error"]["type"] == "ProfileOperationFailed"


def test_adopt_preview(world: World) -> None:
    node = left_alone(world)
    body = {
        "identity": node["physical_id"],
        "type": f"{KIND}-1.0",
        "overrides": None,
        "snapshot": None,
    }
    answer = world.api.ask("POST", "nodes/adopt-preview", body)
    # A backend may be unable to describe what it runs; then it says so.
    assert answer.status in {200, 400, 409}, answer
    if answer.status == 200:
        preview = answer.json["node_profile"]["node_preview"]
        assert (preview["type"], preview["version"]) == (KIND, "1.0")
        assert preview["properties"]["command"] == ["sleep", "100000"]


def test_adopt(world: World) -> None:
    node = left_alone(world)
    name = fresh("adopted")
    body = {"identity": node["physical_id"], "type": f"{KIND}-1.0", "name": name, "role": "r"}
    answer = world.api.ask("POST", "nodes/adopt", body)
    assert answer.status in {200, 400, 409}, answer
    if answer.status == 200:
        made = answer.json["node"]
        world.nodes.append(made["id"])
        shapes.check(made, shapes.NODE)
        assert (made["status"], made["status_reason"]) == ("ACTIVE", "Node adopted successfully")
        assert made["profile_name"] == f"prof-{name}"
        assert made["physical_id"] == node["physical_id"]
