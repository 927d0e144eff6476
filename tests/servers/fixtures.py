"""Fixtures: one private server of each kind for all tests of a process, a new database for each test.

`postgresql`, `mariadb` and `rabbitmq` are the shared servers: do not stop them. A test that stops,
kills or freezes a server asks for `own_postgresql`, `own_mariadb` or `own_rabbitmq`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.servers import mariadb as maria
from tests.servers import postgresql as postgres
from tests.servers import rabbitmq as rabbit
from tests.servers.mariadb import MariaDB
from tests.servers.postgresql import PostgreSQL
from tests.servers.rabbitmq import RabbitMQ

from yaffle.engine.runtime.clock import SystemClock
from yaffle.store.database import prepare_server

Server = PostgreSQL | MariaDB
KINDS = ("postgresql", "mariadb")


def _started(kind: str) -> Iterator[Server]:
    if kind == "postgresql" and postgres.programs() is None:
        pytest.skip("no PostgreSQL server is installed (package postgresql)")
    if kind == "mariadb" and maria.program() is None:
        pytest.skip("no MariaDB server is installed (package mariadb-server)")
    server: Server = PostgreSQL() if kind == "postgresql" else MariaDB()
    try:
        server.start()
        yield server
    finally:
        server.remove()


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgreSQL]:
    """The PostgreSQL of this test process."""
    yield from _started("postgresql")


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaDB]:
    """The MariaDB of this test process."""
    yield from _started("mariadb")


@pytest.fixture
def own_postgresql() -> Iterator[PostgreSQL]:
    """A PostgreSQL that the test may break."""
    yield from _started("postgresql")


@pytest.fixture
def own_mariadb() -> Iterator[MariaDB]:
    """A MariaDB that the test may break."""
    yield from _started("mariadb")


def _rabbit() -> Iterator[RabbitMQ]:
    if rabbit.program() is None:
        pytest.skip("no RabbitMQ is installed (package rabbitmq-server)")
    server = RabbitMQ()
    try:
        server.start()
        yield server
    finally:
        server.remove()


@pytest.fixture(scope="session")
def rabbitmq() -> Iterator[RabbitMQ]:
    """The RabbitMQ of this test process; each test has exchanges of its own in it."""
    yield from _rabbit()


@pytest.fixture(scope="module")
def own_rabbitmq() -> Iterator[RabbitMQ]:
    """A RabbitMQ that the tests of one module may break, and leave running."""
    yield from _rabbit()


@pytest.fixture
def postgres_url(postgresql: PostgreSQL) -> Iterator[str]:
    """A new, empty database; `yaffle.store.database.prepare_server(url, clock=…)` fills it."""
    url = postgresql.create()
    yield url
    postgresql.drop(url)


@pytest.fixture
def mariadb_url(mariadb: MariaDB) -> Iterator[str]:
    """A new, empty database; `yaffle.store.database.prepare_server(url, clock=…)` fills it."""
    url = mariadb.create()
    yield url
    mariadb.drop(url)


@pytest.fixture(scope="session")
def _postgres_template(postgresql: PostgreSQL) -> str:
    url = postgresql.create()
    prepare_server(url, clock=SystemClock())
    return url


@pytest.fixture
def postgres_ready(postgresql: PostgreSQL, _postgres_template: str) -> Iterator[str]:
    """A new database that has our tables, copied rather than migrated."""
    url = postgresql.create(like=_postgres_template)
    yield url
    postgresql.drop(url)


@pytest.fixture(scope="session")
def _mariadb_tables(mariadb: MariaDB) -> str:
    url = mariadb.create()
    prepare_server(url, clock=SystemClock())
    return url


@pytest.fixture
def mariadb_ready(mariadb: MariaDB, _mariadb_tables: str) -> Iterator[str]:
    """A database that has our tables, as the migrations leave them; emptied for the next test."""
    yield _mariadb_tables
    mariadb.empty(_mariadb_tables)


@pytest.fixture(params=KINDS)
def ready_url(request: pytest.FixtureRequest) -> str:
    """Run the test once on each server, in a database that has our tables."""
    name = "postgres_ready" if request.param == "postgresql" else "mariadb_ready"
    return str(request.getfixturevalue(name))


@pytest.fixture(params=KINDS)
def server_url(request: pytest.FixtureRequest) -> str:
    """Run the test once on each server."""
    name = "postgres_url" if request.param == "postgresql" else "mariadb_url"
    return str(request.getfixturevalue(name))


@pytest.fixture(params=KINDS)
def own_server(request: pytest.FixtureRequest) -> Server:
    """Run the test once on each server, which it may break."""
    found = request.getfixturevalue(f"own_{request.param}")
    assert isinstance(found, PostgreSQL | MariaDB)
    return found
