"""Profiles, which are immutable but for their name and metadata."""

from __future__ import annotations

from typing import Any

import pytest
from tests.acceptance import shapes
from tests.acceptance.rig import Answer, Api, fresh
from tests.acceptance.world import KIND, QUICK, World


@pytest.fixture
def profile(world: World) -> Any:
    return world.profile(metadata={"a": "b"})


def test_create(world: World) -> None:
    name = fresh("profile")
    spec = world.spec()
    body = {"profile": {"name": name, "spec": spec, "metadata": {"a": "b"}}}
    answer = world.api.post("profiles", body, want=201)
    assert list(answer.json) == ["profile"]
    assert "location" not in answer.headers
    made = answer.json["profile"]
    shapes.check(made, shapes.PROFILE)
    assert made["name"] == name
    assert made["type"] == f"{KIND}-1.0"
    assert made["spec"] == spec, "the spec is shown as the user wrote it"
    assert made["metadata"] == {"a": "b"}
    assert made["updated_at"] is None
    assert world.api.get(f"profiles/{made['id']}") == {"profile": made}


@pytest.mark.parametrize("metadata", [None, {}])
def test_metadata_is_a_map_even_if_not_given(world: World, metadata: Any) -> None:
    made = world.profile() if metadata is None else world.profile(metadata=metadata)
    assert made["metadata"] == {}


@pytest.mark.parametrize("content_type", [None, "text/plain", "application/json; charset=utf-8"])
def test_the_content_type_may_be_missing(world: World, content_type: str | None) -> None:
    import json

    body = {"profile": {"name": fresh("profile"), "spec": world.spec()}}
    headers = {"Content-Type": content_type} if content_type else {}
    world.api.ask("POST", "profiles", content=json.dumps(body).encode(), headers=headers, want=201)


@pytest.mark.parametrize("how", ["id", "name", "prefix"])
def test_show_by(world: World, profile: Any, how: str) -> None:
    ident = {"id": profile["id"], "name": profile["name"], "prefix": profile["id"][:13]}[how]
    assert world.api.get(f"profiles/{ident}")["profile"] == profile


@pytest.mark.parametrize("method", ["GET", "PATCH", "DELETE"])
@pytest.mark.parametrize("ident", ["nope", "00000000-0000-4000-8000-000000000000"])
def test_unknown(api: Api, method: str, ident: str) -> None:
    body = {"profile": {"name": "x"}}
    message = f"The profile '{ident}' could not be found."
    how: dict[str, Any] = {"status": 404, "kind": "ResourceNotFound", "message": message}
    if method == "PATCH":
        api.refused(method, f"profiles/{ident}", body, **how)
    else:
        api.refused(method, f"profiles/{ident}", **how)


def test_two_of_one_name(world: World) -> None:
    name = fresh("twin")
    for _ in range(2):
        world.profile(name=name)
    message = (
        f"Multiple results found matching the query criteria '{name}'. Please be more specific."
    )
    for method in ("GET", "DELETE"):
        world.api.refused(method, f"profiles/{name}", kind="MultipleChoices", message=message)
    body = {"cluster": {"name": "x", "profile_id": name}}
    world.api.refused("POST", "clusters", body, kind=("MultipleChoices", "BadRequest"))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"foo": 1}, "Request body missing 'profile' key."),
        ({}, "Request body missing 'profile' key."),
        ({"profile": {"name": "x"}}, "'spec' is a required property"),
        ({"profile": {"name": "x", "spec": {}, "bogus": 1}}, None),
        ({"profile": {}}, None),
        ({"profile": []}, None),
        ({"profile": None}, None),
        ({"profile": "x"}, None),
        ({"profile": {"name": "x", "spec": []}}, None),
        ({"profile": {"name": "x", "spec": "x"}}, None),
        ({"profile": {"name": "x", "spec": None}}, None),
    ],
)
def test_bodies_that_are_refused(api: Api, body: Any, message: str | None) -> None:
    kinds = ("HTTPBadRequest", "BadRequest", "InvalidSpec")
    api.refused("POST", "profiles", body, kind=kinds, message=message)


