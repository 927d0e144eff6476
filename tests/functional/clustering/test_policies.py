"""Policies and their types, as Senlin's clients know them."""

from __future__ import annotations

import re
from typing import Any

from tests.functional.clustering.senlin import Senlin

HEALTH: dict[str, Any] = {
    "type": "senlin.policy.health",
    "version": "1.2",
    "properties": {
        "detection": {"interval": 30, "detection_modes": [{"type": "NODE_STATUS_POLLING"}]},
        "recovery": {"actions": [{"name": "RECREATE"}]},
    },
}
ZULU = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
STORED = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.000000")


def test_a_policy_is_created_shown_renamed_and_deleted(senlin: Senlin) -> None:
    body = {"policy": {"name": "hp", "spec": HEALTH}}
    made = senlin.call("POST", "/policies", body, want=201)["policy"]
    assert ZULU.fullmatch(made["created_at"])
    assert made == {
        "id": made["id"],
        "name": "hp",
        "type": "senlin.policy.health-1.2",
        "spec": HEALTH,
        "data": {},
        "user": "local user",
        "project": "default",
        "domain": None,
        "created_at": made["created_at"],
        "updated_at": None,
    }
    renamed = senlin.call("PATCH", f"/policies/{made['id']}", {"policy": {"name": "hp2"}})
    assert renamed["policy"]["name"] == "hp2"
    assert ZULU.fullmatch(renamed["policy"]["updated_at"])
    shown = senlin.call("GET", f"/policies/{made['id'][:8]}")["policy"]
    assert STORED.fullmatch(shown["created_at"])
    assert STORED.fullmatch(shown["updated_at"])
    assert shown["spec"] == HEALTH
    again = senlin.refused("PATCH", "/policies/hp2", {"policy": {"name": "hp2"}})
    assert again == ("BadRequest", "No property needs an update.")
    assert senlin.refused("PATCH", "/policies/hp2", {"policy": {}}) == (
        "HTTPBadRequest",
        "'name' is a required property",
    )
    senlin.call("DELETE", "/policies/hp2", want=204)
    assert senlin.refused("GET", "/policies/hp2", want=404) == (
        "ResourceNotFound",
        "The policy 'hp2' could not be found.",
    )


def test_a_policy_is_validated_without_being_stored(senlin: Senlin) -> None:
    found = senlin.call("POST", "/policies/validate", {"policy": {"spec": HEALTH}})["policy"]
    assert found["name"] == "validated_policy"
    assert [found[k] for k in ("id", "created_at", "updated_at")] == [None] * 3
    assert (found["spec"], found["data"]) == (HEALTH, {})
    assert senlin.call("GET", "/policies")["policies"] == []


def test_what_is_wrong_with_a_document_is_all_told(senlin: Senlin) -> None:
    wrong = {**HEALTH, "properties": {"detection": {"interval": "abc"}, "recovery": {"x": 1}}}
    answer = senlin.ask("POST", "/policies", {"policy": {"name": "x", "spec": wrong}})
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["type"] == "InvalidSpec"
    assert len(error["problems"]) >= 2
    assert "\n".join(error["problems"]) == error["message"]


def test_unknown_types_and_versions_are_not_found(senlin: Senlin) -> None:
    for spec in ({**HEALTH, "version": "9.9"}, {**HEALTH, "type": "senlin.policy.bogus"}):
        kind, message = senlin.refused(
            "POST", "/policies", {"policy": {"name": "x", "spec": spec}}, want=404
        )
        assert kind == "ResourceNotFound"
        assert message == f"The policy_type '{spec['type']}-{spec['version']}' could not be found."


def test_a_version_may_be_a_number(senlin: Senlin) -> None:
    spec = {**HEALTH, "version": 1.2}
    found = senlin.call("POST", "/policies/validate", {"policy": {"spec": spec}})["policy"]
    assert found["type"] == "senlin.policy.health-1.2"


def test_policy_types_have_two_shapes(senlin: Senlin) -> None:
    new = senlin.call("GET", "/policy-types")["policy_types"]
    for item in new:
        assert list(item["support_status"]) == [item["version"]]
    names = [f"{item['name']}-{item['version']}" for item in new]
    assert {f"senlin.policy.health-1.{n}" for n in range(4)} <= set(names)
    assert names == sorted(names)
    old = senlin.ask("GET", "/policy-types", version="1.4").json()["policy_types"]
    assert old == [{"name": name} for name in names]
    shown = senlin.call("GET", "/policy-types/senlin.policy.health-1.2")["policy_type"]
    assert set(shown["support_status"]) == {"1.0", "1.1", "1.2", "1.3"}
    assert senlin.refused("GET", "/policy-types/bogus", want=404) == (
        "ResourceNotFound",
        "The policy_type 'bogus' could not be found.",
    )


def test_a_document_replaced_elsewhere_is_the_one_that_is_shown(senlin: Senlin) -> None:
    body = {"policy": {"name": "changing", "spec": HEALTH}}
    made = senlin.call("POST", "/policies", body, want=201)["policy"]
    detection = {**HEALTH["properties"]["detection"], "interval": 45}
    changed = {**HEALTH, "properties": {**HEALTH["properties"], "detection": detection}}
    senlin.live.call("PUT", f"/policies/{made['id']}", {"document": changed})
    shown = senlin.call("GET", "/policies/changing")["policy"]["spec"]
    assert shown["properties"]["detection"]["interval"] == 45
    senlin.call("DELETE", "/policies/changing", want=204)
