"""The doctor finds what is planted: each fault real, each with advice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.functional.api.live import PREFIX, SLEEPER, Live, running


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
        head = client.head("/health")
        assert (head.status_code, head.content) == (503, b"")


def test_what_nobody_watches_or_protects_is_named(ailing: Live) -> None:
    body = {"name": "p", "type": "yaffle.local.process-1.0", "spec": SLEEPER}
    ailing.call("POST", "/profiles", body, want=201)
    ailing.call("POST", "/clusters", {"name": "lonely", "profile": "p", "size": 1}, want=202)
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


def test_the_database_away_is_a_finding_not_an_error(ailing: Live) -> None:
    database = ailing.service.settings.state_dir / "yaffle.db"
    database.rename(database.with_name("moved"))
    found = checks(ailing)["database"]
    assert found["status"] == "fail"
    assert "the file is gone" in found["detail"]
    with ailing.client() as client:
        assert client.post(f"{PREFIX}/stop", json={"reason": "x"}).status_code == 503
        assert client.get("/metrics").status_code == 200
