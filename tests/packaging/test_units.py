"""The units as files: systemd itself reads them, and what they promise to local nodes is in them."""

from __future__ import annotations

import configparser
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.packaging.places import PACKAGING

from yaffle.config import load

UNITS = sorted((PACKAGING / "systemd").glob("*.service"))
BY_NAME = [pytest.param(p, id=p.name) for p in UNITS]
EXPOSURE_MAX = {"yaffle.service": 5.5, "yaffle-engine@.service": 2.0, "yaffle-api@.service": 2.0}
"""As `systemd-analyze security` counts; local nodes have to live with what yaffle.service sets."""
needs_analyze = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze"
)


def analyze(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["systemd-analyze", *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "LC_ALL": "C", "SYSTEMD_COLORS": "0"},
    )


def settings_of(unit: Path) -> dict[str, list[str]]:
    """Return every value of every key of [Service] and [Unit]; a key may come more than once."""
    found: dict[str, list[str]] = {}
    for line in unit.read_text().splitlines():
        if re.match(r"\w+=", line):
            key, _, value = line.partition("=")
            found.setdefault(key, []).append(value)
    return found


@needs_analyze
@pytest.mark.parametrize("unit", BY_NAME)
def test_systemd_finds_nothing_wrong(unit: Path) -> None:
    done = analyze("verify", "--man=no", str(unit))
    # The program is installed by whoever installs the unit.
    said = [
        line
        for line in done.stderr.splitlines()
        if "/opt/yaffle/bin/yaffle is not executable" not in line
        # What else is on this machine is not ours.
        and unit.name.partition(".")[0].rstrip("@") in line
    ]
    assert said == []


@needs_analyze
def test_a_misspelt_key_would_be_seen(tmp_path: Path) -> None:
    wrong = tmp_path / "yaffle.service"
    wrong.write_text(UNITS[-1].read_text().replace("WatchdogSec", "WatchDogSec"))
    assert "WatchDogSec" in analyze("verify", "--man=no", str(wrong)).stderr


@needs_analyze
@pytest.mark.parametrize("unit", BY_NAME)
def test_exposure(unit: Path) -> None:
    done = analyze("security", "--offline=true", "--no-pager", str(unit))
    found = re.search(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)
    assert found, done
    assert float(found[1]) <= EXPOSURE_MAX[unit.name]


@pytest.mark.parametrize("unit", BY_NAME)
def test_every_unit_is_notified_watched_and_started_again(unit: Path) -> None:
    has = settings_of(unit)
    assert has["Type"] == ["notify"]
    assert has["WatchdogSec"] == ["30s"]
    assert has["Restart"] == ["on-failure"]
    # A database that is away for an hour must not end in "start request repeated too quickly".
    assert has["StartLimitIntervalSec"] == ["0"]
    assert has["RestartPreventExitStatus"] == ["2"]
    assert "PYTHONFAULTHANDLER=1" in has["Environment"]
    assert has["User"] == ["yaffle"]


def test_what_would_harm_local_nodes_is_not_in_the_unit_they_live_in() -> None:
    has = settings_of(PACKAGING / "systemd/yaffle.service")
    assert has["KillMode"] == ["process"]
    assert has["OOMPolicy"] == ["continue"]
    harmful = {"PrivateTmp", "PrivateUsers", "PrivatePIDs", "MemoryDenyWriteExecute", "ProcSubset"}
    harmful |= {"SystemCallFilter", "OOMScoreAdjust", "MemoryMax", "RuntimeMaxSec", "SendSIGHUP"}
    assert harmful & has.keys() == set()


def uncommented(text: str) -> str:
    """Return the sample with every commented setting in force."""
    return re.sub(r"^#[ ]?(?=\w+ = |\[)", "", text, flags=re.MULTILINE)


@pytest.mark.parametrize("every", [False, True], ids=["as-it-is", "every-line"])
def test_the_sample_settings_are_settings(every: bool, tmp_path: Path) -> None:
    text = (PACKAGING / "config/yaffle.toml").read_text()
    file = tmp_path / "yaffle.toml"
    file.write_text(uncommented(text) if every else text)
    found = load(file, {"state_dir": tmp_path / "state"})
    assert found.server.allowed_hosts == ("yaffle.example.org",)
    assert (found.server.token_file is not None) is every


def test_what_the_sample_shows_as_default_is_the_default(tmp_path: Path) -> None:
    text = uncommented((PACKAGING / "config/yaffle.toml").read_text())
    file = tmp_path / "yaffle.toml"
    file.write_text(text)
    flags = {"state_dir": tmp_path / "state"}
    shown, default = load(file, flags), load(None, flags)
    assert shown.engine == default.engine
    assert shown.budgets == default.budgets
    assert shown.retention == default.retention
    assert shown.server.listen == default.server.listen
    assert shown.server.max_body == default.server.max_body
    assert shown.local_process == default.local_process


@pytest.mark.parametrize("sample", ["yaffle.env", "engine.env"])
def test_the_sample_variables_are_settings(
    sample: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = (PACKAGING / "config" / sample).read_text().splitlines()
    shown = [line.removeprefix("#") for line in lines if re.match(r"#?YAFFLE_\w+=", line)]
    assert shown
    for line in shown:
        name, _, value = line.partition("=")
        monkeypatch.setenv(name, value)
    load(None, {"state_dir": tmp_path})


def test_sections_are_where_they_belong() -> None:
    for unit in UNITS:
        parser = configparser.RawConfigParser(strict=False, interpolation=None)
        parser.read_string(unit.read_text())
        assert parser.sections() == ["Unit", "Service", "Install"]
        assert parser.has_option("Unit", "StartLimitIntervalSec")
