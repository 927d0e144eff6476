"""Where nothing can be written nothing is given up: a sick node lives on until there is room."""

from __future__ import annotations

import os
import signal
import uuid
from pathlib import Path
from typing import Any

from tests.disks import fill, small_disk
from tests.functional.cli.support import POLICY, Server, living, profile_document, swept, wait_for

from yaffle_health.reader import read, target


def test_a_sick_node_lives_on_while_the_disk_is_full(tmp_path: Path) -> None:
    mark, place = uuid.uuid4().hex, f"unix://{tmp_path}/health"
    with swept(mark), small_disk(tmp_path / "small", "8m") as disk:
        (tmp_path / "db").mkdir()
        database = f"sqlite:///{tmp_path}/db/yaffle.db"
        server = Server(
            disk / "state",
            flags=("--allow-local-process", "--database", database),
            env={"YAFFLE_HEALTHCHECK__URI": place},
        )
        server.start()
        try:
            server.ok("policy", "create", "heal", "-", given=POLICY)
            server.ok("profile", "create", "page", "-", given=profile_document(mark))
            words = ("web", "--profile", "page", "--size", "2", "--policy", "heal")
            server.ok("cluster", "create", *words)
            first, other = sorted(living(mark))
            full = fill(disk)
            wait_for(lambda: health(place).get("disk") == "fail")
            os.kill(first, signal.SIGSTOP)
            (name,) = wait_for(lambda: sick(server))
            told = wait_for(lambda: held(server, name), within_s=60)
            assert "No space left on device" in told
            # It was killed within a few seconds.
            assert living(mark).keys() == {first, other}
            assert not server.ok("action", "list", "--json", "--action", "NODE_RECOVER").json[
                "actions"
            ]
            full.unlink()
            wait_for(lambda: len(living(mark)) == 2 and first not in living(mark), within_s=90)
            wait_for(lambda: health(place).get("disk") is None)
        finally:
            assert server.stop() == 0


def health(place: str) -> dict[str, str]:
    said = read(target(place), timeout_s=30).health
    return {} if said is None else {c.name: c.status.value for c in said.checks}


def sick(server: Server) -> list[str]:
    nodes: list[dict[str, Any]] = server.ok("node", "list", "--json").json["nodes"]
    return [n["name"] for n in nodes if n["health"] == "unhealthy"]


def held(server: Server, name: str) -> str:
    said = server.ok("why", name).out
    return said if "dependency-lost" in said else ""
