"""The host agent's unit: systemd reads it, and an agent that ends is back at once."""

from __future__ import annotations

import re
from pathlib import Path

from tests.packaging.places import PACKAGING
from tests.packaging.test_units import analyze, needs_analyze, settings_of

from yaffle.integrations import host_agent

UNIT = PACKAGING / "host-agent/yaffle-host-agent.service"
EXPOSURE_MAX = 2.0


@needs_analyze
def test_systemd_finds_nothing_wrong_and_little_exposed() -> None:
    done = analyze("verify", "--man=no", str(UNIT))
    said = [line for line in done.stderr.splitlines() if "yaffle-host-agent" in line]
    assert [line for line in said if "is not executable" not in line] == []
    shown = analyze("security", "--offline=true", "--no-pager", str(UNIT)).stdout
    found = re.search(r"Overall exposure level for \S+: ([\d.]+)", shown)
    assert found, shown
    assert float(found[1]) <= EXPOSURE_MAX


def test_an_agent_that_ends_is_back_before_its_host_is_missed() -> None:
    has = settings_of(UNIT)
    assert has["Restart"] == ["always"]
    assert has["RestartSec"] == ["1s"]
    assert has["StartLimitIntervalSec"] == ["0"]
    assert has["OOMScoreAdjust"] == ["-1000"]
    assert "network-online.target" in has["After"][0], "it says goodbye while there is a network"


def test_it_is_started_as_it_wants_to_be() -> None:
    """What the unit and its variables say is what the agent understands."""
    (line,) = settings_of(UNIT)["ExecStart"]
    (options,) = re.findall(
        r"^OPTIONS=(.*)$", (PACKAGING / "host-agent/host-agent.env").read_text(), re.MULTILINE
    )
    program, *words = line.replace("$OPTIONS", options).split()
    assert Path(program).name == "yaffle-host-agent"
    given = host_agent.options().parse_args(words)
    assert given.key == "${CREDENTIALS_DIRECTORY}/key"
    assert len(given.engine) == 2
    assert Path(host_agent.__file__).read_text().startswith("#!/usr/bin/python3 -SE\n")
