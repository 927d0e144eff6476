"""Which tests `make test` runs, and which come after it: each folder of tests belongs to one tier.

`first` needs git, make and Python alone: deciding, and the real engine in virtual time. `rest` talks to
real programs: databases, brokers, browsers, a cloud on this machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import pytest

TIERS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "first": (
            "tests/unit",
            "tests/scenarios",
            "tests/model",
            "tests/sim",
        ),
        "rest": (
            "packages/yaffle-health/tests",
            "tests/acceptance",
            "tests/chaos",
            "tests/contract",
            "tests/docs",
            "tests/functional",
            "tests/openstack",
            "tests/packaging",
            "tests/planted",
            "tests/sim_long",
        ),
    }
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--tier`; paths on the command line count more."""
    parser.addoption("--tier", choices=list(TIERS), help="run the tests of this tier alone")


def pytest_configure(config: pytest.Config) -> None:
    """Put the tier's folders in the place of all tests."""
    tier = config.getoption("--tier")
    if tier and config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        config.args = list(TIERS[tier])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say in one line what was not asked."""
    tier = terminalreporter.config.getoption("--tier")
    if tier == "first":
        left = ", ".join(
            sorted(path.rsplit("/", 1)[-1] for path in TIERS["rest"] if path.startswith("tests"))
        )
        terminalreporter.write_line(
            f"not run here: {left}, yaffle-health's own; `make test-all` runs everything"
        )
