"""One header, fifteen versions, and what each of them hides."""

from __future__ import annotations

from typing import Any

import pytest
from tests.acceptance.rig import VERSION_HEADER, Api, check_html
from tests.acceptance.world import KIND, World, spec_of

ALL = [f"1.{minor}" for minor in range(15)]
NOWHERE = "00000000-0000-4000-8000-000000000000"


@pytest.mark.parametrize("version", ALL)
@pytest.mark.parametrize("path", ["build-info", "clusters", "nodes", "profile-types"])
def test_each_version_is_spoken_and_named(api: Api, path: str, version: str) -> None:
    answer = api.ask("GET", path, want=200, version=version)
    assert answer.headers[VERSION_HEADER] == f"clustering {version}"
    assert VERSION_HEADER in answer.headers["vary"]


@pytest.mark.parametrize("version", [None, "latest", "LATEST"])
def test_absent_and_latest_mean_the_newest(api: Api, version: str | None) -> None:
    if version == "LATEST":
        assert api.ask("GET", "clusters", version=version).status < 500
        return
    answer = api.ask("GET", "clusters", want=200, version=version)
    assert answer.headers[VERSION_HEADER] == "clustering 1.14"


@pytest.mark.parametrize("said", ["compute 2.1", "compute latest", "container-infra 1.99"])
def test_another_service_is_none_of_our_business(api: Api, said: str) -> None:
    answer = api.ask("GET", "clusters", want=200, version=None, headers={VERSION_HEADER: said})
    assert answer.headers[VERSION_HEADER] in {"clustering 1.14", "clustering 1.0"}


def test_ours_among_others(api: Api) -> None:
    said = {VERSION_HEADER: "compute 2.1, clustering 1.5"}
    answer = api.ask("GET", "clusters", want=200, version=None, headers=said)
    assert answer.headers[VERSION_HEADER] == "clustering 1.5"


def test_the_header_in_small_letters(api: Api) -> None:
    said = {VERSION_HEADER.lower(): "clustering 1.7"}
    answer = api.ask("GET", "clusters", want=200, version=None, headers=said)
    assert answer.headers[VERSION_HEADER] == "clustering 1.7"


@pytest.mark.parametrize("version", ["abc", "1", "1.2.3", "1.x", "-1.0", "1.-1", "0.9", "1.", ".5"])
def test_malformed_or_too_old(api: Api, version: str) -> None:
    check_html(api.ask("GET", "clusters", version=version), 400)


@pytest.mark.parametrize("version", ["1.15", "1.99", "2.0", "9.9", "1.100"])
@pytest.mark.parametrize("path", ["clusters", "build-info"])
def test_too_new(api: Api, version: str, path: str) -> None:
    message = (
        f"Version '{version}' is not supported by the API. Minimum is '1.0' and maximum is '1.14'."
    )
    api.refused(
        "GET", path, status=406, kind="InvalidGlobalAPIVersion", message=message, version=version
    )


GATES: list[tuple[str, str, str, Any]] = [
    ("1.2", "GET", "clusters/{cluster}/attrs/name", None),
    ("1.2", "POST", "profiles/validate", "PROFILE"),
    (
        "1.2",
        "POST",
        "policies/validate",
        {"policy": {"spec": spec_of("senlin.policy.deletion-1.0")}},
    ),
    ("1.3", "POST", "clusters/{cluster}/actions", {"replace_nodes": {"nodes": {"a": "b"}}}),
    ("1.4", "GET", f"profile-types/{KIND}-1.0/ops", None),
    ("1.4", "POST", "nodes/nosuch/ops", {"reboot": {}}),
    ("1.4", "POST", "clusters/{cluster}/ops", {"dance": {}}),
    ("1.7", "POST", "nodes/adopt", {"identity": "nosuch", "type": f"{KIND}-1.0"}),
    ("1.7", "POST", "nodes/adopt-preview", {"identity": "nosuch", "type": f"{KIND}-1.0"}),
    (
        "1.9",
        "POST",
        "clusters/{cluster}/actions",
        {"complete_lifecycle": {"lifecycle_action_token": NOWHERE}},
    ),
    ("1.12", "PATCH", f"actions/{NOWHERE}", {"action": {"status": "CANCELLED"}}),
]


