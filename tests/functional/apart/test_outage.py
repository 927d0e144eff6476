"""The database away: at a start, and while they run. Nobody ends, everybody says so, all go on after."""

from __future__ import annotations

import socket
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.functional.apart.fleet import Fleet, address_of, ask, fleet_on, get, health, ready
from tests.functional.cli.support import (
    POLICY,
    Running,
    profile_document,
    run_here,
    swept,
    wait_for,
)
from tests.servers.postgresql import PostgreSQL


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[socket.socket]:
    """Stands for systemd: hears what one process says of itself."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(tmp_path / "notify"))
        sock.settimeout(120)
        yield sock


def heard(supervisor: socket.socket, part: str) -> str:
    """Wait for a word with `part` in it."""
    while part not in (text := supervisor.recv(4096).decode()):
        pass
    return text


def test_away_at_the_start_and_again_later(
    own_postgresql: PostgreSQL, supervisor: socket.socket, tmp_path: Path
) -> None:
    mark = f"outage-{uuid.uuid4().hex}"
    url = own_postgresql.create()
    with swept(mark), fleet_on(url, tmp_path / "state") as fleet:
        fleet.migrate()
        own_postgresql.stop()
        engine = fleet.start("engine", NOTIFY_SOCKET=str(tmp_path / "notify"))
        api = fleet.start("api")
        _said_and_answered(engine, api, supervisor)
        own_postgresql.start()
        assert "READY" not in heard(supervisor, "acting under epoch"), "said once"
        ready(api, engine)
        ask(api, "profile", "create", "page", "-", given=profile_document(mark))
        ask(api, "policy", "create", "care", "-", given=POLICY)
        ask(api, "cluster", "create", "web", "--profile", "page", "--size", "1")
        _survived(own_postgresql, fleet, engine, api, supervisor)


def _said_and_answered(engine: Running, api: Running, supervisor: socket.socket) -> None:
    first = heard(supervisor, "READY=1")
    assert "waiting for the database" in first
    status, checks = health(engine)
    assert (status, checks["database"]["status"]) == (503, "fail")
    assert health(api)[0] == 503
    for path in ("/v1/clusters", "/yaffle/v1/nodes"):
        answer = get(api, path)
        assert answer.status_code == 503
        assert int(answer.headers["retry-after"]) > 0
        assert "the database is away" in answer.json()["error"]["message"]
    assert get(engine, "/metrics").status_code == 503
    assert engine.process.poll() is None
    assert api.process.poll() is None


def _survived(
    server: PostgreSQL, fleet: Fleet, engine: Running, api: Running, supervisor: socket.socket
) -> None:
    """Away for longer than a lease, while everything runs."""
    server.kill()
    heard(supervisor, "not acting: ")
    wait_for(lambda: health(engine)[0] == 503 and health(api)[0] == 503)
    wait_for(lambda: get(api, "/v1/clusters").status_code == 503)
    assert get(api, "/v1/clusters").headers["retry-after"]
    server.start()
    ready(api, engine)
    heard(supervisor, "acting under epoch")
    ask(api, "cluster", "scale-out", "web")
    # Not with every try; one that comes back slowly may be away twice.
    assert 1 <= sum("database away" in line for line in engine.lines) <= 3
    ask(api, "cluster", "delete", "web")
    for member in list(fleet.members):
        fleet.stop(member)


def test_it_can_be_asked_how_it_is_and_ended_while_it_waits(tmp_path: Path) -> None:
    with fleet_on("mariadb://nobody@127.0.0.1:1/none", tmp_path / "state") as fleet:
        members = {role: fleet.start(role) for role in ("engine", "serve", "api")}
        for member in members.values():
            member.line("waiting for the database")
        done = run_here("doctor", "--json", "--server", address_of(members["api"]))
        server = {c["name"]: c for c in done.json["checks"]}["server"]
        assert (server["status"], "the database is away" in server["detail"]) == ("fail", True)
        for member in members.values():
            fleet.stop(member)


def test_a_database_without_tables_is_a_fault_to_mend(postgres_url: str, tmp_path: Path) -> None:
    with fleet_on(postgres_url, tmp_path / "state") as fleet:
        member = fleet.start("engine")
        assert member.end() == 2
        assert "yaffle db migrate" in member.text
        fleet.members.remove(member)
