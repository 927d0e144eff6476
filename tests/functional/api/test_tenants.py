"""One credential for all behind Keystone: its own project is served, and nobody else reaches it.

The cloud here believes everything, as one does that is asked with an administrator's credential. What
a real Keystone and a real Nova say of a second tenant is in tests/openstack/test_tenants.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import select
from tests.functional.api.keystone import PASSWORD, Keystone, keystone
from tests.functional.api.live import Live, running
from tests.functional.cli.fake_cloud import PROJECT, FakeCloud, served

from yaffle.api.rights import OPEN, TABLE
from yaffle.store.tables import nodes, receivers

NOVA = "os.nova.server-1.0"
THEIRS = "q" * 32
ROLES = ("member", "override", "fence")
ROWS = [
    (method, path)
    for path, methods in TABLE.items()
    for method, needs in methods.items()
    if needs != OPEN
]


@dataclass
class House:
    """A server behind Keystone that acts in a cloud with one credential, which is PROJECT's."""

    live: Live
    keystone: Keystone
    cloud: FakeCloud

    def ask(
        self, project: str, method: str, path: str, body: object = None, *roles: str
    ) -> httpx.Response:
        token = self.keystone.token(*(roles or ROLES), user=f"u-{project}", project=project)
        with self.live.client({"X-Auth-Token": token}) as client:
            return client.request(method, path, json=body)

    def adopt(self, project: str, identity: str, how: str = "adopt", *roles: str) -> httpx.Response:
        body = {"identity": identity, "type": NOVA}
        return self.ask(project, "POST", f"/v1/nodes/{how}", body, *roles)


@contextmanager
def housed(root: Path, **driver: Any) -> Iterator[House]:
    password = root / "password"
    password.write_text(PASSWORD)
    password.chmod(0o600)
    with keystone() as its, served() as cloud:
        file = cloud.clouds_yaml(root / "clouds.yaml")
        with running(
            root / "state",
            server={"keystone": {"auth_url": its.url, "password_file": password, "timeout": 30.0}},
            drivers={NOVA: {"cloud": "prod", "clouds_file": str(file), **driver}},
        ) as live:
            yield House(live, its, cloud)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with housed(tmp_path_factory.mktemp("tenants")) as found:
        yield found


def a_server(house: House, name: str, tenant: str = PROJECT) -> str:
    flavor, image = {"original_name": "tiny"}, {"id": "i-1"}
    return house.cloud.add(name, tenant_id=tenant, flavor=flavor, image=image, addresses={})


def stored(house: House, physical_id: str) -> int:
    query = select(nodes.c.id).where(nodes.c.physical_id == physical_id)
    return len(house.live.write(lambda conn: conn.execute(query).all()))


@pytest.fixture(scope="module")
def node(house: House) -> str:
    """A node of the credential's own project."""
    answer = house.adopt(PROJECT, a_server(house, "mine"))
    assert answer.status_code == 200, answer.text
    return str(answer.json()["node"]["id"])


@pytest.mark.parametrize(("method", "path"), ROWS, ids=lambda word: word)
def test_no_route_serves_another_project(house: House, node: str, method: str, path: str) -> None:
    before = len(house.cloud.writes)
    place = re.sub(r"{[^}]+}", node, path)
    answer = house.ask(THEIRS, method, place, {})
    assert answer.status_code == 403, answer.text
    # An administrator's route is closed by that; every other one says what an operator has to do.
    if not answer.text.count("admin"):
        assert 'credentials = \\"projects\\"' in answer.text
        assert NOVA in answer.text
    assert PROJECT not in answer.text
    assert len(house.cloud.writes) == before


def test_neither_by_asking_for_the_lists_of_every_project(house: House, node: str) -> None:
    for plural in ("nodes", "clusters", "profiles", "policies", "actions", "receivers", "events"):
        answer = house.ask(THEIRS, "GET", f"/v1/{plural}?global_project=true")
        assert answer.status_code == 403
        assert node not in answer.text


def test_a_server_of_the_credentials_own_project_is_nobody_elses(house: House) -> None:
    server = a_server(house, "wanted")
    before = len(house.cloud.writes)
    for how in ("adopt-preview", "adopt"):
        assert house.adopt(THEIRS, server, how).status_code == 403
    assert len(house.cloud.writes) == before
    assert stored(house, server) == 0


