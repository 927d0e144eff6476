"""Clusters as objects: made, shown, found, changed, deleted; their attributes and operations."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.acceptance import shapes
from tests.acceptance.rig import Api, action_of, fresh
from tests.acceptance.world import BROKEN, KIND, World

NOWHERE = "00000000-0000-4000-8000-000000000000"


@pytest.fixture(scope="module")
def pair(world: World) -> Any:
    """A cluster of two that nobody changes."""
    return world.cluster(2, min_size=0, max_size=10, metadata={"k": "v"})


def test_create_answers_before_it_is_done(world: World) -> None:
    name = fresh("cluster")
    body = {"name": name, "profile_id": world.quick(), "desired_capacity": 2}
    body = {**body, "min_size": 1, "max_size": 5, "timeout": 600, "metadata": {"a": "b"}}
    answer = world.api.post("clusters", {"cluster": body})
    made = answer.json["cluster"]
    world.clusters.append(made["id"])
    assert answer.headers["location"].startswith(f"{world.api.root}/v1/actions/")
    shapes.check(made, shapes.CLUSTER)
    assert made["status"] == "INIT"
    assert made["status_reason"] == "Initializing"
    assert made["nodes"] == made["policies"] == []
    assert made["created_at"] is made["updated_at"] is None
    assert made["init_at"]
    wanted = {"name": name, "desired_capacity": 2, "min_size": 1, "max_size": 5, "timeout": 600}
    assert {key: made[key] for key in wanted} == wanted
    assert made["metadata"] == {"a": "b"}
    assert made["data"] == made["dependents"] == made["config"] == {}

    action = world.api.ended(answer)
    assert action["action"] == "CLUSTER_CREATE"
    after = world.api.get(f"clusters/{made['id']}")["cluster"]
    shapes.check(after, shapes.CLUSTER)
    assert after["status"] == "ACTIVE"
    assert after["status_reason"] == (
        "CLUSTER_CREATE: number of active nodes is equal or above desired_capacity (2)."
    )
    assert after["created_at"]
    assert after["init_at"] == made["init_at"]
    assert len(after["nodes"]) == 2
    nodes = world.members(made["id"])
    assert sorted(after["nodes"]) == sorted(node["id"] for node in nodes)
    assert [node["index"] for node in nodes] == [1, 2]
    assert {node["status"] for node in nodes} == {"ACTIVE"}
    assert all(re.fullmatch(r"node-[A-Za-z0-9]{8}", node["name"]) for node in nodes)


def test_defaults(world: World) -> None:
    made = world.api.post(
        "clusters", {"cluster": {"name": fresh("cluster"), "profile_id": world.quick()}}
    ).json["cluster"]
    world.clusters.append(made["id"])
    wanted = {"desired_capacity": 0, "min_size": 0, "max_size": -1, "timeout": 3600}
    assert {key: made[key] for key in wanted} == wanted
    assert made["metadata"] == {}


def test_an_empty_cluster_is_active_at_once(world: World) -> None:
    made = world.cluster()
    assert (made["status"], made["nodes"]) == ("ACTIVE", [])


def test_desired_defaults_to_the_least(world: World) -> None:
    body = {"name": fresh("cluster"), "profile_id": world.quick(), "min_size": 1}
    answer = world.api.post("clusters", {"cluster": body})
    world.clusters.append(answer.json["cluster"]["id"])
    assert answer.json["cluster"]["desired_capacity"] == 1


def test_the_profile_may_be_named(world: World) -> None:
    profile = world.profile()
    assert world.cluster(profile_id=profile["name"])["profile_id"] == profile["id"]


@pytest.mark.parametrize("value", [None, {}, {"x": {"y": [1, None]}}])
def test_metadata_is_kept_as_given(world: World, value: Any) -> None:
    answer = world.api.ask(
        "POST",
        "clusters",
        {"cluster": {"name": fresh("c"), "profile_id": world.quick(), "metadata": value}},
    )
    assert answer.status in {202, 400} if value is None else answer.status == 202, answer
    if answer.status == 202:
        world.clusters.append(answer.json["cluster"]["id"])
        assert answer.json["cluster"]["metadata"] == (value or {})


@pytest.mark.parametrize(
    ("given", "pattern"),
    [
        ("web-$3I", r"web-\d{3}"),
        ("$I-x", r"\d+-x"),
        ("n$5R", r"n[A-Za-z0-9]{5}"),
        ("n$6r", r"n[a-z0-9]{6}"),
        ("n-$R", r"n-[A-Za-z0-9]{8}"),
        ("a$2I-b$4r", r"a\d{2}-b[a-z0-9]{4}"),
    ],
)
def test_name_formats(world: World, given: str, pattern: str) -> None:
    config = {"node.name.format": given}
    cluster = world.cluster(2, config=config)
    assert cluster["config"] == config
    nodes = world.members(cluster["id"])
    assert all(re.fullmatch(pattern, node["name"]) for node in nodes), nodes
    if "I" in given:
        numbers = [int(re.sub(r"^\D*?(\d+).*$", r"\1", node["name"])) for node in nodes]
        assert numbers == [1, 2]


SIZES = [
    pytest.param(
        {"desired_capacity": 5, "max_size": 2},
        "The target capacity (5) is greater than the specified max_size (2).",
        id="above max",
    ),
    pytest.param(
        {"desired_capacity": 1, "min_size": 2},
        "The target capacity (1) is less than the specified min_size (2).",
        id="below min",
    ),
    pytest.param({"min_size": 3, "max_size": 2}, None, id="min above max"),
    pytest.param({"min_size": -1}, None, id="min -1"),
    pytest.param({"max_size": -2}, None, id="max -2"),
    pytest.param({"desired_capacity": -1}, None, id="desired -1"),
    pytest.param({"desired_capacity": 1001}, None, id="above 1000"),
    pytest.param({"max_size": 1001}, None, id="max above 1000"),
    pytest.param({"min_size": "x"}, None, id="min x"),
    pytest.param({"desired_capacity": "two"}, None, id="desired two"),
    pytest.param({"desired_capacity": {}}, None, id="desired map"),
    pytest.param({"timeout": "x"}, None, id="timeout x"),
    pytest.param({"timeout": -1}, None, id="timeout -1"),
    pytest.param({"metadata": "x"}, None, id="metadata x"),
    pytest.param({"metadata": []}, None, id="metadata list"),
    pytest.param({"config": "x"}, None, id="config x"),
    pytest.param({"bogus": 1}, "Additional properties are not allowed", id="unknown key"),
    pytest.param({"parent": None}, None, id="a column that is no property"),
    pytest.param({"name": ""}, None, id="empty name"),
    pytest.param({"name": "x" * 256}, None, id="long name"),
    pytest.param(
        {"name": "bad name!"},
        "The value for the 'name' (bad name!) contains illegal characters. It must contain only"
        ' alphanumeric or "_-.~" characters and must start with letter.',
        id="bad name",
    ),
    pytest.param(
        {"profile_id": "nope"}, "The specified profile 'nope' could not be found.", id="profile"
    ),
    pytest.param({"profile_id": None}, None, id="profile null"),
    pytest.param({"profile_id": 1}, None, id="profile 1"),
]


@pytest.mark.parametrize(("change", "message"), SIZES)
def test_creations_that_are_refused(world: World, change: Any, message: str | None) -> None:
    body = {"name": "x", "profile_id": world.quick(), **change}
    said = world.api.refused("POST", "clusters", {"cluster": body})
    if message:
        assert said == message or message in said, said
    assert world.api.get("clusters?name=x")["clusters"] == []


@pytest.mark.parametrize("value", ["2", 2.0])
def test_numbers_may_be_given_as_text(world: World, value: Any) -> None:
    body = {"name": fresh("c"), "profile_id": world.quick(), "max_size": value}
    answer = world.api.ask("POST", "clusters", {"cluster": body})
    assert answer.status in {202, 400}, answer
    if answer.status == 202:
        world.clusters.append(answer.json["cluster"]["id"])
        assert answer.json["cluster"]["max_size"] == 2


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "Request body missing 'cluster' key."),
        ({"clusters": {}}, "Request body missing 'cluster' key."),
        ({"cluster": {"name": "x"}}, "'profile_id' is a required property"),
        ({"cluster": {"profile_id": "x"}}, "'name' is a required property"),
        ({"cluster": []}, None),
        ({"cluster": None}, None),
    ],
)
def test_bodies_that_are_refused(api: Api, body: Any, message: str | None) -> None:
    api.refused("POST", "clusters", body, kind="HTTPBadRequest", message=message)


def test_a_cluster_whose_nodes_cannot_start(world: World) -> None:
    profile = world.profile(BROKEN)["id"]
    cluster = world.cluster(1, profile_id=profile, min_size=1, want="FAILED")
    assert cluster["status"] == "ERROR"
    assert cluster["desired_capacity"] == 1
    path = f"clusters/{cluster['id']}"
    change = {"cluster": {"profile_id": world.quick()}}
    world.api.refused("PATCH", path, change, status=409, kind="FeatureNotSupported")
    answer = world.api.delete(path)
    world.api.ended(answer)


@pytest.mark.parametrize("how", ["id", "name", "prefix"])
def test_show_by(world: World, pair: Any, how: str) -> None:
    ident = {"id": pair["id"], "name": pair["name"], "prefix": pair["id"][:14]}[how]
    assert world.api.get(f"clusters/{ident}")["cluster"]["id"] == pair["id"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", ""),
        ("PATCH", ""),
        ("DELETE", ""),
        ("GET", "/attrs/name"),
        ("GET", "/policies"),
        ("GET", "/policies/x"),
        ("POST", "/ops"),
        ("POST", "/actions"),
    ],
)
@pytest.mark.parametrize("ident", ["nope", NOWHERE])
def test_unknown(api: Api, method: str, path: str, ident: str) -> None:
    bodies = {
        "": {"cluster": {"name": "x"}},
        "/ops": {"reboot": {}},
        "/actions": {"check": {}},
    }
    body = (bodies[path],) if method in {"PATCH", "POST"} else ()
    message = f"The cluster '{ident}' could not be found."
    how: dict[str, Any] = {"status": 404, "kind": "ResourceNotFound", "message": message}
    api.refused(method, f"clusters/{ident}{path}", *body, **how)


def test_two_of_one_name(world: World) -> None:
    name = fresh("twin")
    for _ in range(2):
        world.cluster(name=name)
    assert len(world.api.get(f"clusters?name={name}")["clusters"]) == 2
    message = (
        f"Multiple results found matching the query criteria '{name}'. Please be more specific."
    )
    world.api.refused("GET", f"clusters/{name}", kind="MultipleChoices", message=message)
    world.api.refused("DELETE", f"clusters/{name}", kind="MultipleChoices", message=message)


# --- lists --------------------------------------------------------------------------------------------


def test_list_filters(world: World, pair: Any) -> None:
    found = world.api.get(f"clusters?name={pair['name']}")["clusters"]
    assert [item["id"] for item in found] == [pair["id"]]
    shapes.check(found[0], shapes.CLUSTER)
    assert sorted(found[0]["nodes"]) == sorted(pair["nodes"])
    found = world.api.get(f"clusters?name={pair['name']}&status=ACTIVE")["clusters"]
    assert len(found) == 1
    assert world.api.get(f"clusters?name={pair['name']}&status=ERROR")["clusters"] == []
    both = f"clusters?name={pair['name']}&status=ERROR&status=ACTIVE"
    assert len(world.api.get(both)["clusters"]) == 1


@pytest.mark.parametrize("flag", ["true", "True", "false", "FALSE"])
def test_global_project(world: World, pair: Any, flag: str) -> None:
    found = world.api.get(f"clusters?global_project={flag}")["clusters"]
    assert pair["id"] in {item["id"] for item in found}


# --- update -------------------------------------------------------------------------------------------


def test_update(world: World) -> None:
    before = world.cluster(metadata={"old": "1"})
    path = f"clusters/{before['id']}"
    change = {"name": "renamed", "metadata": {"k": "v"}, "timeout": 60}
    answer = world.api.patch(path, {"cluster": change})
    assert answer.json["cluster"] == before, "the answer is the cluster as it was"
    action = world.api.ended(answer)
    assert action["action"] == "CLUSTER_UPDATE"
    after = world.api.get(path)["cluster"]
    assert {key: after[key] for key in change} == change
    assert after["updated_at"]
    message = "No property needs an update."
    world.api.refused("PATCH", path, {"cluster": change}, kind="BadRequest", message=message)
    world.api.refused("PATCH", path, {"cluster": {"name": "renamed"}}, message=message)


def test_update_config(world: World) -> None:
    cluster = world.cluster()
    config = {"node.name.format": "later-$2I"}
    world.api.ended(world.api.patch(f"clusters/{cluster['id']}", {"cluster": {"config": config}}))
    world.acted(cluster["id"], "scale_out", {"count": 1})
    assert [node["name"] for node in world.members(cluster["id"])] == ["later-01"]


@pytest.mark.parametrize("only", [False, True, "true"])
def test_update_profile(world: World, only: Any) -> None:
    cluster = world.cluster(1)
    new = world.profile()["id"]
    change = {"profile_id": new, "profile_only": only}
    answer = world.api.patch(f"clusters/{cluster['id']}", {"cluster": change})
    world.api.ended(answer)
    assert world.api.get(f"clusters/{cluster['id']}")["cluster"]["profile_id"] == new
    (node,) = world.members(cluster["id"])
    assert node["profile_id"] == (world.quick() if only else new)


@pytest.mark.parametrize(
    ("body", "part"),
    [
        ({}, "Malformed request data, missing 'cluster' key in request body."),
        ({"x": {}}, "Malformed request data, missing 'cluster' key in request body."),
        ({"cluster": {}}, None),
        ({"cluster": {"bogus": 1}}, "Additional properties are not allowed"),
        ({"cluster": {"desired_capacity": 3}}, "Additional properties are not allowed"),
        ({"cluster": {"name": "a b"}}, None),
        ({"cluster": {"timeout": "x"}}, None),
        ({"cluster": {"metadata": []}}, None),
        ({"cluster": {"profile_only": "maybe", "name": "y"}}, None),
        ({"cluster": {"profile_id": "nope"}}, "The specified profile 'nope' could not be found."),
        ({"cluster": []}, None),
    ],
)
def test_updates_that_are_refused(world: World, pair: Any, body: Any, part: str | None) -> None:
    world.api.refused("PATCH", f"clusters/{pair['id']}", body, part=part)


# --- delete -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["plain", "query", "body", "body null"])
def test_delete(world: World, how: str) -> None:
    cluster = world.cluster(1)
    path = f"clusters/{cluster['id']}"
    node = cluster["nodes"][0]
    if how == "query":
        answer = world.api.delete(f"{path}?force=true")
    elif how == "plain":
        answer = world.api.delete(path)
    else:
        answer = world.api.ask("DELETE", path, {"force": how == "body"}, want=202)
    assert answer.text.strip() == "null"
    assert answer.json is None
    assert world.api.ended(answer)["action"] == "CLUSTER_DELETE"
    world.api.refused("GET", path, status=404, kind="ResourceNotFound")
    world.api.refused("GET", f"nodes/{node}", status=404, kind="ResourceNotFound")
    assert node not in world.server.living().values()


def test_delete_takes_receivers_and_bindings_along(world: World) -> None:
    cluster = world.cluster()["id"]
    policy = world.attached(cluster, "senlin.policy.deletion-1.0")["id"]
    receiver = world.receiver(cluster)["id"]
    world.api.ended(world.api.delete(f"clusters/{cluster}"))
    world.api.refused("GET", f"receivers/{receiver}", status=404, kind="ResourceNotFound")
    world.api.delete(f"policies/{policy}", want=204)


@pytest.mark.parametrize("flag", ["maybe", "2"])
def test_force_is_true_or_false(world: World, pair: Any, flag: str) -> None:
    world.api.refused("DELETE", f"clusters/{pair['id']}?force={flag}")


# --- attributes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("status", "ACTIVE"),
        ("profile_id", None),
        ("$.status", "ACTIVE"),
        ("tainted", False),
    ],
)
def test_attributes(world: World, pair: Any, path: str, value: Any) -> None:
    found = world.api.get(f"clusters/{pair['id']}/attrs/{path}")["cluster_attributes"]
    assert sorted(item["id"] for item in found) == sorted(pair["nodes"])
    assert all(set(item) == {"id", "value"} for item in found)
    if value is not None:
        assert {item["value"] for item in found} == {value}


def test_attributes_of_the_physical_resource(world: World, pair: Any) -> None:
    node = world.api.get(f"nodes/{pair['nodes'][0]}?show_details=true")["node"]
    key, value = next(iter(node["details"].items()))
    found = world.api.get(f"clusters/{pair['id']}/attrs/details.{key}")["cluster_attributes"]
    assert {item["id"]: item["value"] for item in found}[node["id"]] == value


def test_attributes_that_nobody_has(world: World, pair: Any) -> None:
    path = f"clusters/{pair['id']}/attrs/metadata.nothing.of.that.kind"
    assert world.api.get(path) == {"cluster_attributes": []}


@pytest.mark.parametrize("path", ["$[", "[[", "a..b[", "%5B%5D%5D", "status["])
def test_a_bad_path(world: World, pair: Any, path: str) -> None:
    world.api.refused("GET", f"clusters/{pair['id']}/attrs/{path}")


# --- operations ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"params": {"type": "HARD"}},
        {"type": "HARD"},
        {"filters": {"status": "ACTIVE"}, "params": {}},
    ],
)
def test_operations(world: World, data: Any) -> None:
    cluster = world.cluster(1)
    answer = world.api.post(f"clusters/{cluster['id']}/ops", {"reboot": data})
    assert set(answer.json) == {"action"}
    action = world.api.ended(action_of(answer))
    assert action["action"] == "CLUSTER_OPERATION"
    assert world.api.get(f"clusters/{cluster['id']}")["cluster"]["status"] == "ACTIVE"


def test_an_operation_on_some(world: World) -> None:
    cluster = world.cluster(2)["id"]
    one, two = world.members(cluster)
    world.api.ended(world.api.patch(f"nodes/{one['id']}", {"node": {"role": "blue"}}))
    pids = {node: pid for pid, node in world.server.living().items()}
    body = {"reboot": {"filters": {"role": "blue"}, "params": {"type": "HARD"}}}
    world.api.ended(world.api.post(f"clusters/{cluster}/ops", body))
    after = {node: pid for pid, node in world.server.living().items()}
    assert after[two["id"]] == pids[two["id"]]
    assert after[one["id"]] != pids[one["id"]]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            {"dance": {}},
            f"The requested operation 'dance' is not supported by the profile type '{KIND}-1.0'.",
        ),
        ({}, None),
        ({"reboot": {}, "stop": {}}, None),
        ({"reboot": []}, None),
        ({"reboot": {"filters": {"bogus": 1}}}, None),
        ({"reboot": {"filters": {"role": "nobody-has-it"}}}, None),
        ({"reboot": {"filters": {"status": "ERROR"}}}, None),
        ({"reboot": {"filters": []}}, None),
        ({"reboot": {"params": []}}, None),
        ({"reboot": {"params": {"type": "SIDEWAYS"}}}, None),
        ({"reboot": {"bogus": 1}}, None),
        ({"reboot": {"type": "SIDEWAYS"}}, None),
        ({"reboot": {"params": {}, "type": "HARD"}}, None),
    ],
)
def test_operations_that_are_refused(
    world: World, pair: Any, body: Any, message: str | None
) -> None:
    world.api.refused("POST", f"clusters/{pair['id']}/ops", body, message=message)


# --- bindings -----------------------------------------------------------------------------------------


def test_bindings(world: World) -> None:
    cluster = world.cluster()
    ident = cluster["id"]
    assert world.api.get(f"clusters/{ident}/policies") == {"cluster_policies": []}
    batch = world.attached(ident, "senlin.policy.batch-1.0")
    deletion = world.attached(ident, "senlin.policy.deletion-1.0")
    found = world.api.get(f"clusters/{ident}/policies")["cluster_policies"]
    assert {item["policy_id"] for item in found} == {batch["id"], deletion["id"]}
    for item in found:
        shapes.check(item, shapes.BINDING)
        assert item["cluster_id"] == ident
        assert item["cluster_name"] == cluster["name"]
        assert item["enabled"] is True
    shown = world.api.get(f"clusters/{ident}")["cluster"]
    assert sorted(shown["policies"]) == sorted([batch["id"], deletion["id"]])
    for key in ("id", "name"):
        one = world.api.get(f"clusters/{ident}/policies/{batch[key]}")["cluster_policy"]
        assert one["policy_id"] == batch["id"]
        assert one["policy_type"] == "senlin.policy.batch-1.0"
        assert one["policy_name"] == batch["name"]

    world.acted(ident, "policy_update", {"policy_id": batch["id"], "enabled": False})

    def asked(query: str) -> list[str]:
        found = world.api.get(f"clusters/{ident}/policies?{query}")["cluster_policies"]
        return [item["policy_id"] for item in found]

    assert asked("enabled=true") == [deletion["id"]]
    assert asked("enabled=False") == [batch["id"]]
    assert asked(f"policy_name={batch['name']}") == [batch["id"]]
    assert asked("policy_type=senlin.policy.deletion-1.0") == [deletion["id"]]
    assert asked("sort=enabled:desc") == [deletion["id"], batch["id"]]
    assert asked("sort=enabled:asc") == [batch["id"], deletion["id"]]


@pytest.mark.parametrize(
    "query", ["limit=1", f"marker={NOWHERE}", "sort=name", "bogus=1", "enabled=maybe"]
)
def test_binding_lists_that_are_refused(world: World, pair: Any, query: str) -> None:
    world.api.refused("GET", f"clusters/{pair['id']}/policies?{query}")


def test_a_binding_that_is_not(world: World, pair: Any) -> None:
    path = f"clusters/{pair['id']}/policies"
    world.api.refused(
        "GET",
        f"{path}/nope",
        status=404,
        kind="ResourceNotFound",
        message="The policy 'nope' could not be found.",
    )
    policy = world.policy("senlin.policy.deletion-1.0")["id"]
    world.api.refused("GET", f"{path}/{policy}", status=404, kind="PolicyBindingNotFound")
