"""Engines and APIs as processes of their own on one database: started, found, asked, ended."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from tests.functional.cli.support import Done, Running, run_here, wait_for

LEASE_S = 4.0
BOUND_S = 120.0
"""For broken code only: a busy machine takes its time with four starts at once."""


@dataclass
class Fleet:
    """Processes that share a database and, being on one machine, a state directory."""

    url: str
    state_dir: Path
    env: Mapping[str, str] = field(default_factory=dict)
    members: list[Running] = field(default_factory=list)

    def migrate(self) -> None:
        """Make the tables."""
        done = run_here("db", "migrate", "--database", self.url)
        assert done.code == 0, done.err

    def start(self, role: str, **env: str) -> Running:
        """Start an `engine` or an `api`; does not wait for it."""
        member = Running(
            role,
            *("--listen", "127.0.0.1:0", "--database", self.url),
            "--allow-local-process",
            env={
                "YAFFLE_STATE_DIR": str(self.state_dir),
                "YAFFLE_ENGINE__LEASE": str(LEASE_S),
                # Far too slow to be what notices anything in these tests.
                "YAFFLE_ENGINE__POLL": "8",
                **self.env,
                **env,
            },
        )
        self.members.append(member)
        return member

    def stop(self, member: Running) -> None:
        """End it in order."""
        member.signal(signal.SIGTERM)
        assert member.end() == 0, member.text
        self.members.remove(member)

    def end(self) -> None:
        """End all of them, whatever state a failed test left them in."""
        for member in self.members:
            member.signal(signal.SIGCONT)
            member.signal(signal.SIGKILL)
        for member in self.members:
            member.end()


@contextmanager
def fleet_on(url: str, state_dir: Path, **env: str) -> Iterator[Fleet]:
    """Yield a fleet without members, and leave none behind."""
    fleet = Fleet(url=url, state_dir=state_dir, env=env)
    try:
        yield fleet
    finally:
        fleet.end()


def address_of(member: Running) -> str:
    """Return the URL where it listens; waits for it."""
    return "http://" + str(json.loads(member.line('"listening"', within_s=BOUND_S))["address"])


def ask(member: Running, *words: str, given: str = "") -> Done:
    """Run a client command against that very API; it has to succeed."""
    done = run_here(*words, "--server", address_of(member), given=given)
    assert done.code == 0, f"{words}: {done.code}\n{done.out}\n{done.err}"
    return done


def get(member: Running, path: str) -> httpx.Response:
    """Ask it once."""
    return httpx.get(address_of(member) + path, timeout=60, verify=False)


def act(member: Running, node: str, body: dict[str, Any]) -> str:
    """Ask for an action of a node; return its id."""
    url = f"{address_of(member)}/v1/nodes/{node}/actions"
    answer = httpx.post(url, json=body, timeout=60, verify=False)
    assert answer.status_code == 202, answer.text
    return answer.headers["location"].rpartition("/")[2]


def of_action(member: Running, ident: str) -> dict[str, Any]:
    """Return an action with its times."""
    rows = get(member, "/yaffle/v1/actions?limit=20").json()["actions"]
    return next(row for row in rows if row["id"] == ident)


def health(member: Running) -> tuple[int, dict[str, Any]]:
    """Return status and checks of its `/health`."""
    answer = get(member, "/health")
    assert answer.headers["content-type"] == "application/health+json"
    return answer.status_code, answer.json()["checks"]


def ready(*members: Running, within_s: float = BOUND_S) -> None:
    """Wait until each says that it is well."""
    for member in members:

        def well(member: Running = member) -> bool:
            assert member.process.poll() is None, member.text
            return health(member)[0] == 200

        wait_for(well, within_s=within_s)


def settled(member: Running, holds: Callable[[Any], object], *words: str) -> Any:
    """Ask for JSON again and again until it is as wanted."""
    return wait_for(lambda: _if(holds, ask(member, *words, "--json").json), within_s=BOUND_S)


def _if(holds: Callable[[Any], object], found: Any) -> Any:
    return found if holds(found) else None
