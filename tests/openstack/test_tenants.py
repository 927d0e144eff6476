"""A second tenant against a real Keystone and a real Nova, over every verb that an id can be given to.

With one credential for all, nobody but its own project is served. With a credential of each project
both are, and what is the other's is answered as what is not there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from lab.openstack import Credentials
from tests.acceptance.rig import Api, serving
from tests.functional.api import foreign
from tests.openstack import people, yaffles
from tests.openstack.cloud import Cloud
from tests.openstack.people import PROFILE, Person, entered, nobody

NOVA = "os.nova.server-1.0"
SERVES_NOT = 403


@pytest.fixture
def mallory(cloud: Cloud) -> Iterator[Person]:
    """A member of a project that is not the victim's."""
    who = cloud.lab.project(roles=("member", "reader"))
    try:
        yield Person(who)
    finally:
        cloud.lab.remove_project(who)


def sent(person: Person) -> foreign.Ask:
    """Ask as that person; the answer as httpx has it."""

    def ask(method: str, path: str, body: object) -> httpx.Response:
        said = {**person.api.headers, "OpenStack-API-Version": "clustering 1.14"}
        return person.api.http.request(method, path, json=body, headers=said)

    return ask


def stocked(ann: Person, server: str) -> dict[str, str]:
    """Have Ann make one thing of each kind; return their ids."""
    api, name = ann.api, "anns"
    adopted = api.post("nodes/adopt", {"identity": server, "type": NOVA}, want=200).json["node"]
    body: dict[str, Any] = {"profile": {"name": name, "spec": PROFILE}}
    profile = api.post("profiles", body, want=201).json["profile"]["id"]
    body = {"policy": {"name": name, "spec": people.POLICY}}
    policy = api.post("policies", body, want=201).json["policy"]["id"]
    body = {"cluster": {"name": name, "profile_id": profile}}
    cluster = api.post("clusters", body).json["cluster"]["id"]
    body = {"receiver": {"name": name, "type": "webhook", "cluster_id": cluster}}
    body["receiver"]["action"] = "CLUSTER_SCALE_OUT"
    receiver = api.post("receivers", body, want=201).json["receiver"]["id"]
    body = {"scope": "node", "target": adopted["id"], "reason": "x"}
    pause = api.post("/yaffle/v1/maintenance", body, want=(200, 201)).json["maintenance"]["id"]
    return {
        "profile": profile,
        "policy": policy,
        "cluster": cluster,
        "receiver": receiver,
        "pause": pause,
        "node": adopted["id"],
        "action": api.get("/yaffle/v1/actions")["actions"][0]["id"],
        "event": api.get("events")["events"][-1]["id"],
    }


def seen_of(api: Api, cloud: Cloud, servers: list[str]) -> str:
    """Return what Ann has, and what Nova says of her servers."""
    told = {n: api.get(n)[n] for n in ("nodes", "clusters", "profiles", "policies", "receivers")}
    shown = [vars_of(cloud, one) for one in servers]
    acts = [people.acts(cloud.lab, one) for one in servers]
    return json.dumps([told, shown, acts], sort_keys=True, default=str)


def vars_of(cloud: Cloud, server: str) -> list[object]:
    found = cloud.show(server)
    return [found.id, found.status, found.power, found.metadata, found.task]


def test_with_one_credential_for_all_nobody_else_is_served(
    cloud: Cloud, mallory: Person, tmp_path: Path
) -> None:
    taken, spare = cloud.server("taken"), cloud.server("spare")
    config = tmp_path / "yaffle.toml"
    config.write_text(yaffles.settings(cloud, tmp_path))
    ann = Person(cloud.credentials)
    with (
        serving(tmp_path, "--config", str(config), local_process=False) as server,
        entered(server, ann, mallory),
    ):
        words = {**stocked(ann, taken), "thing": spare, "type": NOVA}
        before = seen_of(ann.api, cloud, [taken, spare])
        ask = sent(mallory)
        for method, path in sorted(foreign.rows()):
            bodies = foreign.BODIES.get((method, path), ())
            tried = [foreign.IN_PATH.get((method, path)), *(make(words, words) for make in bodies)]
            for body in tried:
                answer = ask(method, foreign.filled(path, words), body)
                assert answer.status_code == SERVES_NOT, f"{method} {path}: {answer.text}"
                assert taken not in answer.text
        refused = ask("POST", "/v1/nodes/adopt", {"identity": spare, "type": NOVA})
        assert 'credentials = \\"projects\\"' in refused.text
        assert seen_of(ann.api, cloud, [taken, spare]) == before
        # Who is of the project itself goes on.
        assert ann.api.ask("POST", "nodes/adopt", {"identity": spare, "type": NOVA}).status == 200


@pytest.fixture
def service(cloud: Cloud) -> Iterator[Credentials]:
    """Who Yaffle is: nobody in any project."""
    with nobody(cloud.lab) as who:
        yield who


def test_with_each_projects_own_what_is_the_others_is_not_there(
    cloud: Cloud, service: Credentials, mallory: Person, tmp_path: Path
) -> None:
    assert foreign.without_a_case() == set()
    taken, spare = cloud.server("taken"), cloud.server("spare")
    ann = Person(cloud.credentials)
    config = people.settings(cloud.lab, service, tmp_path)
    with (
        serving(tmp_path, "--config", str(config), local_process=False) as server,
        entered(server, ann, mallory),
    ):
        theirs = {**stocked(ann, taken), "thing": spare}
        ask = sent(mallory)
        made = mallory.api.post("profiles", {"profile": {"name": "m", "spec": PROFILE}}, want=201)
        own = {"profile": made.json["profile"]["id"], "type": NOVA}
        body = {"cluster": {"name": "m", "profile_id": own["profile"]}}
        own["cluster"] = mallory.api.post("clusters", body).json["cluster"]["id"]
        mallory.api.until(f"clusters/{own['cluster']}", lambda c: c["status"] == "ACTIVE")
        before = seen_of(ann.api, cloud, [taken, spare])
        assert foreign.told_apart(ask, theirs, own) == []
        for identity in (taken, spare, "spare"):
            for how in ("adopt", "adopt-preview"):
                answer = ask("POST", f"/v1/nodes/{how}", {"identity": identity, "type": NOVA})
                assert answer.status_code == 400
                assert "could not be found" in answer.text
        for plural in ("nodes", "clusters", "profiles", "policies", "receivers", "actions"):
            assert ask("GET", f"/v1/{plural}?global_project=true", None).status_code == 403
        assert not_told(ask, theirs) == []
        assert seen_of(ann.api, cloud, [taken, spare]) == before


def not_told(ask: foreign.Ask, theirs: dict[str, str]) -> list[str]:
    """Return the lists in which something of theirs stands."""
    paths = [path for method, path in foreign.rows() if method == "GET" and "{" not in path]
    texts = {path: ask("GET", path, None).text for path in sorted(paths)}
    return [path for path, text in texts.items() if any(one in text for one in theirs.values())]
