"""Keystone's tokens at the door: whose they are, what they may, and what happens while it is away."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from tests.functional.api.keystone import (
    AWAY,
    HANGING,
    PASSWORD,
    STRANGER,
    WELL,
    Keystone,
    keystone,
)
from tests.functional.api.live import POLICY, Live, policy_body, running
from tests.private import private
from tests.waiting import wait_for

from yaffle.api.auth import read_identity
from yaffle.config import KeystoneSettings, ServerSettings
from yaffle.engine.runtime.clock import SystemClock
from yaffle.errors import ConfigError


@dataclass(frozen=True)
class House:
    """A server and the Keystone that it asks."""

    live: Live
    keystone: Keystone

    def ask(
        self, token: str, method: str = "GET", path: str = "/v1/clusters", body: object = None
    ) -> httpx.Response:
        headers = {"X-Auth-Token": token} if token else {}
        with self.live.client(headers) as client:
            return client.request(method, path, json=body)


@contextmanager
def housed(root: Path, timeout_s: float) -> Iterator[House]:
    """Run a server that gives its Keystone so long."""
    with keystone() as its:
        settings = {
            "auth_url": its.url,
            "password_file": private(root / "password", PASSWORD),
            "timeout": timeout_s,
            "roles": {"Operator": "member", "surgeon": "override"},
        }
        with running(root / "state", server={"keystone": settings}) as live:
            yield House(live, its)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """Patient: what it is asked is not about time."""
    with housed(tmp_path_factory.mktemp("keystone"), 30.0) as found:
        yield found


def test_without_a_token_it_is_said_where_to_get_one(house: House) -> None:
    answer = house.ask("")
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == f'Keystone uri="{house.keystone.url}"'
    assert answer.json()["error"]["code"] == 401


@pytest.mark.parametrize(
    "token", ["nobody gave it", "x" * 9000, "müde"], ids=["made up", "long", "odd"]
)
def test_a_token_that_keystone_does_not_know(house: House, token: str) -> None:
    with house.live.client() as client:
        answer = client.get("/v1/clusters", headers={"X-Auth-Token": token.encode()})
    assert answer.status_code == 401


@pytest.mark.parametrize(
    ("roles", "read", "write", "admin"),
    [
        (("reader",), 200, 403, 403),
        (("member",), 200, 201, 403),
        (("MEMBER", "something else"), 200, 201, 403),
        (("operator",), 200, 201, 403),
        (("admin",), 200, 201, 200),
        (("something else",), 403, 403, 403),
        ((), 403, 403, 403),
        # To override takes a role besides: whoever may act also has to be able to look.
        (("surgeon",), 403, 403, 403),
    ],
)
def test_roles_are_rights(
    house: House, roles: tuple[str, ...], read: int, write: int, admin: int
) -> None:
    token = house.keystone.token(*roles)
    body = policy_body("from-keystone", POLICY)
    assert house.ask(token).status_code == read
    assert house.ask(token, "POST", "/v1/policies", body).status_code == write
    assert house.ask(token, path="/v1/services").status_code == admin


def test_what_somebody_makes_is_their_projects(house: House) -> None:
    mine = house.keystone.token("member", user="ann", project="web")
    other = house.keystone.token("member", user="bob", project="db")
    made = house.ask(mine, "POST", "/v1/policies", policy_body("mine", POLICY))
    assert made.status_code == 201
    policy = made.json()["policy"]
    assert (policy["user"], policy["project"], policy["domain"]) == ("ann", "web", "default")
    assert house.ask(mine, path=f"/v1/policies/{policy['id']}").status_code == 200
    assert house.ask(other, path=f"/v1/policies/{policy['id']}").status_code == 404
    boss = house.keystone.token("admin", project="ops")
    assert house.ask(boss, path=f"/v1/policies/{policy['id']}").status_code == 200


def test_a_token_without_a_project_may_nothing(house: House) -> None:
    answer = house.ask(house.keystone.token(project=None))
    assert answer.status_code == 403


def test_a_token_is_asked_for_once_by_however_many(house: House) -> None:
    token = house.keystone.token("member")
    threads = [threading.Thread(target=house.ask, args=(token,)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert house.ask(token).status_code == 200
    assert house.keystone.validated.count(token) == 1


def test_a_token_is_not_believed_longer_than_it_lives(house: House) -> None:
    def believed() -> str | None:
        """Return a token that was taken, which on a busy machine may end before it is looked at."""
        made = house.keystone.token("member", lives_s=8)
        return made if house.ask(made).status_code == 200 else None

    token = wait_for(believed)
    assert token is not None
    wait_for(lambda: house.ask(token).status_code != 200)
    assert house.ask(token).status_code == 401


@pytest.mark.parametrize("manner", [AWAY, HANGING, STRANGER])
def test_while_keystone_cannot_tell_nobody_is_turned_away_for_good(
    tmp_path: Path, manner: str
) -> None:
    with housed(tmp_path, 1.0) as house:
        _is_told_to_come_again(house, manner)


def _is_told_to_come_again(house: House, manner: str) -> None:
    known, unknown = house.keystone.token("member"), house.keystone.token("member")
    # Its Keystone has but a second, which may not be enough at once.
    wait_for(lambda: house.ask(known).status_code == 200)
    house.keystone.manner = manner
    began_s = time.monotonic()
    answer = house.ask(unknown)
    assert answer.status_code == 503, answer.text
    assert "Keystone cannot be asked" in answer.text
    assert int(answer.headers["Retry-After"]) >= 1
    # One that hangs does so for a minute.
    assert time.monotonic() - began_s < 45
    # Who was known a moment ago goes on working, and health is nobody's secret.
    assert house.ask(known).status_code == 200
    house.keystone.manner = WELL
    house.keystone.goes_on.set()
    wait_for(lambda: house.ask(unknown).status_code == 200)


def settings(tmp_path: Path) -> KeystoneSettings:
    return KeystoneSettings(
        auth_url="http://127.0.0.1:1/v3", password_file=private(tmp_path / "password", PASSWORD)
    )


def test_it_counts_as_asking_for_credentials(tmp_path: Path) -> None:
    server = ServerSettings(listen="0.0.0.0:8777", keystone=settings(tmp_path))
    assert read_identity(server, SystemClock()).challenges == (
        'Keystone uri="http://127.0.0.1:1/v3"',
    )


def test_a_password_that_others_may_read_is_refused(tmp_path: Path) -> None:
    loose = settings(tmp_path)
    loose.password_file.chmod(0o604)
    with pytest.raises(ConfigError, match=r"server\.keystone\.password_file = .*chmod 600"):
        read_identity(ServerSettings(keystone=loose), SystemClock())
    loose.password_file.unlink()
    with pytest.raises(ConfigError, match="No such file"):
        read_identity(ServerSettings(keystone=loose), SystemClock())
