"""Every refusal has one shape, the right status, and says what to mend."""

from __future__ import annotations

import asyncio
import dataclasses
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
import structlog
from tests.functional.api.live import POLICY, PREFIX, SLEEPER, Live, parts, running

from yaffle.api.app import create_app


@pytest.fixture(scope="module")
def stocked(server: Live) -> Live:
    """A profile `p`, policies `h` and `other`, and a cluster `web` with one node that nobody builds."""
    server.profile("p")
    for name in ("h", "other"):
        server.policy(name, POLICY)
    server.cluster("web", "p", 1, "h")
    return server


CASES = [
    pytest.param("GET", "/nowhere", None, 404, "NotFound", "GET /yaffle/v1 lists", id="no-route"),
    pytest.param("PUT", "/nodes", {}, 405, "MethodNotAllowed", "PUT is not", id="method"),
    pytest.param("GET", "/nodes/none", None, 404, "NotFound", "node 'none'", id="no-node"),
    pytest.param("GET", "/nodes/none/why", None, 404, "NotFound", "'none'", id="no-why"),
    pytest.param("GET", "/clusters/none", None, 404, "NotFound", "'none'", id="no-cluster"),
    pytest.param("GET", "/policies/none", None, 404, "NotFound", "'none'", id="no-policy"),
    pytest.param("GET", "/incidents/none", None, 404, "NotFound", "'none'", id="no-incident"),
    pytest.param("DELETE", "/maintenance/none", None, 404, "NotFound", "'none'", id="no-pause"),
    pytest.param(
        "POST",
        "/nodes/web-1/mark",
        {"reason": "x"},
        409,
        "ResourceIsLocked",
        "NODE_CREATE",
        id="busy-mark",
    ),
    pytest.param(
        "PUT", "/policies/h", {"txt": "x"}, 400, "InvalidSpec", "txt: unknown key", id="unknown-key"
    ),
    pytest.param(
        "PUT", "/policies/h", {"text": 3}, 400, "InvalidSpec", "text: ", id="number-for-text"
    ),
    pytest.param("POST", "/policies", {}, 405, "MethodNotAllowed", "POST is not", id="made-at-v1"),
    pytest.param("GET", "/profiles", None, 404, "NotFound", "lists what there is", id="at-v1"),
    pytest.param(
        "POST",
        "/maintenance",
        {"scope": "all", "target": "web", "reason": "x"},
        400,
        "InvalidSpec",
        "`target`",
        id="target-of-all",
    ),
    pytest.param(
        "POST",
        "/maintenance",
        {"scope": "node", "target": "web-1", "reason": "x", "for_s": 1e300},
        400,
        "InvalidSpec",
        "duration",
        id="for-ever-and-a-day",
    ),
    pytest.param(
        "POST",
        "/maintenance",
        {"scope": "host", "target": "cmp1 cmp2", "reason": "x"},
        400,
        "InvalidSpec",
        "'cmp1 cmp2' is no host's name",
        id="two-hosts",
    ),
    pytest.param(
        "POST", "/stop", {"reason": "x", "for_s": -1}, 400, "InvalidSpec", "for_s", id="past"
    ),
    pytest.param("POST", "/stop", {"reason": ""}, 400, "InvalidSpec", "reason", id="no-reason"),
    pytest.param("GET", "/events?limit=1001", None, 400, "InvalidSpec", "limit", id="limit"),
    pytest.param("GET", "/events?after=-1", None, 400, "InvalidSpec", "after", id="after"),
    pytest.param("GET", "/incidents?open=perhaps", None, 400, "InvalidSpec", "open", id="bool"),
    pytest.param("GET", "/outbox?state=lost", None, 400, "InvalidSpec", "state", id="state"),
    pytest.param(
        "PUT",
        "/policies/h",
        {},
        400,
        "InvalidSpec",
        "either `document`",
        id="no-document",
    ),
    pytest.param(
        "POST",
        "/policies/validate",
        {"text": POLICY.replace("interval: 1", "intervall: 1")},
        400,
        "InvalidSpec",
        "policy.yaml:5:5 detection.intervall",
        id="policy-with-place",
    ),
]