@pytest.mark.parametrize("how", ["adopt-preview", "adopt"])
@pytest.mark.parametrize("word", ["id", "name"])
def test_a_server_of_another_project_is_answered_as_one_that_is_not_there(
    house: House, how: str, word: str
) -> None:
    # Shown to us all the same: the credential is an administrator's.
    name = f"of-theirs-{how}-{word}"
    server = a_server(house, name, THEIRS)
    asked = server if word == "id" else name
    before = len(house.cloud.writes)
    answer = house.adopt(PROJECT, asked, how)
    unknown = house.adopt(PROJECT, "no-such-server", how)
    assert answer.status_code == unknown.status_code == 400
    assert answer.text.replace(asked, "X") == unknown.text.replace("no-such-server", "X")
    assert len(house.cloud.writes) == before
    assert stored(house, server) == 0


def test_what_it_would_be_refused_for_is_not_told_either(house: House) -> None:
    marked = a_server(house, "marked", THEIRS)
    house.cloud.servers[marked]["metadata"] = {"cluster_node_id": "somebody-elses"}
    answer = house.adopt(PROJECT, marked)
    assert answer.status_code == 400
    assert "somebody-elses" not in answer.text


def test_an_administrator_of_another_project_looks_and_adopts_nothing_here(
    house: House, node: str
) -> None:
    assert house.ask(THEIRS, "GET", f"/v1/nodes/{node}", None, "admin").status_code == 200
    assert house.adopt(THEIRS, a_server(house, "boss"), "adopt", "admin").status_code == 400


def test_a_webhook_of_another_project_starts_nothing(house: House) -> None:
    body = {"profile": {"name": "p", "spec": {**SPEC}}}
    profile = house.ask(PROJECT, "POST", "/v1/profiles", body).json()["profile"]["id"]
    body = {"cluster": {"name": "c", "profile_id": profile}}
    cluster = house.ask(PROJECT, "POST", "/v1/clusters", body).json()["cluster"]["id"]
    body = {
        "receiver": {
            "name": "r", "type": "webhook", "cluster_id": cluster, "action": "CLUSTER_SCALE_OUT",
        }
    }  # fmt: skip
    made = house.ask(PROJECT, "POST", "/v1/receivers", body).json()["receiver"]["id"]
    # As one is that was made before its project was turned away.
    house.live.write(lambda conn: conn.execute(receivers.update().values(project=THEIRS)))
    with house.live.client() as client:
        answer = client.post(f"/v1/webhooks/{made}/trigger?V=2")
    assert answer.status_code == 403
    assert "credentials" in answer.text


SPEC = {
    "type": "os.nova.server",
    "version": "1.0",
    "properties": {"flavor": "tiny", "image": "i-1", "networks": "none"},
}


def test_while_the_credentials_project_cannot_be_asked_nobody_is_taken_for_it(
    tmp_path: Path,
) -> None:
    with housed(tmp_path) as house:
        house.cloud.keystone_away = True
        for project in (PROJECT, THEIRS):
            answer = house.ask(project, "GET", "/v1/nodes")
            assert answer.status_code == 503, answer.text
            assert "cannot be asked" in answer.text
        house.cloud.keystone_away = False
        assert house.ask(PROJECT, "GET", "/v1/nodes").status_code == 200
        assert house.ask(THEIRS, "GET", "/v1/nodes").status_code == 403
        # What it is for does not change while it is in use, so that is asked for once.
        house.cloud.keystone_away = True
        assert house.ask(THEIRS, "GET", "/v1/nodes").status_code == 403


def test_people_of_a_file_share_the_credential_and_see_its_project_alone(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    lines = "ann:ann-0123456789abcdef project=web roles=member\n"
    tokens.write_text(lines + "root:root-0123456789abcdef roles=admin\n")
    tokens.chmod(0o600)
    with served() as cloud:
        file = cloud.clouds_yaml(tmp_path / "clouds.yaml")
        driver = {"cloud": "prod", "clouds_file": str(file), "all_projects": True}
        with running(
            tmp_path / "state", server={"token_file": tokens}, drivers={NOVA: driver}
        ) as live:
            house = House(live, Keystone(), cloud)
            mine, theirs = a_server(house, "mine"), a_server(house, "theirs", THEIRS)

            def preview(who: str, server: str) -> int:
                headers = {"Authorization": f"Bearer {who}-0123456789abcdef"}
                body = {"identity": server, "type": NOVA}
                with live.client(headers) as client:
                    return client.post("/v1/nodes/adopt-preview", json=body).status_code

            assert preview("ann", mine) == 200
            assert preview("ann", theirs) == 400
            # An administrator of ours, with servers of all projects: for that the setting is there.
            assert preview("root", theirs) == 200
            house.keystone.server.server_close()
