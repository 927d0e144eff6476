"""Yaffle behind a real Keystone: registered, found through the catalog, and each project on its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest
import yaml
from lab.openstack import Credentials, Lab
from openstack.config import OpenStackConfig
from openstack.connection import Connection
from tests.functional.api.live import POLICY, Live, running
from tests.openstack.registering import register, service_user
from tests.openstack.turns import turn

# openstacksdk deprecates what it uses itself.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::PendingDeprecationWarning"),
]
SPEC = yaml.safe_load(POLICY)


@pytest.fixture(scope="module")
def yaffle(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """An API that believes the lab's Keystone, and that its catalog knows."""
    root = tmp_path_factory.mktemp("keystone")
    server = {"keystone": service_user(lab, root)}
    # Nobody takes Keystone away meanwhile.
    with turn(lab.plan.state, alone=False), running(root / "state", server=server) as live:
        register(lab, "register", "--url", f"http://{live.address}")
        yield live
        register(lab, "unregister")


@contextmanager
def somebody(lab: Lab, *roles: str) -> Iterator[tuple[Credentials, Connection]]:
    """A user with `roles` in a project of their own, and their connection."""
    who = lab.project(roles=roles)
    config = OpenStackConfig(config_files=[str(who.clouds_yaml)], load_envvars=False)
    connection = Connection(config=config.get_one(who.cloud))
    try:
        yield who, connection
    finally:
        connection.close()
        lab.remove_project(who)


def test_registering_again_changes_nothing(lab: Lab, yaffle: Live) -> None:
    told = register(lab, "register", "--url", f"http://{yaffle.address}")
    assert told["service"] == "kept"
    endpoints = told["endpoints"]
    assert isinstance(endpoints, list)
    assert {e["interface"]: e["step"] for e in endpoints} == dict.fromkeys(
        ("public", "internal", "admin"), "kept"
    )


def test_clients_find_it_and_own_what_they_make(lab: Lab, yaffle: Live) -> None:
    with somebody(lab, "member") as (who, ann), somebody(lab, "member") as (_, bob):
        made = ann.clustering.create_policy(name="mine", spec=SPEC)
        assert made.project_id == who.project_id
        assert made.user_id == who.user_id
        assert made.domain_id == "default"
        assert [p.id for p in ann.clustering.policies()] == [made.id]
        assert list(bob.clustering.policies()) == []
        assert bob.clustering.find_policy(made.id) is None
        with somebody(lab, "admin") as (_, boss):
            assert boss.clustering.get_policy(made.id).name == "mine"
        ann.clustering.delete_policy(made.id)


@pytest.mark.parametrize(
    ("roles", "read", "write"),
    [
        (("reader",), 200, 403),
        (("member",), 200, 201),
        (("admin",), 200, 201),
        (("service",), 403, 403),
    ],
)
def test_keystones_roles_are_ours(
    lab: Lab, yaffle: Live, roles: tuple[str, ...], read: int, write: int
) -> None:
    with somebody(lab, *roles) as (_, connection):
        headers = {"X-Auth-Token": str(connection.auth_token)}
        with yaffle.client(headers) as client:
            assert client.get("/v1/policies").status_code == read
            body = {"policy": {"name": "x", "spec": SPEC}}
            assert client.post("/v1/policies", json=body).status_code == write


def test_a_token_that_was_taken_back_is_nobodys(lab: Lab, yaffle: Live) -> None:
    with somebody(lab, "member") as (_, connection):
        token = str(connection.auth_token)
        headers = {"X-Auth-Token": token, "X-Subject-Token": token}
        taken = httpx.delete(f"{lab.plan.auth_url}/auth/tokens", headers=headers, timeout=60)
        assert taken.status_code == 204
        with yaffle.client({"X-Auth-Token": token}) as client:
            answer = client.get("/v1/policies")
        assert answer.status_code == 401
        assert answer.headers["WWW-Authenticate"] == f'Keystone uri="{lab.plan.auth_url}"'
