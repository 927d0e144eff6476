"""One fleet for each kind of database, shared by all scenarios."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from tests.chaos.fleet.lab import REFERENCE, Fleet, fleet
from tests.chaos.fleet.space import missing
from tests.chaos.lab import MINUTES, policy
from tests.chaos.receiver import receiving
from tests.servers.fixtures import KINDS, Server
from tests.servers.mariadb import MariaDB
from tests.servers.mariadb import program as mariadb_program
from tests.servers.postgresql import PostgreSQL
from tests.servers.postgresql import programs as postgresql_programs

LEASE_S = float(os.environ.get("YAFFLE_CHAOS_LEASE") or 3.0)
"""A machine that is busy with other things needs a longer one."""
# Asked by URL alone, and with somebody to ask when no node answers: an engine that is cut off must
# find that out, and a storm that hangs every node must not look like it.
DOCUMENT = (
    policy(
        # A second grace would be seen: nothing could be healed for a minute after a takeover.
        grace=60,
        actions="[{name: RECREATE, timeout: 20}]",
        max_unhealthy="100%",
        in_flight=10,
        attempts=1000,
        max_backoff=1,
        stable_after=1,
    )
    .replace("poll_url_retry_limit: 1", "poll_url_retry_limit: 1, poll_url_retry_interval: 0.2")
    .replace("      - {type: NODE_STATUS_POLLING}\n", "")
    .replace("  detection:\n", f'  detection:\n    reference_targets: ["{REFERENCE}"]\n')
)


def own_server(kind: str) -> Server:
    """Return a server that is not started yet; skips where there is none."""
    if kind == "postgresql":
        if postgresql_programs() is None:
            pytest.skip("no PostgreSQL server is installed (package postgresql)")
        return PostgreSQL()
    if mariadb_program() is None:
        pytest.skip("no MariaDB server is installed (package mariadb-server)")
    return MariaDB()


def only(fleet: Fleet, kind: str) -> None:
    """Skip on the other database where time is short: no line of ours differs there for this."""
    if not MINUTES and fleet.server.kind != kind:
        pytest.skip(f"on {fleet.server.kind} run by `make chaos MINUTES=1`")


@pytest.fixture(scope="module", params=KINDS)
def shared(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Fleet]:
    """Three engines, four clusters, one database server that may be broken."""
    server = own_server(request.param)
    try:
        server.start()
        with (
            receiving("0.0.0.0") as receiver,
            fleet(
                tmp_path_factory.mktemp("fleet"),
                server,
                receiver,
                engines=3,
                lease=LEASE_S,
                clusters={"k": 2, "l": 2, "m": 2},
                document=DOCUMENT,
                spaces=not missing(),
            ) as made,
        ):
            yield made
    finally:
        server.remove()
