"""A rolling upgrade: engines of schema N and N+1 on one database, and no contraction under an old one."""

from __future__ import annotations

import json
import os
import signal
import uuid
from pathlib import Path

import pytest
from tests.functional.apart import later
from tests.functional.apart.fleet import Fleet, ask, fleet_on, get, ready, settled
from tests.functional.cli.support import (
    POLICY,
    Done,
    Running,
    living,
    profile_document,
    run,
    swept,
    wait_for,
)


def migrate(fleet: Fleet, path: Path) -> Done:
    """Run `yaffle db migrate` of the program at `path`."""
    return run("db", "migrate", "--database", fleet.url, env={"PYTHONPATH": str(path)})


def healed(api: Running, mark: str) -> None:
    """Kill one node's process and wait until another has taken its place."""
    before = living(mark)
    victim = min(before)
    os.kill(victim, signal.SIGKILL)
    wait_for(lambda: len(living(mark)) == 2 and victim not in living(mark))
    well(api)


def well(api: Running) -> None:
    settled(
        api,
        lambda found: [n["health"] for n in found["nodes"]] == ["healthy"] * 2,
        *("node", "list"),
    )


def schemas(api: Running) -> list[int]:
    """Return the schemas that the living engines know."""
    found = json.loads(get(api, "/yaffle/v1/engines").text)["engines"]
    return sorted(e["schema"] for e in found if e["state"] == "live")


@pytest.mark.timeout(600)
def test_the_old_and_the_new_heal_together(server_url: str, tmp_path: Path) -> None:
    mark = f"rolling-{uuid.uuid4().hex}"
    now = later.here()
    more = later.program(tmp_path / "more", later.SOURCE, head=now + 1, oldest=now)
    less = later.program(tmp_path / "less", more, head=now + 2, oldest=now + 1)
    # Nobody dies here: who ends says so, and his work is taken over at once.
    patient = {"YAFFLE_ENGINE__LEASE": "60"}
    with swept(mark), fleet_on(server_url, tmp_path / "state", **patient) as fleet:
        fleet.migrate()
        old, api = fleet.start("engine"), fleet.start("api")
        ready(old, api)
        ask(api, "profile", "create", "page", "-", given=profile_document(mark))
        ask(api, "policy", "create", "care", "-", given=POLICY)
        ask(api, "cluster", "create", "web", "--profile", "page", "--size", "2", "--policy", "care")
        well(api)

        done = migrate(fleet, more)
        assert done.code == 0, done.err
        healed(api, mark)  # by the old one, whose tables have grown under it
        new = fleet.start("engine", PYTHONPATH=str(more))
        ready(new)
        wait_for(lambda: schemas(api) == [now, now + 1])

        refused = migrate(fleet, less)
        assert refused.code == 2, refused.out
        assert f"schema {now:04}" in refused.err
        assert str(old.process.pid) in refused.err

        fleet.stop(old)
        healed(api, mark)  # by the new one alone
        late = fleet.start("engine")
        assert "newer, and compatible" in late.line("newer, and compatible")
        ready(late)
        fleet.stop(late)
        fleet.stop(api)
        done = migrate(fleet, less)
        assert done.code == 0, done.err
        last = fleet.start("engine")
        assert last.end() == 2
        assert "newer than this program" in last.text
        fleet.members.remove(last)
