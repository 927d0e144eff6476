"""Heat is set up by an operator, as every cloud; its limits are checked."""

from __future__ import annotations

from pathlib import Path

import pytest

from yaffle.config import Settings
from yaffle.engine.runtime.clock import SystemClock
from yaffle.errors import ConfigError
from yaffle.prober.client import ProberClient
from yaffle.wiring import address_rules, load_drivers

HEAT = "os.heat.stack-1.0"


def offered(tmp_path: Path, **drivers: dict[str, object]) -> set[str]:
    settings = Settings(state_dir=tmp_path, drivers=drivers)
    clock = SystemClock()
    never_run = ProberClient(clock=clock, on_blind=lambda _: None, rules=address_rules(settings))
    return set(load_drivers(settings, clock, never_run).profiles)


def test_heat_is_offered_once_its_cloud_is_named(tmp_path: Path) -> None:
    assert HEAT not in offered(tmp_path)
    assert HEAT in offered(tmp_path, **{HEAT: {"cloud": "mine", "member_sweep": 5}})


@pytest.mark.parametrize(
    ("section", "fault"),
    [
        pytest.param({}, f'drivers."{HEAT}".cloud must be', id="no cloud"),
        pytest.param({"cloud": "c", "all_projects": True}, "all_projects: there", id="unknown key"),
        pytest.param({"cloud": "c", "member_sweep": 0}, "between 1 and 3600", id="too often"),
    ],
)
def test_what_is_wrong_with_a_section(
    tmp_path: Path, section: dict[str, object], fault: str
) -> None:
    with pytest.raises(ConfigError, match=fault):
        offered(tmp_path, **{HEAT: section})
