"""Whatever is sent, the answer is ours: never a 500, never another shape."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.functional.api.live import POLICY, PREFIX, Live

WORDS = st.one_of(
    st.sampled_from(["web", "web-1", "p", "h", "none", "%2F", "..", "validate", "a" * 300]),
    st.text(max_size=20),
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=2**62, max_value=2**70),
    st.floats(),
    st.text(max_size=30),
    st.sampled_from(
        ["web", "p", "h", "all", "node", "cluster", POLICY, "\ud800", "\x00", "[" * 40]
    ),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=10), inner, max_size=4)
    ),
    max_leaves=12,
)


@pytest.fixture(scope="module")
def client(server: Live) -> Iterator[httpx.Client]:
    server.profile("p")
    server.policy("h", POLICY)
    server.cluster("web", "p", 2, "h")
    with server.client() as one:
        yield one


@pytest.fixture(scope="module")
def routes(client: httpx.Client) -> list[tuple[str, str, dict[str, Any] | None, list[str]]]:
    """Return method, path, body schema and query names of every route."""
    document = client.get(f"{PREFIX}/openapi.json").json()
    found = []
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            names = [p["name"] for p in operation.get("parameters", []) if p["in"] == "query"]
            found.append((method.upper(), path, _schema(document, operation), names))
    return found


def _schema(document: dict[str, Any], operation: dict[str, Any]) -> dict[str, Any] | None:
    if "requestBody" not in operation:
        return None
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    named = schema if "$ref" in schema else schema["anyOf"][0]
    found: dict[str, Any] = document["components"]["schemas"][named["$ref"].rsplit("/", 1)[-1]]
    return found


def _body(draw: Any, schema: dict[str, Any]) -> object:
    """Draw a body that is nearly right: real keys, a real example, or anything at all."""
    keys = st.sampled_from([*schema["properties"], "unknown"])
    nearly = st.dictionaries(keys, VALUES, max_size=4)
    example = st.sampled_from(schema["examples"])
    return draw(
        st.one_of(VALUES, nearly, st.builds(lambda a, b: {**a, **b}, example, nearly), example)
    )


@settings(
    max_examples=250,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_any_request_has_an_answer(
    client: httpx.Client,
    routes: list[tuple[str, str, dict[str, Any] | None, list[str]]],
    data: st.DataObject,
) -> None:
    method, path, schema, names = data.draw(st.sampled_from(routes))
    while "{" in path:
        start, _, rest = path.partition("{")
        word = data.draw(WORDS).encode("utf-8", "surrogatepass")
        path = start + quote(word, safe="%.") + rest.partition("}")[2]
    query = data.draw(st.dictionaries(st.sampled_from([*names, "other"]), SCALARS, max_size=3))
    asked = {k: str(v).encode("utf-8", "replace").decode() for k, v in query.items()}
    content = None if schema is None else json.dumps(_body(data.draw, schema)).encode()
    answer = client.request(
        method,
        path,
        params=asked,
        content=content,
        headers={"Content-Type": "application/json"} if content is not None else {},
    )
    assert answer.headers["x-request-id"]
    if path == "/health":
        assert answer.status_code == 503  # no engine runs here
        return
    assert answer.status_code < 500, answer.text
    if answer.status_code >= 400:
        assert answer.json()["error"]["code"] == answer.status_code


@settings(max_examples=60, deadline=None)
@given(raw=st.binary(max_size=200), method=st.sampled_from(["POST", "PUT", "PATCH", "DELETE"]))
def test_any_bytes_have_an_answer(server: Live, raw: bytes, method: str) -> None:
    with server.client({"Content-Type": "application/json"}) as one:
        for path in ("/stop", "/policies/h", "/nodes/web-1/mark"):
            answer = one.request(method, PREFIX + path, content=raw)
            assert answer.status_code in {200, 201, 202, 204, 400, 404, 405, 409}, answer.text