@pytest.mark.parametrize("content", [b"", b"[]", b"null", b'"profile"', b"12"])
def test_a_body_that_is_no_object_is_no_body(api: Api, content: bytes) -> None:
    message = "Request body missing 'profile' key."
    api.refused("POST", "profiles", kind="HTTPBadRequest", content=content, message=message)


@pytest.mark.parametrize("content", [b"{", b'{"profile": }', b"{'profile': 1}", b'{"a": \xff\xfe}'])
def test_a_body_that_is_no_json(api: Api, content: bytes) -> None:
    assert api.ask("POST", "profiles", content=content).status == 400


def test_a_body_that_is_too_large(api: Api) -> None:
    content = b'{"profile": {"name": "' + b"x" * (1_048_576 + 10) + b'"}}'
    assert api.ask("POST", "profiles", content=content).status == 400


NAMES_GOOD = ["a", "A-b_c.d~e", "x" * 255, "中文", "abc123"]
NAMES_BAD = ["", "x" * 256, "a b", "a/b", "a!", "a\n", "é?", "<x>", "a;b", "a'b"]


@pytest.mark.parametrize("name", NAMES_GOOD)
def test_good_names(world: World, name: str) -> None:
    assert world.profile(name=name)["name"] == name


@pytest.mark.parametrize("name", NAMES_BAD)
def test_bad_names(world: World, name: str) -> None:
    body = {"profile": {"name": name, "spec": world.spec()}}
    world.api.refused("POST", "profiles", body, kind="HTTPBadRequest")


SPECS_BAD = [
    pytest.param({"properties": {}}, (400,), None, id="no type"),
    pytest.param({"type": KIND, "properties": QUICK}, (400,), None, id="no version"),
    pytest.param({"type": KIND, "version": "1.0"}, (400,), None, id="no properties"),
    pytest.param({"type": KIND, "version": "1.0", "properties": {}}, (400,), "command", id="empty"),
    pytest.param(
        {"type": KIND, "version": "1.0", "properties": {"command": "ls"}},
        (400,),
        "command",
        id="wrong type of a property",
    ),
    pytest.param(
        {"type": KIND, "version": "1.0", "properties": {**QUICK, "bogus": 1}},
        (400,),
        "bogus",
        id="unknown property",
    ),
    pytest.param(
        {"type": "bogus", "version": "1.0", "properties": {}},
        (400, 404),
        "bogus",
        id="unknown type",
    ),
    pytest.param(
        {"type": KIND, "version": "9.9", "properties": QUICK},
        (400, 404),
        "9.9",
        id="unknown version",
    ),
    pytest.param(
        {"type": KIND, "version": "1.0", "properties": []}, (400,), None, id="properties as a list"
    ),
]


def check_refused_spec(answer: Answer, statuses: tuple[int, ...], part: str | None) -> None:
    assert answer.status in statuses, answer
    error = answer.json["error"]
    assert error["type"] in {"InvalidSpec", "ResourceNotFound", "HTTPBadRequest", "BadRequest"}, (
        answer
    )
    if part:
        assert part in error["message"], answer


@pytest.mark.parametrize(("spec", "statuses", "part"), SPECS_BAD)
@pytest.mark.parametrize("path", ["profiles", "profiles/validate"])
def test_bad_specs(
    api: Api, path: str, spec: Any, statuses: tuple[int, ...], part: str | None
) -> None:
    named = {} if path.endswith("validate") else {"name": "x"}
    answer = api.ask("POST", path, {"profile": {**named, "spec": spec}})
    check_refused_spec(answer, statuses, part)


def test_a_missing_property_is_named(api: Api) -> None:
    spec = {"type": KIND, "version": "1.0", "properties": {}}
    body = {"profile": {"name": "x", "spec": spec}}
    api.refused("POST", "profiles", body, kind="InvalidSpec", part="command")