@pytest.fixture(scope="module")
def cluster(world: World) -> str:
    return str(world.cluster()["id"])


def ask_gate(world: World, cluster: str, gate: Any, version: str | None) -> Any:
    _, method, path, body = gate
    if body == "PROFILE":
        body = {"profile": {"spec": world.spec()}}
    path = path.format(cluster=cluster)
    if body is None:
        return world.api.ask(method, path, version=version)
    return world.api.ask(method, path, body, version=version)


@pytest.mark.parametrize("gate", GATES, ids=lambda gate: f"{gate[1]}-{gate[2]}-{gate[0]}")
def test_a_method_does_not_exist_before_its_version(world: World, cluster: str, gate: Any) -> None:
    first = int(gate[0].partition(".")[2])
    for version in {"1.0", f"1.{first - 1}"}:
        answer = ask_gate(world, cluster, gate, version)
        assert answer.status == 400, answer
        error = answer.json["error"]
        assert error["type"] == "MethodVersionNotFound", answer
        assert error["message"] == f"API version '{version}' is not supported on this method."


@pytest.mark.parametrize("gate", GATES, ids=lambda gate: f"{gate[1]}-{gate[2]}-{gate[0]}")
@pytest.mark.parametrize("newest", [False, True, None])
def test_and_exists_from_then_on(
    world: World, cluster: str, gate: Any, newest: bool | None
) -> None:
    version = None if newest is None else ("1.14" if newest else gate[0])
    answer = ask_gate(world, cluster, gate, version)
    assert answer.status < 500, answer
    assert "MethodVersionNotFound" not in answer.text, answer


@pytest.mark.parametrize("version", ["1.0", "1.12", "1.13", "1.14"])
def test_tainted_is_told_from_1_13_on(world: World, version: str) -> None:
    node = world.shared.get("node") or world.node()["id"]
    world.shared["node"] = node
    told = version in {"1.13", "1.14"}
    one = world.api.get(f"nodes/{node}", version=version)["node"]
    assert ("tainted" in one) is told
    for other in world.api.get("nodes", version=version)["nodes"]:
        assert ("tainted" in other) is told


@pytest.mark.parametrize("version", ["1.0", "1.13", "1.14"])
def test_the_cluster_of_an_action_is_told_from_1_14_on(world: World, version: str) -> None:
    world.cluster()
    for action in world.api.get("actions?limit=3", version=version)["actions"]:
        assert ("cluster_id" in action) is (version == "1.14")
        one = world.api.get(f"actions/{action['id']}", version=version)["action"]
        assert ("cluster_id" in one) is (version == "1.14")


@pytest.mark.parametrize("version", ["1.0", "1.6", "1.7", "1.14"])
def test_services_have_no_gate(api: Api, version: str) -> None:
    api.ask("GET", "services", want=200, version=version)


def test_an_error_names_no_version(api: Api) -> None:
    api.refused("GET", "clusters/nosuch", status=404, kind="ResourceNotFound")


@pytest.mark.parametrize("version", ["1.5", "1.6"])
def test_the_profile_alone_is_changed_from_1_6_on(world: World, version: str) -> None:
    cluster, new = world.cluster(1)["id"], world.profile()["id"]
    change = {"cluster": {"profile_id": new, "profile_only": True}}
    world.api.ended(world.api.patch(f"clusters/{cluster}", change, version=version))
    assert world.api.get(f"clusters/{cluster}")["cluster"]["profile_id"] == new
    (node,) = world.members(cluster)
    assert (node["profile_id"] == new) is (version == "1.5")
