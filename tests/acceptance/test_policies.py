"""Policies, their specs, and the answers to a wrong one: 400 with the place, never 500."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from tests.acceptance import shapes
from tests.acceptance.rig import Api, fresh
from tests.acceptance.world import HEALTH, SPECS, World, spec_of

KINDS = sorted(SPECS)


@pytest.fixture
def policy(world: World) -> Any:
    return world.policy("senlin.policy.deletion-1.0")


def plain(policy: Any) -> Any:
    """Return the policy with times to the second: Senlin reads them back in another form."""
    times = {key: (policy[key] or "")[:19] for key in ("created_at", "updated_at")}
    return {**policy, **times}


@pytest.mark.parametrize("kind", KINDS)
def test_create(world: World, kind: str) -> None:
    spec = spec_of(kind)
    name = fresh("policy")
    answer = world.api.post("policies", {"policy": {"name": name, "spec": spec}}, want=201)
    made = answer.json["policy"]
    shapes.check(made, shapes.POLICY)
    assert "location" not in answer.headers
    assert made["name"] == name
    assert made["type"] == kind
    assert made["spec"] == spec
    assert made["data"] == {}
    assert made["updated_at"] is None
    shown = world.api.get(f"policies/{made['id']}")["policy"]
    shapes.check(shown, shapes.POLICY)
    assert plain(shown) == plain(made)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("version", ["1.2", "1.14"])
def test_validate(world: World, kind: str, version: str) -> None:
    body = {"policy": {"spec": spec_of(kind)}}
    answer = world.api.ask("POST", "policies/validate", body, want=200, version=version)
    found = answer.json["policy"]
    assert found["id"] is None
    assert found["name"] == "validated_policy"
    assert found["type"] == kind
    assert found["spec"] == spec_of(kind)
    assert found["created_at"] is None
    assert set(found) == set(shapes.POLICY)


@pytest.mark.parametrize("how", ["id", "name", "prefix"])
def test_show_by(world: World, policy: Any, how: str) -> None:
    ident = {"id": policy["id"], "name": policy["name"], "prefix": policy["id"][:13]}[how]
    assert plain(world.api.get(f"policies/{ident}")["policy"]) == plain(policy)


@pytest.mark.parametrize("ident", ["nope", "00000000-0000-4000-8000-000000000000"])
def test_unknown(api: Api, ident: str) -> None:
    how: dict[str, Any] = {
        "status": 404,
        "kind": "ResourceNotFound",
        "message": f"The policy '{ident}' could not be found.",
    }
    api.refused("GET", f"policies/{ident}", **how)
    api.refused("DELETE", f"policies/{ident}", **how)
    api.refused("PATCH", f"policies/{ident}", {"policy": {"name": "x"}}, **how)


def test_two_of_one_name(world: World) -> None:
    name = fresh("twin")
    for _ in range(2):
        world.policy("senlin.policy.deletion-1.0", name=name)
    world.api.refused("GET", f"policies/{name}", kind="MultipleChoices")


def health(**changes: Any) -> dict[str, Any]:
    """Return a health spec 1.2; a key `a__b` reaches into `a`, None takes the key away."""
    properties = copy.deepcopy(HEALTH)
    for key, value in changes.items():
        place: Any = properties
        *above, last = key.split("__")
        for step in above:
            place = place[step]
        if value is None:
            del place[last]
        else:
            place[last] = value
    return spec_of("senlin.policy.health-1.2", properties)


URL = "NODE_STATUS_POLL_URL"
POLLING = "NODE_STATUS_POLLING"


def modes(*items: Any) -> dict[str, Any]:
    return health(
        detection__detection_modes=[
            {"type": item} if isinstance(item, str) else {"type": URL, "options": item}
            for item in items
        ]
    )


OURS = {**HEALTH, "detection": {**HEALTH["detection"], "interval": 60}}
ACCEPTED = [
    pytest.param(health(recovery__actions=[]), id="no actions"),
    pytest.param(health(detection__interval="30"), id="interval as a string"),
    pytest.param(modes({"poll_url": "http://a"}, {"poll_url": "http://b"}), id="two urls"),
    pytest.param(health(recovery__fencing=["COMPUTE"]), id="fencing"),
    pytest.param(
        health(recovery__actions=[{"name": "REBOOT"}, {"name": "REBUILD"}]), id="two actions"
    ),
    pytest.param(spec_of("senlin.policy.health-1.1"), id="1.1"),
    pytest.param(spec_of("senlin.policy.health-1.3", OURS), id="1.3 is ours"),
    pytest.param(health(recovery__actions=None), id="RECREATE is what is done if nothing is said"),
    pytest.param(
        modes({"poll_url": "http://x", "poll_url_conn_error_as_unhealty": True}), id="misspelt key"
    ),
]


@pytest.mark.parametrize("spec", ACCEPTED)
def test_health_specs_that_are_accepted(world: World, spec: Any) -> None:
    made = world.api.post("policies", {"policy": {"name": "t", "spec": spec}}, want=201).json
    assert made["policy"]["spec"] == spec


DELETION = SPECS["senlin.policy.deletion-1.0"]
SCALING = SPECS["senlin.policy.scaling-1.0"]
BATCH = SPECS["senlin.policy.batch-1.0"]


def scaling(**changes: Any) -> dict[str, Any]:
    return spec_of(
        "senlin.policy.scaling-1.0", {**SCALING, "adjustment": {**SCALING["adjustment"], **changes}}
    )


REFUSED = [
    pytest.param(health(detection__interval=-1), "interval", id="interval -1"),
    pytest.param(health(detection__interval="abc"), "interval", id="interval abc"),
    pytest.param(modes("LIFECYCLE_EVENTS", POLLING), "LIFECYCLE_EVENTS", id="events and polling"),
    pytest.param(modes(POLLING, POLLING), "detection_modes", id="twice"),
    pytest.param(health(detection__detection_modes=None), "detection_modes", id="no modes"),
    pytest.param(spec_of("senlin.policy.health-1.2", {}), "detection", id="no properties"),
    pytest.param(modes("BOGUS"), "BOGUS", id="bogus mode"),
    pytest.param(health(detection__recovery_conditional="SOME"), "SOME", id="bogus conditional"),
    pytest.param(health(recovery__fencing=["STORAGE"]), "STORAGE", id="fencing storage"),
    pytest.param(health(detection__foo=1), "foo", id="unknown key"),
    pytest.param(
        spec_of("senlin.policy.deletion-1.0", {"criteria": "BOGUS"}), "BOGUS", id="criteria"
    ),
    pytest.param(spec_of("senlin.policy.deletion-1.0", {"bogus": 1}), "bogus", id="deletion key"),
    pytest.param(
        spec_of("senlin.policy.deletion-1.0", {"grace_period": "x"}), "grace_period", id="grace"
    ),
    pytest.param(
        spec_of("senlin.policy.deletion-1.0", {"hooks": {"type": "webhook"}}),
        "hooks",
        id="no hooks in 1.0",
    ),
    pytest.param(
        spec_of("senlin.policy.deletion-1.1", {"hooks": {"type": "pigeon", "timeout": 1}}),
        "pigeon",
        id="hook type",
    ),
    pytest.param(spec_of("senlin.policy.scaling-1.0", {}), "event", id="scaling without event"),
    pytest.param(
        spec_of("senlin.policy.scaling-1.0", {"event": "CLUSTER_CHECK"}),
        "CLUSTER_CHECK",
        id="event",
    ),
    pytest.param(scaling(type="BOGUS"), "BOGUS", id="adjustment type"),
    pytest.param(scaling(number="x"), "number", id="number x"),
    pytest.param(scaling(number=-1), None, id="number -1"),
    pytest.param(scaling(cooldown="x"), "cooldown", id="cooldown x"),
    pytest.param(scaling(bogus=1), "bogus", id="adjustment key"),
    pytest.param(
        spec_of("senlin.policy.batch-1.0", {**BATCH, "max_batch_size": "x"}),
        "max_batch_size",
        id="batch size",
    ),
    pytest.param(
        spec_of("senlin.policy.batch-1.0", {**BATCH, "bogus": 1}), "bogus", id="batch key"
    ),
]


@pytest.mark.parametrize(("spec", "part"), REFUSED)
@pytest.mark.parametrize("path", ["policies", "policies/validate"])
def test_specs_that_are_refused(api: Api, path: str, spec: Any, part: str | None) -> None:
    named = {} if path.endswith("validate") else {"name": "t"}
    api.refused("POST", path, {"policy": {**named, "spec": spec}}, kind="InvalidSpec", part=part)


@pytest.mark.parametrize(
    "kind", ["senlin.policy.health-9.9", "senlin.policy.bogus-1.0", "bogus-1.0"]
)
def test_unknown_type(api: Api, kind: str) -> None:
    spec = spec_of(kind, {})
    message = f"The policy_type '{kind}' could not be found."
    body = {"policy": {"name": "t", "spec": spec}}
    api.refused("POST", "policies", body, status=404, kind="ResourceNotFound", message=message)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "Request body missing 'policy' key."),
        ({"foo": 1}, "Request body missing 'policy' key."),
        ({"policy": {"name": "x"}}, "'spec' is a required property"),
        ({"policy": {"spec": spec_of(KINDS[0])}}, "'name' is a required property"),
        ({"policy": {"name": "x", "spec": spec_of(KINDS[0]), "metadata": {}}}, None),
        ({"policy": {"name": "a b", "spec": spec_of(KINDS[0])}}, None),
        ({"policy": []}, None),
        ({"policy": {"name": "x", "spec": 1}}, None),
        ({"policy": {"name": "x", "spec": {"type": 1, "version": [], "properties": 3}}}, None),
    ],
)
def test_bodies_that_are_refused(api: Api, body: Any, message: str | None) -> None:
    kinds = ("HTTPBadRequest", "BadRequest", "InvalidSpec")
    api.refused("POST", "policies", body, kind=kinds, message=message)


def test_update(world: World, policy: Any) -> None:
    path = f"policies/{policy['id']}"
    after = world.api.patch(path, {"policy": {"name": "renamed"}}, want=200).json["policy"]
    assert plain(after) == plain({**policy, "name": "renamed", "updated_at": after["updated_at"]})
    shapes.check(after, shapes.POLICY)
    assert after["updated_at"]
    message = "No property needs an update."
    body = {"policy": {"name": "renamed"}}
    world.api.refused("PATCH", path, body, kind="BadRequest", message=message)


@pytest.mark.parametrize(
    ("body", "part"),
    [
        ({}, "Malformed request data, missing 'policy' key in request body."),
        ({"policy": {}}, None),
        ({"policy": {"spec": {}}}, None),
        ({"policy": {"name": "x", "spec": {}}}, "Additional properties are not allowed"),
        ({"policy": {"name": ""}}, None),
        ({"policy": {"name": None}}, None),
    ],
)
def test_updates_that_are_refused(world: World, policy: Any, body: Any, part: str | None) -> None:
    world.api.refused("PATCH", f"policies/{policy['id']}", body, part=part)


def test_delete(world: World, policy: Any) -> None:
    assert world.api.delete(f"policies/{policy['id']}", want=204).text == ""
    world.api.refused("GET", f"policies/{policy['id']}", status=404, kind="ResourceNotFound")


def test_delete_what_is_attached(world: World) -> None:
    cluster = world.cluster()["id"]
    policy = world.attached(cluster, "senlin.policy.deletion-1.0")
    ident = policy["id"]
    message = f"The policy '{ident}' cannot be deleted: still attached to some clusters."
    path = f"policies/{ident}"
    world.api.refused("DELETE", path, status=409, kind="ResourceInUse", message=message)
    world.acted(cluster, "policy_detach", {"policy_id": ident})
    world.api.delete(path, want=204)


def test_list_filters(world: World) -> None:
    one = world.policy("senlin.policy.batch-1.0")
    two = world.policy("senlin.policy.deletion-1.0")
    found = world.api.get(f"policies?name={one['name']}")["policies"]
    assert [plain(item) for item in found] == [plain(one)]
    found = world.api.get("policies?type=senlin.policy.batch-1.0")["policies"]
    assert one["id"] in {item["id"] for item in found}
    assert two["id"] not in {item["id"] for item in found}
    both = "policies?type=senlin.policy.batch-1.0&type=senlin.policy.deletion-1.0"
    assert {one["id"], two["id"]} <= {item["id"] for item in world.api.get(both)["policies"]}
