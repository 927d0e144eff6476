"""`yaffle db restored`: a copy heals nothing; said at the wrong moment it is refused."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import uuid
from pathlib import Path

from tests.functional.cli.support import (
    Server,
    living,
    profile_document,
    run_here,
    swept,
    wait_for,
)
from tests.packaging.serving import Serving, until, yaffle


def epochs(file: Path) -> int:
    with sqlite3.connect(file) as conn:
        row = conn.execute("SELECT value FROM counters WHERE name = 'next_epoch'").fetchone()
    conn.close()
    return int(row[0])


def test_a_copy_stops_all_healing_and_its_sessions_are_over(tmp_path: Path) -> None:
    with Serving(tmp_path) as server:
        server.until_acting()
        # Not while somebody works on it: that would be no copy.
        busy = server.cli("db", "restored")
        assert (busy.code, "holds" in busy.err) == (4, True), busy
        server.end()
        file = server.state_dir / "yaffle.db"
        before = epochs(file)
        assert "healing is stopped" in yaffle("db", "restored", folder=tmp_path)
        # Whoever still acts under an epoch of the lost time is refused: nobody had one as high.
        assert epochs(file) >= before + 1_000_000
        # Twice is not two stops.
        yaffle("db", "restored", folder=tmp_path)

        server.start()
        server.until_acting()
        checks = json.loads(server.cli("doctor", "--json").out)["checks"]
        [healing] = [c for c in checks if c["name"] == "healing"]
        assert healing["status"] == "warn"
        assert "restored from a copy" in healing["detail"]
        stops = 'yaffle_stops{by="yaffle"} 1.0'
        assert stops in server.metrics()
        server.ok("stop", "--lift")
        until(lambda: stops not in server.metrics())


def test_a_process_made_after_the_copy_is_named_and_ended_as_advised(tmp_path: Path) -> None:
    mark = uuid.uuid4().hex
    with swept(mark):
        server = Server(tmp_path / "state")
        server.start()
        server.ok("profile", "create", "page", "-", given=profile_document(mark))
        with sqlite3.connect(server.state_dir / "yaffle.db") as conn:
            conn.execute(f"VACUUM INTO '{tmp_path}/copy.db'")
        conn.close()
        server.ok("node", "create", "late", "--profile", "page")
        (pid,) = living(mark)
        assert strays(server)["status"] == "ok"
        server.stop()
        for ending in ("-wal", "-shm"):
            (server.state_dir / f"yaffle.db{ending}").unlink(missing_ok=True)
        (tmp_path / "copy.db").replace(server.state_dir / "yaffle.db")
        (server.state_dir / "yaffle.db").chmod(0o600)
        server.ok("db", "restored")
        server.start()
        found = strays(server)
        assert (found["status"], f"pid {pid} " in found["detail"]) == ("warn", True), found
        assert "`kill PID`" in found["advice"]
        subprocess.run(["kill", str(pid)], check=True)
        wait_for(lambda: strays(server)["status"] == "ok")
        assert server.stop() == 0


def strays(server: Server) -> dict[str, str]:
    checks: list[dict[str, str]] = server.cli("doctor", "--json").json["checks"]
    (found,) = [check for check in checks if check["name"] == "strays"]
    return found


def test_a_copy_of_an_older_schema_is_left_as_it_is(tmp_path: Path) -> None:
    """Whoever goes back to the version before needs it so; `db migrate` keeps a copy first."""
    state = tmp_path / "state"
    env = {"YAFFLE_STATE_DIR": str(state)}
    assert run_here("db", "migrate", env=env).code == 0
    with sqlite3.connect(state / "yaffle.db") as conn:
        conn.execute("UPDATE alembic_version SET version_num = '0006'")
    conn.close()
    done = run_here("db", "restored", env=env)
    assert (done.code, "run `yaffle db migrate`" in done.err) == (2, True), done
    with sqlite3.connect(state / "yaffle.db") as conn:
        assert conn.execute("SELECT version_num FROM alembic_version").fetchall() == [("0006",)]
    conn.close()
    assert not (state / "backups").exists()


def test_without_a_copy_nothing_is_made(tmp_path: Path) -> None:
    state = tmp_path / "state"
    done = run_here("db", "restored", env={"YAFFLE_STATE_DIR": str(state)})
    assert (done.code, "no copy" in done.err) == (2, True), done
    assert not state.exists()
