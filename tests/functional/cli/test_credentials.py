"""`yaffle credential …`: what is handed over is tried, sealed, listed without its secret, and let go."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.functional.cli.fake_cloud import PROJECT, READER, FakeCloud, served
from tests.functional.cli.support import Done, run_here

from yaffle.engine.runtime.clock import SystemClock
from yaffle.engine.runtime.stored_credentials import StoredCredentials
from yaffle.integrations.secret_box import KeyFile
from yaffle.model.credentials import Credential, CredentialKind
from yaffle.store.database import open_store

CANARY = "canary-5f1d9c-secret"
NOVA = "os.nova.server-1.0"


@dataclass
class Desk:
    """A state directory with settings, and a cloud that takes every credential."""

    folder: Path
    cloud: FakeCloud

    def cli(self, *words: str, given: str = "", **env: str) -> Done:
        mine = {
            "YAFFLE_CONFIG": str(self.folder / "yaffle.toml"),
            "YAFFLE_STATE_DIR": str(self.folder),
        }
        return run_here("credential", *words, env={**mine, **env}, given=given)

    def ok(self, *words: str, given: str = "") -> Done:
        done = self.cli(*words, given=given)
        assert done.code == 0, done.err
        return done

    def add(self, ident: str, *words: str) -> Done:
        return self.ok("add", "--id", ident, *words, given=f"{CANARY}\n")


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with served() as cloud:
        clouds = cloud.clouds_yaml(tmp_path / "clouds.yaml")
        (tmp_path / "yaffle.toml").write_text(
            f'[credentials]\nkeys_file = "{tmp_path / "keys"}"\n'
            f'[drivers."{NOVA}"]\n'
            f'cloud = "prod"\nclouds_file = "{clouds}"\ncredentials = "projects"\n'
        )
        store = open_store(f"sqlite:///{tmp_path / 'yaffle.db'}", clock=SystemClock())

        asyncio.run(store.close())
        house = Desk(tmp_path, cloud)
        house.ok("new-key", "--file", str(tmp_path / "keys"))
        yield house


def stored(desk: Desk) -> list[tuple[str, ...]]:
    with sqlite3.connect(desk.folder / "yaffle.db") as raw:
        return raw.execute("SELECT reference, project, user, key_id FROM credentials").fetchall()


def test_it_is_tried_sealed_and_listed_without_its_secret(desk: Desk) -> None:
    said = desk.add("ac-1")
    assert said.out == f"application credential ac-1 for project {PROJECT} in cloud prod: added\n"
    assert ("POST", "/v3/auth/tokens", "") in desk.cloud.asked
    ((reference, project, user, _),) = stored(desk)
    assert (reference, project, user) == ("ac-1", PROJECT, READER)
    listed = desk.ok("list")
    assert "ac-1" in listed.out
    assert CANARY not in said.out + said.err + listed.out + desk.ok("list", "--json").out
    assert not any(CANARY.encode() in path.read_bytes() for path in desk.folder.iterdir())


def test_a_second_one_takes_its_place_and_both_can_be_let_go(desk: Desk) -> None:
    desk.add("ac-1")
    assert "in place of the one before" in desk.add("ac-2").out
    (row,) = desk.ok("list", "--json").json["credentials"]
    assert row["reference"] == "ac-2"
    assert "revoke it in the cloud" in desk.ok("remove", row["id"][:8]).out
    assert desk.ok("list").out == "no credentials\n"
    assert desk.cli("remove", "nothing").code == 3


def test_a_secret_is_no_argument_and_not_empty(desk: Desk) -> None:
    assert desk.cli("add", "--id", "ac-1", "--secret", CANARY).code == 2
    empty = desk.cli("add", "--id", "ac-1", given="\n")
    assert (empty.code, "empty" in empty.err) == (2, True)
    assert stored(desk) == []


def test_one_that_does_not_work_is_not_stored(desk: Desk) -> None:
    clouds = desk.folder / "clouds.yaml"
    desk.cloud.clouds_yaml(clouds, port=1)
    said = desk.cli("add", "--id", "ac-1", given=f"{CANARY}\n")
    assert said.code != 0
    assert "did not work" in said.err
    assert CANARY not in said.err
    assert stored(desk) == []


def test_a_new_key_seals_everything_anew(desk: Desk) -> None:
    desk.add("ac-1")
    before = stored(desk)[0][-1]
    desk.ok("new-key", "--file", str(desk.folder / "keys"))
    assert "1 sealed anew" in desk.ok("rotate").out
    assert stored(desk)[0][-1] != before
    assert "0 sealed anew, 1 already were" in desk.ok("rotate").out


def test_a_trust_that_is_still_to_be_deleted_is_listed_with_the_reason(desk: Desk) -> None:
    async def trusted_twice() -> None:
        clock = SystemClock()
        async with open_store(f"sqlite:///{desk.folder / 'yaffle.db'}", clock=clock) as store:
            kept = StoredCredentials(store, KeyFile(desk.folder / "keys"), clock)
            for reference in ("t-1", "t-2"):
                await kept.put(
                    Credential(
                        id="", cloud="prod", project=PROJECT, user=READER, reference=reference,
                        secret="", kind=CredentialKind.TRUST,
                    )
                )  # fmt: skip
            await kept.not_deleted("prod", PROJECT, READER, "t-1", "it is not yours")

    asyncio.run(trusted_twice())
    listed = {row["reference"]: row for row in desk.ok("list", "--json").json["credentials"]}
    assert (listed["t-1"]["kind"], listed["t-2"]["kind"]) == ("superseded_trust", "trust")
    assert "not deleted in the cloud: it is not yours" in desk.ok("list").out
    # It holds nothing that a new key would have to seal.
    desk.ok("new-key", "--file", str(desk.folder / "keys"))
    assert "1 sealed anew, 0 already were" in desk.ok("rotate").out
    desk.ok("remove", listed["t-1"]["id"])
    assert [row["reference"] for row in desk.ok("list", "--json").json["credentials"]] == ["t-2"]


def test_a_key_that_is_lost_is_named_and_nothing_is_lost_with_it(desk: Desk) -> None:
    desk.add("ac-1")
    (desk.folder / "keys").unlink()
    desk.ok("new-key", "--file", str(desk.folder / "keys"))
    said = desk.cli("rotate")
    assert said.code != 0
    assert stored(desk)[0][-1] in said.err
    assert len(stored(desk)) == 1


def test_without_a_file_of_keys_it_is_said_how_to_get_one(desk: Desk) -> None:
    (desk.folder / "keys").unlink()
    said = desk.cli("add", "--id", "ac-1", given=f"{CANARY}\n")
    assert said.code == 2
    assert "keys_file" in said.err
    assert desk.cloud.asked == []


def test_a_cloud_that_no_driver_uses_so(desk: Desk) -> None:
    said = desk.cli("add", "--id", "ac-1", "--cloud", "other", given=f"{CANARY}\n")
    assert said.code == 2
    assert "prod" in said.err
