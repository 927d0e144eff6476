"""One lab for the whole test run, shared by its processes; it ends with the run, even if that is killed.

Tests ask for `cloud`, a project of their own; those that stop services, kill hosts or let operations
fail for everybody ask for `broken_cloud`, with which they are alone, and which is repaired afterwards.

`LAB_UP=DIR` names a lab that is up already, and stays so: for whoever writes such tests.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from lab.openstack import Lab, LabError, keeper
from tests.openstack.cloud import Cloud
from tests.openstack.turns import turn

HERE = Path(__file__).parent
STACKS = pytest.StashKey[bool]()
NETWORKS = "YAFFLE_NETWORKS"
"""Where it is set the lab has a real Neutron and a real Cinder: `make test-networks`."""
UP = "LAB_UP"
"""Not `YAFFLE_…`: that would be a setting, and none that there is."""
TEST_S = 900
"""A test may have to wait until the lab is up, and until nobody else uses it: on a busy machine, long."""
SHOWN = 150
"""Lines of the cloud's logs that the report of a failed test ends with."""


def _owner(config: pytest.Config) -> int:
    """Return the process that lives as long as the test run."""
    return os.getppid() if hasattr(config, "workerinput") else os.getpid()


def _wants_lab(item: pytest.Item) -> bool:
    return HERE in item.path.parents and "lab" in getattr(item, "fixturenames", ())


def _wants_stacks(item: pytest.Item) -> bool:
    return _wants_lab(item) and "heat" in getattr(item, "fixturenames", ())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give these tests the time that they need."""
    for item in items:
        if _wants_lab(item) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TEST_S))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Begin at once: the lab comes up while other tests run, with Heat if any of them asks for it."""
    session.config.stash[STACKS] = any(map(_wants_stacks, session.items))
    wanted = any(map(_wants_lab, session.items)) and UP not in os.environ
    if wanted and not session.config.option.collectonly:
        _begin(session.config)


def _begin(config: pytest.Config) -> Path:
    extras = ("neutron", "cinder") if os.environ.get(NETWORKS) else ()
    return keeper.begin(_owner(config), heat=config.stash.get(STACKS, False), extras=extras)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add what the cloud's services logged of the test's project, for the lab ends with the run."""
    report = yield
    cloud = next((c for c in getattr(item, "funcargs", {}).values() if isinstance(c, Cloud)), None)
    if report.when == "call" and report.failed and cloud is not None:
        report.sections.append(("the cloud's logs of this project", "\n".join(_logged(cloud))))
    return report


def _logged(cloud: Cloud) -> list[str]:
    """Return the newest lines that name the project, in order, each with its log's name."""
    project = cloud.credentials.project_id
    found = [
        (line[:23], f"{log.stem}: {line.rstrip()}")
        for log in sorted(cloud.lab.plan.log.glob("*.log"))
        for line in log.read_text(errors="replace").splitlines()
        if project in line
    ]
    return [line for _, line in sorted(found)[-SHOWN:]]


@pytest.fixture(scope="session")
def lab(pytestconfig: pytest.Config) -> Iterator[Lab]:
    """The lab of this test run. Not to be broken: see `broken_cloud`."""
    try:
        up = os.environ.get(UP)
        found = Lab.at(Path(up)) if up else keeper.ready(_begin(pytestconfig))
    except LabError as error:
        # No skip: what is said of OpenStack must not go untested unseen.
        pytest.fail(f"{error}\nTo go without: make test-all ARGS='--ignore tests/openstack'", False)
    yield found
    found.close()


@pytest.fixture(scope="session")
def heat(lab: Lab) -> str:
    """Where Heat answers. Tests name this fixture: the lab has Heat if one of them is selected."""
    return lab.plan.url("orchestration")


@pytest.fixture
def cloud(lab: Lab) -> Iterator[Cloud]:
    """A project of the test's own and its user, in a cloud that others use at the same time."""
    with turn(lab.plan.state, alone=False):
        yield from _project(lab)


@pytest.fixture
def broken_cloud(lab: Lab) -> Iterator[Cloud]:
    """As `cloud`, with nobody else there: the test may break all of `cloud.lab`."""
    with turn(lab.plan.state, alone=True):
        yield from _project(lab, repair=True)


def _project(lab: Lab, *, repair: bool = False) -> Iterator[Cloud]:
    cloud = Cloud(lab=lab, credentials=lab.project())
    try:
        yield cloud
    finally:
        if repair:
            lab.repair()
        cloud.remove()
