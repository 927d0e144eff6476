"""Yaffle behind a real Keystone: registered, found through the catalog, and each project on its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
import yaml
from lab.openstack import Credentials, Lab
from openstack.config import OpenStackConfig
from openstack.connection import Connection
from openstack.exceptions import ForbiddenException
from tests.functional.api.live import POLICY, Live, running
from tests.functional.cli.support import Done, run
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
        register(lab, "register", "--url", f"http://{live.address}", "--instance-ha")
        yield live
        register(lab, "unregister", "--instance-ha")


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


def test_masakaris_clients_find_it_too_and_are_administrators(lab: Lab, yaffle: Live) -> None:
    again = register(lab, "register", "--url", f"http://{yaffle.address}", "--instance-ha")
    endpoints = again["endpoints"]
    assert isinstance(endpoints, list)
    assert [e["step"] for e in endpoints] == ["kept"] * 6
    segment = {"name": "all", "recovery_method": "auto", "service_type": "COMPUTE"}
    told = {
        "type": "PROCESS",
        "hostname": "cmp1",
        "generated_time": "2026-11-29T10:00:00",
        "payload": {"event": "STARTED", "process_name": "nova-compute"},
    }
    with somebody(lab, "admin") as (boss, api), somebody(lab, "member") as (_, ann):
        made = api.instance_ha.create_segment(**segment)
        host = {"name": "cmp1", "type": "COMPUTE", "control_attributes": "SSH"}
        api.instance_ha.create_host(made.uuid, **host)
        api.instance_ha.create_notification(**told)
        with pytest.raises(ForbiddenException):
            list(ann.instance_ha.segments())
        headers = {"X-Auth-Token": str(api.auth_token)}
        with yaffle.client(headers) as client:
            # As catalogs have it that put the project's id before every path.
            path = f"/instance-ha/v1/{boss.project_id}/segments"
            assert [s["name"] for s in client.get(path).json()["segments"]] == ["all"]
            assert client.get(path.replace(boss.project_id, "admin")).status_code == 404
            (one,) = client.get("/yaffle/v1/host-notifications").json()["notifications"]
        assert one["sender"] == boss.user_id, "by which the settings name who is trusted"


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


def yaffle_as(who: Credentials, *words: str, given: str = "") -> Done:
    """Type a command as a user of that cloud, which says where the server is."""
    return run(
        *words,
        "--os-cloud",
        who.cloud,
        given=given,
        env={"OS_CLIENT_CONFIG_FILE": str(who.clouds_yaml)},
    )


def test_the_command_line_is_let_in_by_keystone(lab: Lab, yaffle: Live) -> None:
    with somebody(lab, "member") as (ann, _), somebody(lab, "member") as (bob, _):
        done = yaffle_as(ann, "policy", "create", "mine", "-", given=POLICY)
        assert done.code == 0, done
        listed = yaffle_as(ann, "policy", "list", "--json")
        (mine,) = listed.json["policies"]
        assert (mine["name"], mine["project"]) == ("mine", ann.project_id)
        assert yaffle_as(bob, "policy", "list", "--json").json["policies"] == []
        for words in (["incident", "list"], ["node", "list"], ["decision", "list"], ["status"]):
            assert yaffle_as(ann, *words).code == 0, words
        assert yaffle_as(ann, "policy", "delete", "mine").code == 0
    with somebody(lab, "reader") as (guest, _):
        done = yaffle_as(guest, "policy", "create", "mine", "-", given=POLICY)
        assert done.code not in {0, 5}, done
        assert "Traceback" not in done.err
    with somebody(lab, "admin") as (boss, _):
        # That takes the role `override` beside it, which nobody has here.
        stopped = yaffle_as(boss, "stop", "--all", "--reason", "a look", "--for", "1m")
        assert "the right to override" in stopped.err
        assert "here: config" in yaffle_as(boss, "doctor").out


def test_who_is_not_let_in_is_told_what_to_do(lab: Lab, yaffle: Live, tmp_path: Path) -> None:
    with somebody(lab, "member") as (ann, _):
        server = ("--server", f"http://{yaffle.address}")
        done = run("policy", "list", *server)
        assert "--os-cloud" in done.err, done
        unknown = yaffle_as(replace(ann, cloud="nowhere"), "policy", "list")
        assert (unknown.code, "--os-cloud nowhere" in unknown.err) == (2, True), unknown
        wrong = tmp_path / "clouds.yaml"
        wrong.write_text(ann.clouds_yaml.read_text().replace(ann.password, "wrong"))
        refused = yaffle_as(replace(ann, clouds_yaml=wrong), "policy", "list")
        assert (refused.code, "does not let you in" in refused.err) == (2, True), refused
        away = tmp_path / "away.yaml"
        away.write_text(
            ann.clouds_yaml.read_text().replace(lab.plan.auth_url, "http://127.0.0.1:9/v3")
        )
        gone = yaffle_as(replace(ann, clouds_yaml=away), "policy", "list")
        assert "Keystone of cloud" in gone.err, gone
        assert "Traceback" not in refused.err + gone.err + unknown.err
