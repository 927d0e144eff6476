"""The doctor finds what is planted: each fault real, each with advice."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update
from tests.functional.api.live import PREFIX, Live, running

from yaffle.api.diagnostics import disk
from yaffle.engine.runtime.clock import SystemClock
from yaffle.store.credentials import CredentialRow, ident_of, put
from yaffle.store.installation_facts import TIDY_US
from yaffle.store.tables import credentials


@pytest.fixture
def ailing(tmp_path: Path) -> Any:
    with running(tmp_path / "state", notifiers={"log": {"type": "log"}}) as live:
        yield live


def checks(live: Live) -> dict[str, dict[str, str]]:
    return {c["name"]: c for c in live.call("GET", "/doctor")["checks"]}


def test_no_engine_is_a_failure_that_health_tells_too(ailing: Live) -> None:
    report = ailing.call("GET", "/doctor")
    assert report["status"] == "fail"
    found = checks(ailing)
    assert found["engine"]["status"] == found["prober"]["status"] == "fail"
    with ailing.client() as client:
        health = client.get("/health")
        assert health.status_code == 503
        assert health.headers["cache-control"] == "no-cache"
        body = health.json()
        assert body["status"] == "fail"
        assert body["checks"]["prober"]["status"] == "warn"
        assert "no session" in body["checks"]["engine"]["output"]
        ready = client.get("/readyz")
        assert (ready.status_code, ready.json()["status"]) == (503, "fail")
        live = client.get("/livez")
        assert (live.status_code, live.text) == (200, "ok\n"), "it answers, however ill"
        head = client.head("/health")
        assert (head.status_code, head.content) == (503, b"")


def test_what_nobody_watches_or_protects_is_named(ailing: Live) -> None:
    ailing.profile("p")
    ailing.cluster("lonely", "p", 1)
    ailing.call("POST", "/stop", {"reason": "works", "by": "mara"}, want=201)
    found = checks(ailing)
    assert found["watching"]["status"] == "warn"
    assert "lonely" in found["watching"]["detail"]
    assert "lonely" in found["policies"]["detail"]
    assert found["healing"]["detail"] == "stopped by mara: works"
    assert all(c["advice"] for c in found.values() if c["status"] != "ok")
    assert not any(c["advice"] for c in found.values() if c["status"] == "ok")


def test_a_state_directory_open_to_others(ailing: Live) -> None:
    path = ailing.service.settings.state_dir
    assert checks(ailing)["state directory"]["status"] == "ok"
    path.chmod(0o755)
    found = checks(ailing)["state directory"]
    assert found["status"] == "warn"
    assert "chmod 700" in found["advice"]
    path.chmod(0o777)
    found = checks(ailing)["state directory"]
    path.chmod(0o700)
    assert found["status"] == "fail"
    assert "others may write it" in found["advice"]


def test_the_database_away_is_a_finding_not_an_error(ailing: Live) -> None:
    database = ailing.service.settings.state_dir / "yaffle.db"
    database.rename(database.with_name("moved"))
    found = checks(ailing)["database"]
    assert found["status"] == "fail"
    assert "the file is gone" in found["detail"]
    with ailing.client() as client:
        assert client.post(f"{PREFIX}/stop", json={"reason": "x"}).status_code == 503
        assert client.get("/metrics").status_code == 200


def test_a_trust_that_should_have_been_deleted_is_named(ailing: Live) -> None:
    def trust(reference: str, at_us: int) -> CredentialRow:
        return CredentialRow(
            id=ident_of("prod", "shop", "ann", "trust"), cloud="prod", kind="trust", sealed="",
            reference=reference, key_id="", project="shop", user="ann", created_us=at_us,
            used_us=None, refused_us=None, refused_why="",
        )  # fmt: skip

    now_us = SystemClock().now_us()
    ailing.write(lambda conn: put(conn, trust("t-1", 1)))
    ailing.write(lambda conn: put(conn, trust("t-2", now_us)))
    # It has its time.
    assert checks(ailing)["trusts"]["status"] == "ok"
    ailing.write(lambda conn: conn.execute(update(credentials).values(created_us=now_us - TIDY_US)))
    found = checks(ailing)["trusts"]
    assert (found["status"], "newer ones are still valid: t-1" in found["detail"]) == ("warn", True)
    assert "openstack trust delete" in found["advice"]


FULL = """
import pathlib, resource, signal, sys
from yaffle.api.diagnostics import disk
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
print(disk.look(pathlib.Path(sys.argv[1])))
"""


def test_room_to_write_is_tried_not_counted(tmp_path: Path) -> None:
    assert disk.look(tmp_path).status == "ok"
    assert list(tmp_path.iterdir()) == []
    command = [sys.executable, "-c", FULL]
    said = subprocess.run([*command, str(tmp_path)], capture_output=True, text=True, check=True)
    assert "256 KiB cannot be written: File too large" in said.stdout
    assert "Status.FAIL" in said.stdout
    gone = disk.look(tmp_path / "none")
    assert (gone.status, "No such file" in gone.detail) == ("fail", True)


@pytest.mark.parametrize(
    ("free", "status"),
    [(4_999_999, "fail"), (5_000_000, "warn"), (49_999_999, "warn"), (50_000_000, "ok")],
)
def test_little_room_is_told_before_there_is_none(free: int, status: str, tmp_path: Path) -> None:
    found = disk.judge(tmp_path, free)
    assert (found.status, bool(found.advice)) == (status, status != "ok")


def test_why_there_is_no_session_is_said_with_it(ailing: Live) -> None:
    assert checks(ailing)["disk"]["status"] == "ok"
    database = ailing.service.settings.state_dir / "yaffle.db"
    database.rename(database.with_name("moved"))
    assert "the file is gone" in checks(ailing)["engine"]["detail"]
