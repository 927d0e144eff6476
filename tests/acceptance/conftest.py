"""One server for the whole run, one client, one broom a module; exchanges are shown on failure."""

from __future__ import annotations

from collections.abc import Generator, Iterator

import pytest
from tests.acceptance.rig import Api, Server, serving
from tests.acceptance.world import World


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A `yaffle serve` as anybody starts it; budgets are out of the way, all else is the default."""
    with serving(tmp_path_factory.mktemp("acceptance")) as server:
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
