"""The OpenAPI document is whole and true: routes, bodies and answers are as it says."""

from __future__ import annotations

import base64
import hashlib
import re
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from jsonschema.validators import validator_for
from tests.functional.clustering.senlin import SLEEPER, Senlin
from tests.functional.clustering.test_policies import HEALTH

from yaffle.api import rights
from yaffle.api.clustering.routes import ROUTES


@pytest.fixture(scope="module")
def document(senlin: Senlin) -> dict[str, Any]:
    with senlin.live.client() as client:
        found: dict[str, Any] = client.get("/openapi.json").json()
    return found


def operations(document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (path, method, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]


def test_every_route_is_told_in_full(document: dict[str, Any]) -> None:
    assert document["openapi"].startswith("3.1")
    assert "ETag" in document["info"]["description"]
    found = operations(document)
    mine = {(p, m) for p, m, _ in found if p.startswith("/v1/")}
    assert mine == {
        (re.sub(r":\w+\}", "}", f"/v1{route.path}"), route.method.lower()) for route in ROUTES
    }
    for path, method, operation in found:
        if path.startswith("/yaffle"):
            continue
        where = f"{method} {path}"
        assert operation["summary"], where
        assert operation["description"], where
        assert operation["tags"], where
        assert "default" in operation["responses"] or not path.startswith("/v1"), where
        fields = set(re.findall(r"\{(\w+)\}", path))
        told = {p["name"] for p in operation.get("parameters", ()) if p["in"] == "path"}
        assert told == fields, where
        for parameter in operation.get("parameters", ()):
            assert parameter["description"], where
            assert parameter["schema"], where
    names = [operation["operationId"] for _, _, operation in found]
    assert len(names) == len(set(names))


def test_our_own_document_is_a_part_of_it(senlin: Senlin, document: dict[str, Any]) -> None:
    own = senlin.live.call("GET", "/openapi.json")
    for path, methods in own["paths"].items():
        assert document["paths"][path] == methods
    for name, schema in own["components"]["schemas"].items():
        assert document["components"]["schemas"][name] == schema


def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    named = set(re.findall(r"#/components/schemas/([A-Za-z_]+)", str(document)))
    assert named == set(document["components"]["schemas"])


def test_every_schema_is_one(document: dict[str, Any]) -> None:
    for path, method, operation in operations(document):
        for content in operation.get("requestBody", {}).get("content", {}).values():
            validator_for({}, default=Draft202012Validator).check_schema(content["schema"])
            for example in content.get("examples", {}).values():
                where = f"{method} {path}"
                errors = list(Draft202012Validator(content["schema"]).iter_errors(example["value"]))
                assert not errors, where
    for schema in document["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)


def test_open_routes_are_told_as_open(document: dict[str, Any]) -> None:
    for path, method, operation in operations(document):
        if path.startswith(("/yaffle", "/health", "/livez", "/metrics")):
            continue
        needs = rights.needed(method.upper(), re.sub(r"\{\w+\}", "x", path))
        assert (operation.get("security") == []) == (needs == rights.OPEN), path


def conforms(document: dict[str, Any], method: str, path: str, status: int, body: object) -> None:
    answer = document["paths"][path][method]["responses"][str(status)]
    schema = {**answer["content"]["application/json"]["schema"]}
    schema["components"] = document["components"]
    Draft202012Validator(schema).validate(body)


def test_answers_are_as_described(senlin: Senlin, document: dict[str, Any]) -> None:
    made: list[tuple[str, str, object, int]] = [
        ("/profiles", "profile", {"name": "p", "spec": SLEEPER}, 201),
        ("/policies", "policy", {"name": "h", "spec": HEALTH}, 201),
        ("/clusters", "cluster", {"name": "c", "profile_id": "p"}, 202),
        ("/nodes", "node", {"name": "n", "profile_id": "p"}, 202),
    ]
    for path, key, body, status in made:
        answer = senlin.ask("POST", path, {key: body})
        conforms(document, "post", f"/v1{path}", status, answer.json())
    attach = {"policy_attach": {"policy_id": "h"}}
    answer = senlin.ask("POST", "/clusters/c/actions", attach)
    conforms(document, "post", "/v1/clusters/{cluster}/actions", 202, answer.json())
    senlin.ended(answer.json()["action"])
    for path in (
        "/build-info",
        "/services",
        "/profile-types",
        "/policy-types",
        "/profiles",
        "/policies",
        "/clusters",
        "/nodes",
        "/actions",
        "/events",
    ):
        conforms(document, "get", f"/v1{path}", 200, senlin.call("GET", path))
    for path, word in (
        ("/profile-types/{type}", "yaffle.local.process-1.0"),
        ("/profile-types/{type}/ops", "yaffle.local.process-1.0"),
        ("/policy-types/{type}", "senlin.policy.health-1.3"),
        ("/clusters/{cluster}", "c"),
        ("/clusters/{cluster}/policies", "c"),
        ("/nodes/{node}", "n"),
    ):
        asked = re.sub(r"\{\w+\}", word, path)
        conforms(document, "get", f"/v1{path}", 200, senlin.call("GET", asked))
    refused = senlin.ask("GET", "/clusters/nope").json()
    schema = {**document["components"]["schemas"]["Fault"]}
    Draft202012Validator(schema).validate(refused)


def test_people_get_a_page_that_needs_nobody(senlin: Senlin) -> None:
    with senlin.live.client() as client:
        answer = client.get("/docs")
    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    text = answer.text
    assert "POST</span> /v1/clusters/{cluster}/actions" in text
    assert "<script" not in text
    assert not re.findall(r'(?:src|href)="(?!/openapi\.json|#)', text)
    (style,) = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in answer.headers["Content-Security-Policy"]
