"""The document describes every route, with examples that look like what is really answered."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.functional.api.live import POLICY, Live

from yaffle.api import examples
from yaffle.api.bodies import Body

METHODS = {"get", "post", "put", "patch", "delete"}


@pytest.fixture(scope="module")
def document(server: Live) -> dict[str, Any]:
    found: dict[str, Any] = server.call("GET", "/openapi.json")
    return found


def operations(document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (method, path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]


def test_every_operation_is_told(document: dict[str, Any]) -> None:
    found = operations(document)
    assert len(found) > 25
    for method, path, operation in found:
        assert method in METHODS, path
        assert operation["description"], f"{method} {path}"
        assert operation["tags"], f"{method} {path}"
        assert "422" not in operation["responses"], f"{method} {path}"
        error = operation["responses"]["default"]["content"]["application/json"]["schema"]
        assert error == {"$ref": "#/components/schemas/Error"}
        good = [code for code in operation["responses"] if code.startswith("2")]
        assert good, f"{method} {path}"
        for code in set(good) - {"204"}:
            for media in operation["responses"][code]["content"].values():
                assert "example" in media, f"{method} {path}"
    names = [operation["operationId"] for _, _, operation in found]
    assert len(set(names)) == len(names)


def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    named = re.findall(r"#/components/schemas/([A-Za-z_]+)", str(document))
    assert set(named) <= set(schemas)
    assert set(schemas) <= set(named)


def test_every_link_of_the_entrance_answers(server: Live) -> None:
    about = server.call("GET", "")
    with server.client() as client:
        for name, link in about["links"].items():
            assert client.get(link).status_code == 200, name


def bodies(kind: type[Body] = Body) -> list[type[Body]]:
    return [one for sub in kind.__subclasses__() for one in (sub, *bodies(sub))]


@pytest.mark.parametrize("kind", bodies(), ids=lambda k: k.__name__)
def test_examples_of_bodies_are_accepted(kind: type[Body]) -> None:
    shown = kind.model_config["json_schema_extra"]
    assert isinstance(shown, dict)
    for example in shown["examples"]:  # type: ignore[union-attr]
        kind.model_validate(example)


def test_answers_have_the_keys_of_their_examples(server: Live) -> None:
    server.profile("p")
    server.policy("h", POLICY)
    cluster = server.cluster("web", "p", 1, "h")
    policy = server.call("GET", "/policies/h")["policy"]
    work = {"scope": "node", "target": "web-1", "reason": "x"}
    pause = server.call("POST", "/maintenance", work, want=201)["maintenance"]
    why = server.call("GET", "/nodes/web-1/why")["why"]
    same = {
        "policy": (policy, examples.POLICY),
        "arithmetic": (policy["arithmetic"], examples.ARITHMETIC),
        "cluster": (cluster, {**examples.CLUSTER, "nodes": []}),
        "node": (cluster["nodes"][0], examples.NODE),
        "pause": (pause, examples.PAUSE),
        "event": (server.call("GET", "/events")["events"][0], examples.EVENT),
        "action": (server.call("GET", "/actions")["actions"][0], examples.ACTION),
        "why": (why, examples.WHY),
        "check": (server.call("GET", "/doctor")["checks"][0], examples.CHECK),
    }
    for name, (real, example) in same.items():
        assert set(real) == set(example), name


def test_a_replaced_policy_shows_its_new_document(server: Live) -> None:
    server.policy("changing", POLICY)
    slower = POLICY.replace("interval: 1", "interval: 5").replace(
        "node_update_timeout: 2", "node_update_timeout: 20"
    )
    before = server.call("GET", "/policies/changing")["policy"]
    after = server.call("PUT", "/policies/changing", {"text": slower})["policy"]
    assert after["source"] == slower
    assert after["arithmetic"]["detect_s"] > before["arithmetic"]["detect_s"]
    valid = server.call("POST", "/policies/validate", {"document": after["spec"]})["policy"]
    assert valid["arithmetic"] == after["arithmetic"]
    server.clustering("DELETE", "/policies/changing", want=204)
    server.call("GET", "/policies/changing", want=404)


def test_bindings_are_seen_as_they_are_switched_and_taken_away(server: Live) -> None:
    server.profile("p2")
    server.policy("h2", POLICY)
    attached = server.cluster("bare", "p2", 0, "h2")
    assert [(p["name"], p["enabled"]) for p in attached["policies"]] == [("h2", True)]
    server.act("bare", "policy_update", {"policy_id": "h2", "enabled": False})
    assert server.call("GET", "/clusters/bare")["cluster"]["policies"][0]["enabled"] is False
    server.act("bare", "policy_detach", {"policy_id": "h2"})
    assert server.call("GET", "/clusters/bare")["cluster"]["policies"] == []
    server.drop("cluster", "bare")
    server.call("GET", "/clusters/bare", want=404)
