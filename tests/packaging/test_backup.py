"""Backing up under load and restoring, by the very commands of the how-to, on every database."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import stat
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
import yaml
from tests.docs.pages import DOCS, blocks
from tests.packaging.nodes import POLICY, all_well, cluster_of_two, healths, living
from tests.packaging.serving import Serving, until, yaffle
from tests.packaging.test_databases import PASSWORD, SECRET, prepared, url_of, with_users
from tests.servers.mariadb import MariaDB
from tests.servers.postgresql import PostgreSQL

__all__ = ["prepared"]

PAGE = DOCS / "howto/back-up-and-move.md"
TOOLS = {
    "sqlite": ("sqlite3",),
    "postgresql": ("pg_dump", "pg_restore"),
    "mariadb": ("mariadb-dump", "mariadb"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the facts are, and how the how-to's commands are made to speak of it."""

    kind: str
    url: str
    words: Mapping[str, str]
    secret: Mapping[str, str] = field(default_factory=dict)
    """The password of its users, as their tools take it from the environment."""

    def follow(self, what: str) -> None:
        """Run the commands that the how-to shows for `what` of this kind of database."""
        [text] = [b.text for b in blocks(PAGE) if b.word(what) == self.kind]
        for sample, ours in self.words.items():
            text = text.replace(sample, ours)
        assert "example.org" not in text
        assert "/var/lib" not in text
        done = subprocess.run(
            ["sh", "-e", "-c", text],
            env={**os.environ, **self.secret},
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
        assert done.returncode == 0, f"{text}\n{done.stdout}{done.stderr}"


@pytest.fixture(params=list(TOOLS))
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    kind = str(request.param)
    for tool in TOOLS[kind]:
        if shutil.which(tool) is None:
            pytest.skip(f"there is no {tool}")
    backup = {"/backup/": f"{tmp_path}/backup-"}
    if kind == "sqlite":
        state = tmp_path / "state"
        return Place(
            kind=kind,
            url=f"sqlite:///{state}/yaffle.db",
            words={**backup, "/var/lib/yaffle/": f"{state}/"},
        )
    # The users that the pages have made, each with its own rights.
    if kind == "postgresql":
        server: PostgreSQL = request.getfixturevalue("prepared")
        url, secret = url_of(server), {"PGPASSWORD": PASSWORD}
        words = {"@db.example.org": f"@127.0.0.1:{server.port}"}
    else:
        other: MariaDB = request.getfixturevalue("own_mariadb")
        url, secret = with_users(other), {"MYSQL_PWD": SECRET}
        here = f"--protocol=tcp --host=127.0.0.1 --port={other.port}"
        words = {"--host=db.example.org": here}
    yaffle("db", "migrate", "--database", url, folder=tmp_path)
    return Place(kind=kind, url=url, words={**words, **backup}, secret=secret)


@contextmanager
def load(server: Serving) -> Iterator[list[int]]:
    """Have somebody write all the time; the statuses are what comes of it."""
    statuses: list[int] = []
    over = threading.Event()
    spec = yaml.safe_load(POLICY)

    def write() -> None:
        with httpx.Client(base_url=server.url, timeout=60, trust_env=False) as client:
            while not over.is_set():
                body = {"policy": {"name": f"p{len(statuses)}", "spec": spec}}
                statuses.append(client.post("/v1/policies", json=body).status_code)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield statuses
    finally:
        over.set()
        thread.join(120)


def unwell(server: Serving) -> dict[str, str]:
    """Return what the doctor finds not to be well, and its words."""
    checks = json.loads(server.cli("doctor", "--json").out)["checks"]
    return {c["name"]: c["detail"] for c in checks if c["status"] != "ok"}


@pytest.mark.slow
@pytest.mark.timeout(500)
def test_a_backup_under_load_is_restored_and_nothing_is_healed_by_it(
    place: Place, tmp_path: Path
) -> None:
    env = {"YAFFLE_DATABASE__URL": place.url}
    with (
        Serving(tmp_path, "--allow-local-process", env=env) as server,
        cluster_of_two(server) as mark,
    ):
        with load(server) as statuses:
            until(lambda: len(statuses) > 10)
            place.follow("backup")
            [copy] = tmp_path.glob("backup-*")
            assert stat.S_IMODE(copy.stat().st_mode) == 0o600
            until(lambda: len(statuses) > 20)
        assert set(statuses) == {201}

        # What the copy does not know: one node more.
        server.ok("cluster", "scale-out", "web", "--count", "1")
        until(lambda: all_well(server, 3))
        known = living(mark)
        server.end()

        place.follow("restore")
        yaffle("db", "check", "--database", place.url, folder=tmp_path)
        yaffle("db", "restored", "--database", place.url, folder=tmp_path)
        server.start()

        # Well, but for the stop; the third node runs, and no row speaks of it.
        until(lambda: all_well(server))
        until(lambda: unwell(server).keys() == {"healing", "strays"})
        assert "restored from a copy" in unwell(server)["healing"]
        assert living(mark) == known

        # A node fails: it is seen, and held, because nobody has compared yet.
        name = min(healths(server))
        [victim] = [pid for pid in known if name in command_of(pid)]
        os.kill(victim, signal.SIGKILL)
        until(lambda: healths(server)[name] == "unhealthy")
        until(lambda: "stopped" in server.ok("why", name))
        assert living(mark) == known - {victim}

        # The person has compared.
        server.ok("stop", "--lift")
        until(lambda: all_well(server))
        until(lambda: unwell(server).keys() == {"strays"})
        [stray] = re.findall(r"pid (\d+)", unwell(server)["strays"])
        assert int(stray) in known
        os.kill(int(stray), signal.SIGTERM)
        until(lambda: unwell(server) == {})
        assert len(living(mark)) == 2


def command_of(pid: int) -> list[str]:
    """Return a process's command; its node's name is one of the words."""
    return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
