"""What a client reads before it knows anything."""

from __future__ import annotations

import pytest
from tests.acceptance.rig import Api, check_html

VENDOR = "application/vnd.openstack.clustering"


def check_version(found: dict[str, object], root: str) -> None:
    assert found["id"] == "1.0"
    assert found["status"] == "CURRENT"
    assert found["updated"] == "2016-01-18T00:00:00Z"
    assert found["min_version"] == "1.0"
    assert found["max_version"] == "1.14"
    assert found["media-types"] == [{"base": "application/json", "type": f"{VENDOR}-v1+json"}]
    links = {link["rel"]: link["href"] for link in found["links"]}  # type: ignore[attr-defined]
    assert links["self"].rstrip("/") == f"{root}/v1"
    assert links["help"].startswith("http")


@pytest.mark.parametrize("path", ["/", "/versions", "/v2", "/v2/clusters", "/v3/", "/v99/nodes/x"])
@pytest.mark.parametrize("accept", ["*/*", None, f"{VENDOR}-1.0", f"{VENDOR}-1.14"])
def test_versions(api: Api, path: str, accept: str | None) -> None:
    headers = {"Accept": accept} if accept else None
    answer = api.ask("GET", path, want=300, version=None, headers=headers)
    assert answer.kind == "application/json"
    assert list(answer.json) == ["versions"]
    (version,) = answer.json["versions"]
    check_version(version, api.root)


@pytest.mark.parametrize("accept", ["application/json", "text/html", "application/xml"])
def test_an_unknown_version_for_a_choosy_client(api: Api, accept: str) -> None:
    api.ask("GET", "/v2/clusters", want=404, version=None, headers={"Accept": accept})


@pytest.mark.parametrize("path", ["/v1", "/v1/"])
@pytest.mark.parametrize("version", [None, "1.0", "1.14", "latest"])
def test_v1(api: Api, path: str, version: str | None) -> None:
    answer = api.ask("GET", path, want=200, version=version)
    assert list(answer.json) == ["version"]
    check_version(answer.json["version"], api.root)


@pytest.mark.parametrize("token", ["notused", "x", ""])
def test_a_token_that_nobody_wants_does_no_harm(api: Api, token: str) -> None:
    for path, status in (("/", 300), ("/v1", 200), ("/v1/clusters", 200)):
        api.ask("GET", path, want=status, headers={"X-Auth-Token": token})


def test_build_info(api: Api) -> None:
    found = api.get("build-info")
    assert found == {"build_info": {"api": {"revision": "1.0"}, "engine": {"revision": "1.0"}}}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "nosuch"),
        ("GET", "clusters/a/nosuch"),
        ("GET", "nodes/a/b/c"),
        ("PUT", "clusters"),
        ("DELETE", "clusters"),
        ("PATCH", "clusters"),
        ("PUT", "clusters/x"),
        ("POST", "clusters/x"),
        ("POST", "nodes/x"),
        ("PUT", "nodes/x"),
        ("DELETE", "nodes"),
        ("DELETE", "actions/x"),
        ("DELETE", "events/x"),
        ("POST", "events"),
        ("POST", "build-info"),
        ("POST", "services"),
        ("POST", "profile-types"),
        ("DELETE", "policy-types/x"),
        ("GET", "profiles/validate/x"),
        ("PUT", "receivers/x"),
        ("GET", "clusters/x/actions"),
        ("GET", "clusters/x/ops"),
        ("GET", "nodes/x/ops"),
        ("GET", "webhooks/x/trigger"),
    ],
)
def test_what_the_framework_refuses_is_html_and_404(api: Api, method: str, path: str) -> None:
    check_html(api.ask(method, path), 404)


def test_head_and_options_do_not_break(api: Api) -> None:
    for method in ("HEAD", "OPTIONS"):
        assert api.ask(method, "clusters").status < 500


def test_request_id(api: Api) -> None:
    one, two = (api.ask("GET", "clusters").headers for _ in range(2))
    assert one["x-openstack-request-id"].startswith("req-")
    assert one["x-openstack-request-id"] != two["x-openstack-request-id"]


def test_openapi_is_served(api: Api) -> None:
    document = api.ask("GET", "/openapi.json", want=200).json
    assert document["openapi"].startswith("3.1")
    for path in ("/v1/clusters", "/v1/nodes", "/v1/actions", "/v1/webhooks"):
        assert any(known.startswith(path) for known in document["paths"]), path