@pytest.mark.parametrize(
    "change", [{"name": "other"}, {"metadata": {"k": "v"}}, {"name": "third", "metadata": {}}]
)
def test_update(world: World, profile: Any, change: dict[str, Any]) -> None:
    answer = world.api.patch(f"profiles/{profile['id']}", {"profile": change}, want=200)
    after = answer.json["profile"]
    shapes.check(after, shapes.PROFILE)
    assert after == {**profile, **change, "updated_at": after["updated_at"]}
    assert after["updated_at"]
    assert world.api.get(f"profiles/{profile['id']}")["profile"] == after


@pytest.mark.parametrize("change", ["same", {}])
def test_an_update_that_changes_nothing(world: World, profile: Any, change: Any) -> None:
    given = {"name": profile["name"]} if change == "same" else change
    world.api.refused(
        "PATCH",
        f"profiles/{profile['id']}",
        {"profile": given},
        kind=("BadRequest", "HTTPBadRequest"),
        message="No property needs an update." if change == "same" else None,
    )


@pytest.mark.parametrize(
    ("body", "part"),
    [
        ({}, "Malformed request data, missing 'profile' key in request body."),
        ({"foo": 1}, "Malformed request data, missing 'profile' key in request body."),
        ({"profile": {"spec": {"type": KIND}}}, "Additional properties are not allowed"),
        ({"profile": {"bogus": 1}}, "Additional properties are not allowed"),
        ({"profile": {"name": "a b"}}, None),
        ({"profile": {"metadata": "x"}}, None),
        ({"profile": []}, None),
    ],
)
def test_updates_that_are_refused(world: World, profile: Any, body: Any, part: str | None) -> None:
    world.api.refused("PATCH", f"profiles/{profile['id']}", body, part=part)


def test_delete(world: World, profile: Any) -> None:
    answer = world.api.delete(f"profiles/{profile['id']}", want=204)
    assert answer.text == ""
    world.api.refused("GET", f"profiles/{profile['id']}", status=404, kind="ResourceNotFound")


@pytest.mark.parametrize("user", ["cluster", "node"])
def test_delete_what_is_in_use(world: World, profile: Any, user: str) -> None:
    if user == "cluster":
        world.cluster(profile_id=profile["id"])
    else:
        world.node(profile_id=profile["id"])
    message = (
        f"The profile '{profile['id']}' cannot be deleted: still referenced by some clusters"
        " and/or nodes."
    )
    path = f"profiles/{profile['id']}"
    world.api.refused("DELETE", path, status=409, kind="ResourceInUse", message=message)


@pytest.mark.parametrize("version", ["1.2", "1.14", None])
def test_validate(world: World, version: str | None) -> None:
    before = world.api.get("profiles")
    spec = world.spec()
    answer = world.api.ask(
        "POST", "profiles/validate", {"profile": {"spec": spec}}, want=200, version=version
    )
    found = answer.json["profile"]
    assert found["id"] is None
    assert found["name"] == "validated_profile"
    assert found["type"] == f"{KIND}-1.0"
    assert found["spec"] == spec
    assert found["created_at"] is None
    assert found["updated_at"] is None
    assert set(found) == set(shapes.PROFILE)
    assert world.api.get("profiles") == before


@pytest.mark.parametrize(
    "body", [{}, {"profile": {}}, {"profile": {"name": "x"}}, {"profile": {"spec": {}, "x": 1}}]
)
def test_validate_refuses(api: Api, body: Any) -> None:
    kinds = ("HTTPBadRequest", "BadRequest", "InvalidSpec")
    api.refused("POST", "profiles/validate", body, kind=kinds)


def test_list_filters(world: World) -> None:
    one, two = world.profile(), world.profile()
    found = world.api.get(f"profiles?name={one['name']}")["profiles"]
    assert found == [one]
    found = world.api.get(f"profiles?name={one['name']}&name={two['name']}")["profiles"]
    assert [item["id"] for item in found] == [one["id"], two["id"]]
    found = world.api.get(f"profiles?type={KIND}-1.0")["profiles"]
    assert {one["id"], two["id"]} <= {item["id"] for item in found}
    assert world.api.get("profiles?type=os.nova.server-1.0")["profiles"] == []
    assert world.api.get("profiles?name=nobody")["profiles"] == []
