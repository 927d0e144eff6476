"""`yaffle db restored`: a copy heals nothing; said at the wrong moment it is refused."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

from tests.functional.cli.support import run_here
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
