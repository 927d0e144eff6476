"""The instance-HA API at its edges: who is let in, which versions it speaks, and how it refuses."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.functional.api.live import Live, running
from tests.functional.api.people import PEOPLE, token_file

V1 = "/instance-ha/v1"
SEGMENT = {"name": "s", "recovery_method": "auto", "service_type": "COMPUTE"}


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    folder = tmp_path_factory.mktemp("people")
    with running(folder / "state", server={"token_file": token_file(folder)}) as served:
        yield served


def ask(live: Live, who: str, method: str, path: str, body: Any = None, version: str = "") -> Any:
    headers = dict(PEOPLE[who].headers) if who else {}
    if version:
        headers["OpenStack-API-Version"] = f"instance-ha {version}"
    with live.client(headers) as client:
        return client.request(method, f"{V1}{path}", json=body)


def test_strangers_and_members_are_told_so_in_the_shape_that_clients_know(live: Live) -> None:
    unknown = ask(live, "", "GET", "/segments")
    assert unknown.status_code == 401
    assert unknown.json()["error"]["message"].startswith("The request you have made requires")
    forbidden = ask(live, "member", "GET", "/segments")
    assert forbidden.status_code == 403
    assert forbidden.json()["forbidden"]["code"] == 403
    assert ask(live, "admin", "GET", "/segments").json() == {"segments": []}


def test_which_versions_there_are_is_told_to_anybody(live: Live) -> None:
    for path in ("", "/"):
        told = ask(live, "", "GET", path)
        assert told.json()["version"]["version"] == "1.3"
        assert told.headers["OpenStack-API-Version"] == "instance-ha 1.0"
    with live.client() as client:
        for path in ("/instance-ha", "/instance-ha/"):
            (version,) = client.get(path).json()["versions"]
            assert version["links"][0]["href"] == f"http://{live.address}{V1}/"
    with live.client(PEOPLE["admin"].headers) as client:
        assert client.get("/instance-ha/v2/segments").status_code == 300


@pytest.mark.parametrize(
    ("version", "status", "kind"),
    [("1.4", 406, "masakariFault"), ("2.0", 406, "masakariFault"), ("one", 400, "badRequest")],
)
def test_what_is_not_spoken_is_refused_in_its_words(
    live: Live, version: str, status: int, kind: str
) -> None:
    refused = ask(live, "admin", "GET", "/segments", version=version)
    assert (refused.status_code, list(refused.json())) == (status, [kind])


def test_enabled_is_known_since_1_2(live: Live) -> None:
    body = {"segment": {**SEGMENT, "name": "switched", "enabled": False}}
    for version in ("", "1.0", "1.1"):
        assert ask(live, "admin", "POST", "/segments", body, version).status_code == 400
    made = ask(live, "admin", "POST", "/segments", body, "1.2").json()["segment"]
    assert made["enabled"] is False
    place = f"/segments/{made['uuid']}"
    change = {"segment": {"enabled": True}}
    assert ask(live, "admin", "PUT", place, change).status_code == 400
    assert ask(live, "admin", "PUT", place, change, "1.3").json()["segment"]["enabled"] is True


def test_a_projects_id_may_stand_before_every_path(live: Live) -> None:
    project = uuid.uuid4().hex
    for path in ("/segments", "/notifications"):
        assert ask(live, "admin", "GET", f"/{project}{path}").status_code == 200
        assert ask(live, "", "GET", f"/{project}{path}").status_code == 401
        assert ask(live, "member", "GET", f"/{project}{path}").status_code == 403
        assert ask(live, "admin", "GET", f"/admin{path}").status_code == 404


def test_a_page_of_lists_goes_on_behind_its_marker(live: Live) -> None:
    names = [f"page-{number}" for number in range(5)]
    for name in names:
        ask(live, "admin", "POST", "/segments", {"segment": {**SEGMENT, "name": name}})
    found: list[str] = []
    marker = ""
    while True:
        query = f"?limit=2&sort_key=name&sort_dir=asc{marker}"
        page = ask(live, "admin", "GET", f"/segments{query}").json()["segments"]
        if not page:
            break
        found += [one["name"] for one in page]
        marker = f"&marker={page[-1]['uuid']}"
    assert [name for name in found if name.startswith("page-")] == names


def test_lists_choose_by_what_they_say(live: Live) -> None:
    made = ask(live, "admin", "POST", "/segments", {"segment": {**SEGMENT, "name": "choosy"}})
    hosts = f"/segments/{made.json()['segment']['uuid']}/hosts"
    for name, reserved in (("a", True), ("b", False)):
        host = {"name": name, "type": "C", "control_attributes": "x", "reserved": reserved}
        ask(live, "admin", "POST", hosts, {"host": host})

    def names(query: str) -> list[str]:
        shown = ask(live, "admin", "GET", f"{hosts}?{query}").json()["hosts"]
        return sorted(one["name"] for one in shown)

    assert names("reserved=yes") == names("name=a") == ["a"]
    assert names("reserved=off") == ["b"]
    assert names("on_maintenance=1") == []
    assert names("nonsense=1") == ["a", "b"], "as Masakari does"
    taken = ask(live, "admin", "POST", hosts, {"host": {**host, "name": "a"}})
    assert taken.status_code == 409
    assert taken.json()["conflictingRequest"]["message"] == "Host with name a already exists."


@pytest.mark.parametrize(
    "body", [b"\xff", b"[" * 100_000, b'{"segment": ' + b"[" * 60 + b"]" * 60 + b"}", b"null"]
)
def test_what_is_no_request_is_refused(live: Live, body: bytes) -> None:
    headers = {**PEOPLE["admin"].headers, "Content-Type": "application/json"}
    with live.client(headers) as client:
        answer: httpx.Response = client.post(f"{V1}/segments", content=body)
    assert answer.status_code == 400
    assert answer.json()["badRequest"]["code"] == 400


def test_a_cloud_that_cannot_be_asked_is_no_cloud_without_that_host(
    live: Live, tmp_path: Path
) -> None:
    class Cloud:
        answer: Any = True

        async def has_host(self, host: str, *, deadline_s: float) -> Any:
            return self.answer

    cloud = Cloud()
    profiles: Any = live.service.ctx.drivers.profiles
    profiles["cloud"] = cloud
    try:
        made = ask(live, "admin", "POST", "/segments", {"segment": {**SEGMENT, "name": "asked"}})
        hosts = f"/segments/{made.json()['segment']['uuid']}/hosts"
        wanted = {True: 201, False: 400, "the cloud is away": 503}
        for answer, status in wanted.items():
            cloud.answer = answer
            host = {"name": f"h-{status}", "type": "C", "control_attributes": "x"}
            got = ask(live, "admin", "POST", hosts, {"host": host})
            assert got.status_code == status, got.text
        assert got.headers["Retry-After"] == "1"
    finally:
        del profiles["cloud"]