@pytest.mark.parametrize(("method", "path", "body", "status", "kind", "said"), CASES)
def test_refusals(
    stocked: Live, method: str, path: str, body: Any, status: int, kind: str, said: str
) -> None:
    with stocked.client() as client:
        answer = client.request(method, PREFIX + path, json=body)
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert set(error) == {"code", "title", "type", "message", "problems", "request_id"}
    assert (error["code"], error["type"]) == (status, kind)
    assert said in error["message"]
    assert error["request_id"] == answer.headers["x-request-id"]
    assert re.fullmatch(r"req-[0-9a-f-]{36}", error["request_id"])
    assert (error["problems"] != []) == (kind == "InvalidSpec")


def test_deleting_a_node_twice_takes_one_away(stocked: Live) -> None:
    stocked.cluster("twice", "p", 3)
    for _ in range(2):
        stocked.drop("node", "twice-1")
    assert stocked.call("GET", "/clusters/twice")["cluster"]["desired_capacity"] == 2


@pytest.mark.parametrize(
    ("content", "said"),
    [
        pytest.param(b"{", "no JSON", id="cut"),
        pytest.param(b"\xff\xfe", "", id="no-utf8"),
        pytest.param(b"[" * 100_000, "", id="deep"),
        pytest.param(b"[]", "", id="list"),
        pytest.param(b'{"reason": "\\ud800"}', "", id="surrogate"),
        pytest.param(b'{"reason": NaN}', "", id="nan"),
    ],
)
def test_bodies_that_are_no_objects(stocked: Live, content: bytes, said: str) -> None:
    with stocked.client({"Content-Type": "application/json"}) as client:
        answer = client.post(f"{PREFIX}/stop", content=content)
    assert answer.status_code == 400, answer.text
    assert said in answer.json()["error"]["message"]


def test_the_database_away_is_503(tmp_path: Path) -> None:
    with running(tmp_path / "state") as live:
        database = tmp_path / "state" / "yaffle.db"
        database.rename(tmp_path / "moved")
        with live.client() as client:
            answer = client.post(f"{PREFIX}/stop", json={"reason": "x"})
            assert answer.status_code == 503
            assert answer.json()["error"]["type"] == "StoreUnavailable"
            assert answer.headers["retry-after"] == "1"
        (tmp_path / "moved").rename(database)
        live.call("POST", "/stop", {"reason": "x"}, want=201)


def test_events_go_on_where_the_last_answer_ended(stocked: Live) -> None:
    first = stocked.call("GET", "/events?limit=2")
    assert [e["seq"] for e in first["events"]] == [1, 2]
    then = stocked.call("GET", f"/events?limit=1&after={first['last']}")
    assert [e["seq"] for e in then["events"]] == [3]
    none = stocked.call("GET", "/events?after=1000000")
    assert none == {"events": [], "last": 1_000_000}


class Broken:
    """Queries with a bug in them."""

    async def clusters(self, who: object) -> object:
        raise RuntimeError("secret inside")


def test_a_bug_is_500_with_the_request_id_and_nothing_of_our_inside(server: Live) -> None:
    app = create_app(dataclasses.replace(parts(server.service), queries=Broken()))  # type: ignore[arg-type]

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.get(f"{PREFIX}/clusters")

    with structlog.testing.capture_logs() as logs:
        answer = asyncio.run(ask())
    assert answer.status_code == 500
    error = answer.json()["error"]
    assert error["request_id"] == answer.headers["x-request-id"]
    assert error["request_id"] in error["message"]
    assert "secret" not in answer.text
    failed = [line for line in logs if line["event"] == "request failed"]
    assert [line["request"] for line in failed] == [error["request_id"]]
    assert str(failed[0]["exc_info"]) == "secret inside"


def test_local_processes_have_to_be_allowed(tmp_path: Path) -> None:
    spec = {"type": "yaffle.local.process", "version": "1.0", "properties": SLEEPER}
    with running(tmp_path / "state", local_process={"enabled": False}) as live:
        body = {"profile": {"name": "p", "spec": spec}}
        error = live.clustering("POST", "/profiles", body, want=403)["error"]
        assert "--allow-local-process" in str(error)
