"""The document of the API names every route of the contract, what each may answer, and how."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.acceptance.rig import Api

NOUNS = ("profiles", "policies", "clusters", "nodes", "receivers")
ROUTES = [
    ("GET", "/"),
    ("GET", "/versions"),
    ("GET", "/v1"),
    ("GET", "/v1/build-info"),
    ("GET", "/v1/profile-types"),
    ("GET", "/v1/profile-types/{}"),
    ("GET", "/v1/profile-types/{}/ops"),
    ("GET", "/v1/policy-types"),
    ("GET", "/v1/policy-types/{}"),
    *((method, f"/v1/{noun}") for noun in NOUNS for method in ("GET", "POST")),
    *((method, f"/v1/{noun}/{{}}") for noun in NOUNS for method in ("GET", "PATCH", "DELETE")),
    ("POST", "/v1/profiles/validate"),
    ("POST", "/v1/policies/validate"),
    ("GET", "/v1/clusters/{}/attrs/{}"),
    ("POST", "/v1/clusters/{}/ops"),
    ("POST", "/v1/clusters/{}/actions"),
    ("GET", "/v1/clusters/{}/policies"),
    ("GET", "/v1/clusters/{}/policies/{}"),
    ("POST", "/v1/nodes/{}/actions"),
    ("POST", "/v1/nodes/{}/ops"),
    ("POST", "/v1/nodes/adopt"),
    ("POST", "/v1/nodes/adopt-preview"),
    ("POST", "/v1/receivers/{}/notify"),
    ("POST", "/v1/webhooks/{}/trigger"),
    ("GET", "/v1/actions"),
    ("POST", "/v1/actions"),
    ("GET", "/v1/actions/{}"),
    ("PATCH", "/v1/actions/{}"),
    ("GET", "/v1/events"),
    ("GET", "/v1/events/{}"),
    ("GET", "/v1/services"),
]
PAGED = ("profiles", "policies", "clusters", "nodes", "receivers", "actions", "events")


@pytest.fixture(scope="module")
def document(server: Any) -> Any:
    api = Api(server.root)
    try:
        return api.ask("GET", "/openapi.json", want=200, version=None).json
    finally:
        api.close()


@pytest.fixture(scope="module")
def operations(document: Any) -> dict[tuple[str, str], Any]:
    """Method and path, with every parameter as `{}`, and what is said of it."""
    return {
        (method.upper(), re.sub(r"\{[^}]*\}", "{}", path)): operation
        for path, item in document["paths"].items()
        for method, operation in item.items()
        if method in {"get", "post", "patch", "put", "delete"}
    }


def test_it_is_3_1(document: Any) -> None:
    assert document["openapi"].startswith("3.1")
    assert document["info"]["title"]


@pytest.mark.parametrize(("method", "path"), ROUTES, ids=lambda part: part)
def test_every_route_is_described(operations: Any, method: str, path: str) -> None:
    operation = operations[method, path]
    assert operation.get("summary") or operation.get("description")
    codes = set(operation["responses"])
    if (method, path) != ("POST", "/v1/actions"):
        assert any(code.startswith(("2", "3")) for code in codes), codes
    for code, answer in operation["responses"].items():
        if "$ref" in answer or code in {"204", "304"}:
            continue
        assert answer.get("content"), f"{code} says nothing of its body"
    if "{}" in path and method != "POST":
        assert codes & {"404", "default"}, codes


@pytest.mark.parametrize("noun", PAGED)
def test_lists_describe_their_queries(operations: Any, noun: str) -> None:
    told = {item["name"] for item in operations["GET", f"/v1/{noun}"].get("parameters", [])}
    assert {"limit", "marker", "sort", "global_project"} <= told


def test_bodies_are_described(operations: Any) -> None:
    for (method, path), operation in operations.items():
        bare = path.endswith("/notify") or path == "/v1/actions"
        if path.startswith("/v1") and method in {"POST", "PATCH"} and not bare:
            assert operation.get("requestBody"), (method, path)


def test_a_page_for_people(api: Api) -> None:
    found = [api.ask("GET", path, version=None) for path in ("/docs", "/yaffle/v1/docs")]
    assert any(answer.status == 200 and answer.kind == "text/html" for answer in found)
