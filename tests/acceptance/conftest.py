"""One server for the whole run, one client, one broom a module; exchanges are shown on failure."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator

import pytest
from tests.acceptance.rig import Api, Server, serving
from tests.acceptance.world import World

from yaffle.engine.runtime.clock import SystemClock
from yaffle.store.database import prepare_server


@pytest.fixture(scope="session")
def database_url(request: pytest.FixtureRequest) -> Callable[[], str]:
    """Make a new database: a file, or what `YAFFLE_ACCEPTANCE_DATABASE` names, on a real server."""
    kind = os.environ.get("YAFFLE_ACCEPTANCE_DATABASE", "sqlite")
    if kind == "sqlite":
        return lambda: ""
    made = request.getfixturevalue(kind)

    def new() -> str:
        url: str = made.create()
        prepare_server(url, clock=SystemClock())
        return url

    return new


@pytest.fixture(scope="session")
def server(
    tmp_path_factory: pytest.TempPathFactory, database_url: Callable[[], str]
) -> Iterator[Server]:
    """A `yaffle serve` as anybody starts it; budgets are out of the way, all else is the default."""
    with serving(tmp_path_factory.mktemp("acceptance"), database=database_url()) as server:
        yield server


@pytest.fixture(scope="session")
def api(server: Server) -> Iterator[Api]:
    """The raw client at the newest version."""
    api = Api(server.root)
    yield api
    api.close()


@pytest.fixture(scope="module")
def world(api: Api, server: Server) -> Iterator[World]:
    """Makes objects; they go when the module's tests are over."""
    world = World(api, server)
    yield world
    world.sweep()


@pytest.fixture(autouse=True)
def only_this_test(api: Api) -> None:
    """Forget the exchanges of the test before."""
    api.exchanges.clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what was said on the wire beside the failure."""
    report = yield
    api = getattr(item, "funcargs", {}).get("api")
    if report.failed and isinstance(api, Api):
        said = "\n\n".join(str(answer) for answer in api.exchanges[-8:])
        report.sections.append(("last exchanges", said))
    server = getattr(item, "funcargs", {}).get("server")
    if report.failed and isinstance(server, Server) and server.process.poll() is not None:
        gone = f"ended with {server.process.returncode}\n{server.log()[-2000:]}"
        report.sections.append(("the server", gone))
    return report
