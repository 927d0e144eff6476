"""Profile types and policy types, in both shapes, with schemas and operations."""

from __future__ import annotations

from typing import Any

import pytest
from tests.acceptance.rig import Api
from tests.acceptance.world import KIND

POLICIES = [
    "senlin.policy.health-1.0",
    "senlin.policy.health-1.1",
    "senlin.policy.health-1.2",
    "senlin.policy.health-1.3",
    "senlin.policy.deletion-1.0",
    "senlin.policy.deletion-1.1",
    "senlin.policy.scaling-1.0",
    "senlin.policy.batch-1.0",
]
BOTH = [("profile", f"{KIND}-1.0"), *(("policy", name) for name in POLICIES)]
OLD = ["1.0", "1.4"]
NEW = ["1.5", "1.14", None]


def check_schema(schema: Any) -> None:
    """Every node of a schema has a type, a need, and a shape below it."""
    assert isinstance(schema, dict), schema
    assert schema["type"] in {"String", "Integer", "Number", "Boolean", "Map", "List"}, schema
    assert isinstance(schema["required"], bool), schema
    assert isinstance(schema.get("description", ""), str)
    assert isinstance(schema.get("updatable", False), bool)
    for constraint in schema.get("constraints", []):
        assert set(constraint) == {"type", "constraint"}, schema
        if constraint["type"] == "AllowedValues":
            assert isinstance(constraint["constraint"], list), schema
    below = schema.get("schema", {})
    if schema["type"] == "List" and below:
        assert list(below) == ["*"], schema
    for item in below.values():
        check_schema(item)


def named(found: list[dict[str, Any]]) -> set[str]:
    return {f"{item['name']}-{item['version']}" for item in found}


@pytest.mark.parametrize("version", NEW)
@pytest.mark.parametrize(
    ("path", "key", "wanted"),
    [
        ("profile-types", "profile_types", {f"{KIND}-1.0"}),
        ("policy-types", "policy_types", set(POLICIES)),
    ],
)
def test_list_with_support_status(
    api: Api, path: str, key: str, wanted: set[str], version: str | None
) -> None:
    found = api.get(path, version=version)
    assert list(found) == [key]
    assert wanted <= named(found[key])
    for item in found[key]:
        assert set(item) == {"name", "version", "support_status"}
        (told,) = item["support_status"].values()
        assert list(item["support_status"]) == [item["version"]]
        assert told
        assert all(set(one) == {"status", "since"} for one in told)
    assert found[key] == sorted(found[key], key=lambda item: (item["name"], item["version"]))


@pytest.mark.parametrize("version", OLD)
@pytest.mark.parametrize(
    ("path", "key", "wanted"),
    [
        ("profile-types", "profile_types", {f"{KIND}-1.0"}),
        ("policy-types", "policy_types", set(POLICIES)),
    ],
)
def test_list_in_the_old_shape(
    api: Api, path: str, key: str, wanted: set[str], version: str
) -> None:
    found = api.get(path, version=version)[key]
    assert all(list(item) == ["name"] for item in found)
    assert wanted <= {item["name"] for item in found}


@pytest.mark.parametrize(("noun", "name"), BOTH)
@pytest.mark.parametrize("version", [*OLD, *NEW])
def test_show(api: Api, noun: str, name: str, version: str | None) -> None:
    found = api.get(f"{noun}-types/{name}", version=version)
    assert list(found) == [f"{noun}_type"]
    item = found[f"{noun}_type"]
    assert item["name"] == name
    assert set(item) - {"support_status"} == {"name", "schema"}
    assert ("support_status" in item) is (version not in OLD)
    for schema in item["schema"].values():
        check_schema(schema)


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("senlin.policy.health-1.0", {"detection", "recovery"}),
        ("senlin.policy.health-1.2", {"detection", "recovery"}),
        (
            "senlin.policy.deletion-1.0",
            {"criteria", "destroy_after_deletion", "grace_period", "reduce_desired_capacity"},
        ),
        (
            "senlin.policy.deletion-1.1",
            {
                "criteria",
                "destroy_after_deletion",
                "grace_period",
                "reduce_desired_capacity",
                "hooks",
            },
        ),
        ("senlin.policy.scaling-1.0", {"event", "adjustment"}),
        ("senlin.policy.batch-1.0", {"min_in_service", "max_batch_size", "pause_time"}),
    ],
)
def test_the_properties_of_a_policy_type(api: Api, name: str, keys: set[str]) -> None:
    assert set(api.get(f"policy-types/{name}")["policy_type"]["schema"]) == keys


def test_health_1_0_tells_the_schema_of_detection_modes(api: Api) -> None:
    schema = api.get("policy-types/senlin.policy.health-1.0")["policy_type"]["schema"]
    assert "detection_modes" in schema["detection"]["schema"]


def test_the_required_property_of_the_profile_type(api: Api) -> None:
    schema = api.get(f"profile-types/{KIND}-1.0")["profile_type"]["schema"]
    assert schema["command"]["required"] is True
    assert schema["command"]["type"] == "List"


@pytest.mark.parametrize("noun", ["profile", "policy"])
@pytest.mark.parametrize(
    "name", ["bogus", "bogus-1.0", f"{KIND}-9.9", "senlin.policy.health-9.9", KIND]
)
def test_unknown(api: Api, noun: str, name: str) -> None:
    api.refused(
        "GET",
        f"{noun}-types/{name}",
        status=404,
        kind="ResourceNotFound",
        message=f"The {noun}_type '{name}' could not be found.",
    )


@pytest.mark.parametrize("version", ["1.4", "1.14"])
def test_operations(api: Api, version: str) -> None:
    found = api.get(f"profile-types/{KIND}-1.0/ops", version=version)
    assert list(found) == ["operations"]
    operations = found["operations"]
    assert {"reboot", "start", "stop", "rebuild"} <= set(operations)
    for operation in operations.values():
        assert set(operation) == {"description", "parameters"}
        for parameter in operation["parameters"].values():
            assert {"type", "required", "description"} <= set(parameter)
            assert set(parameter) <= {"type", "required", "description", "default", "constraints"}
    kind = operations["reboot"]["parameters"]["type"]
    assert sorted(kind["constraints"][0]["constraint"]) == ["HARD", "SOFT"]


@pytest.mark.parametrize("name", ["bogus", "bogus-1.0", f"{KIND}-9.9"])
def test_operations_of_an_unknown_type(api: Api, name: str) -> None:
    api.refused(
        "GET", f"profile-types/{name}/ops", status=400, kind=("BadRequest", "HTTPBadRequest")
    )


@pytest.mark.parametrize("path", ["profile-types", "policy-types", "build-info", "services"])
def test_no_filters_here(api: Api, path: str) -> None:
    assert api.ask("GET", f"{path}?bogus=1").status in {200, 400}
