"""What clients ask first: versions, with links that lead where the client already is."""

from __future__ import annotations

import pytest
from tests.functional.clustering.senlin import Senlin


def get(senlin: Senlin, path: str, **headers: str) -> tuple[int, object, str]:
    with senlin.live.client(headers) as client:
        answer = client.get(path)
    media = answer.headers["Content-Type"].partition(";")[0]
    return answer.status_code, answer.json() if media == "application/json" else answer.text, media


def document(root: str) -> dict[str, object]:
    return {
        "id": "1.0",
        "status": "CURRENT",
        "updated": "2016-01-18T00:00:00Z",
        "media-types": [
            {
                "base": "application/json",
                "type": "application/vnd.openstack.clustering-v1+json",
            }
        ],
        "links": [
            {"href": f"{root}/v1", "rel": "self"},
            {"rel": "help", "href": "https://docs.openstack.org/api-ref/clustering"},
        ],
        "min_version": "1.0",
        "max_version": "1.14",
    }


@pytest.mark.parametrize("path", ["/", "/versions", "/v2/clusters", "/v2", "/v1.2"])
def test_the_versions_are_a_multiple_choice(senlin: Senlin, path: str) -> None:
    status, body, _ = get(senlin, path)
    assert status == 300
    assert body == {"versions": [document(f"http://{senlin.live.address}")]}


@pytest.mark.parametrize("path", ["/v1", "/v1/"])
def test_a_version_links_to_itself_and_not_to_v1_v1(senlin: Senlin, path: str) -> None:
    status, body, _ = get(senlin, path)
    assert status == 200
    assert body == {"version": document(f"http://{senlin.live.address}")}


def test_links_follow_the_name_that_the_client_used(senlin: Senlin) -> None:
    port = senlin.live.address.rpartition(":")[2]
    _, body, _ = get(senlin, "/v1", Host=f"localhost:{port}")
    assert body == {"version": document(f"http://localhost:{port}")}
    forwarded = {"X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "https"}
    _, body, _ = get(senlin, "/v1", **forwarded)
    assert body == {"version": document(f"http://{senlin.live.address}")}


@pytest.mark.parametrize(
    ("accept", "status"),
    [
        ("*/*", 300),
        ("application/vnd.openstack.clustering-1.4", 300),
        ("application/json", 404),
        ("text/html", 404),
    ],
)
def test_an_unknown_version_depends_on_what_is_accepted(
    senlin: Senlin, accept: str, status: int
) -> None:
    assert get(senlin, "/v2/clusters", Accept=accept)[0] == status


@pytest.mark.parametrize(
    "path",
    [
        *("/yaffle/nowhere", "/health/x", "/docs/x", "/metrics/x"),
        *("/healthz", "/livez/", "/ui", "/favicon.ico", "/v", "/v1x", "/version", "/x/v2"),
    ],
)
def test_what_is_no_version_is_not_there(senlin: Senlin, path: str) -> None:
    status, body, _ = get(senlin, path)
    assert status == 404
    assert isinstance(body, dict)
    assert "error" in body


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/nosuch"), ("PUT", "/clusters"), ("DELETE", "/build-info"), ("POST", "")],
)
def test_where_no_route_is_there_is_a_page(senlin: Senlin, method: str, path: str) -> None:
    answer = senlin.ask(method, path)
    assert answer.status_code == 404
    assert answer.headers["Content-Type"].startswith("text/html")
    assert "<h1>404 Not Found</h1>" in answer.text
    assert "OpenStack-API-Version" not in answer.headers


def test_the_build_is_told(senlin: Senlin) -> None:
    assert senlin.call("GET", "/build-info") == {
        "build_info": {"api": {"revision": "1.0"}, "engine": {"revision": "1.0"}}
    }


def test_unknown_parameters_are_refused(senlin: Senlin) -> None:
    told = senlin.refused("GET", "/build-info?bogus=1")
    assert told == ("HTTPBadRequest", "Invalid parameter bogus")
