"""Clouds are set up by an operator: without a section nothing is offered, and nothing is loaded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from yaffle.config import Settings
from yaffle.engine.runtime.clock import SystemClock
from yaffle.errors import ConfigError
from yaffle.prober.client import ProberClient
from yaffle.wiring import address_rules, load_drivers

NOVA = "os.nova.server-1.0"


def offered(tmp_path: Path, **drivers: dict[str, object]) -> set[str]:
    settings = Settings(state_dir=tmp_path, drivers=drivers)
    clock = SystemClock()
    never_run = ProberClient(clock=clock, on_blind=lambda _: None, rules=address_rules(settings))
    return set(load_drivers(settings, clock, never_run).profiles)


def test_a_cloud_is_offered_once_it_is_named(tmp_path: Path) -> None:
    assert NOVA not in offered(tmp_path)
    assert NOVA in offered(tmp_path, **{NOVA: {"cloud": "mine"}})


@pytest.mark.parametrize(
    ("section", "fault"),
    [
        pytest.param({}, f'drivers."{NOVA}".cloud must be', id="no cloud"),
        pytest.param({"cloud": "c", "clouds": "x"}, "did you mean cloud", id="unknown key"),
        pytest.param({"cloud": "c", "full_sweep": 0}, "between 1 and 3600", id="too often"),
        pytest.param({"cloud": "c", "all_projects": "yes"}, "true or false", id="no flag"),
    ],
)
def test_what_is_wrong_with_a_section(
    tmp_path: Path, section: dict[str, object], fault: str
) -> None:
    with pytest.raises(ConfigError, match=fault):
        offered(tmp_path, **{NOVA: section})


def test_openstacks_libraries_are_loaded_by_who_calls_a_cloud_only() -> None:
    code = (
        "import sys, yaffle.wiring, yaffle.drivers.profiles.nova_server\n"
        "print([m for m in ('openstack', 'keystoneauth1', 'requests') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"
