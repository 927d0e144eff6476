"""Which installation a command of the machine speaks of: the one that is named, else the service's."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tests.packaging.places import PACKAGING
from typer.testing import CliRunner

from yaffle.cli import settings
from yaffle.cli.app import application
from yaffle.cli.settings import SERVICE, SERVICE_STATE_DIR, of_installation
from yaffle.errors import ConfigError


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The configuration of a service, and an environment that names none."""
    for name in [n for n in os.environ if n.startswith("YAFFLE_")]:
        monkeypatch.delenv(name)
    path = tmp_path / "service.toml"
    path.write_text(f'state_dir = "{tmp_path}/of-the-service"\n')
    path.chmod(0o640)
    return path


def test_the_services_is_meant_where_nothing_else_is_named_and_that_is_said(
    service: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert of_installation(None, service=service).state_dir == tmp_path / "of-the-service"
    assert f"with the settings of {service}" in capsys.readouterr().err


@pytest.mark.parametrize("unit", ["yaffle", "yaffle-engine@", "yaffle-api@"])
def test_it_is_what_the_units_have(unit: str) -> None:
    assert f"--config {SERVICE}\n" in (PACKAGING / f"systemd/{unit}.service").read_text()


def test_its_state_directory_is_the_units_where_its_settings_name_none(service: Path) -> None:
    service.write_text("")
    unit = (PACKAGING / "systemd/yaffle.service").read_text()
    assert f"Environment=YAFFLE_STATE_DIR={SERVICE_STATE_DIR}\n" in unit
    found = of_installation(None, service=service)
    assert found.state_dir == SERVICE_STATE_DIR
    assert found.database_url == f"sqlite:///{SERVICE_STATE_DIR}/yaffle.db"


def test_the_doctor_speaks_of_the_service_and_of_no_other_server(
    service: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "SERVICE", service)
    done = CliRunner().invoke(application(), ["doctor", "--json"])
    rows = {row["name"]: row for row in json.loads(done.stdout)["checks"]}
    assert rows["here: config"] == {
        "name": "here: config", "status": "ok", "detail": str(service), "advice": "",
    }  # fmt: skip
    assert str(tmp_path / "of-the-service") in rows["here: state directory"]["detail"]
    assert (done.exit_code, rows["server"]["status"]) == (5, "away")
    assert str(tmp_path / "of-the-service") in rows["server"]["detail"]
    assert "systemctl start yaffle" in rows["server"]["advice"]

    # What cannot be read is neither passed over nor mixed with another one's.
    service.write_text("state_dir = ")
    done = CliRunner().invoke(application(), ["doctor", "--json"])
    (row,) = json.loads(done.stdout)["checks"]
    assert (done.exit_code, row["name"], row["status"]) == (1, "here: config", "fail")
    assert "run it as the user of the service" in row["detail"]

    # Whoever may not read it, and says which server is meant, learns how that one is.
    monkeypatch.setattr(settings, "SERVICE", tmp_path / ("x" * 300))
    done = CliRunner().invoke(application(), ["doctor", "--json", "--server", "http://127.0.0.1:9"])
    rows = {row["name"]: row for row in json.loads(done.stdout)["checks"]}
    statuses = (rows["here: config"]["status"], rows["server"]["status"])
    assert (done.exit_code, statuses) == (5, ("warn", "away"))


def test_whatever_is_named_is_meant(
    service: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = tmp_path / "other.toml"
    other.write_text(f'state_dir = "{tmp_path}/other"\n')
    other.chmod(0o600)
    mine = tmp_path / "mine"
    assert of_installation(other, service=service).state_dir == tmp_path / "other"
    assert of_installation(None, state_dir=mine, service=service).state_dir == mine
    url = f"sqlite:///{tmp_path}/copy.db"
    assert of_installation(None, database=url, service=service).database_url == url
    monkeypatch.setenv("YAFFLE_STATE_DIR", str(mine))
    assert of_installation(None, service=service).state_dir == mine
    monkeypatch.delenv("YAFFLE_STATE_DIR")
    there_is_none = of_installation(None, service=tmp_path / "none.toml")
    assert there_is_none.state_dir != tmp_path / "of-the-service"
    assert capsys.readouterr().err == ""


def test_what_its_units_read_beside_it_wins_over_it(
    service: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path}/by-variable.db"
    beside = service.with_suffix(".env")
    beside.write_text(
        f"# a comment\n#YAFFLE_LOG__LEVEL=debug\n\nYAFFLE_DATABASE__URL='{url}'\nX=1\n"
    )
    monkeypatch.setattr(os, "environ", dict(os.environ))
    assert of_installation(None, service=service).database_url == url
    assert "X" not in os.environ
    monkeypatch.setattr(os, "environ", {"YAFFLE_LOG__LEVEL": "warning"})
    beside.write_text("YAFFLE_LOG__LEVEL=debug")
    assert of_installation(None, service=service).log.level == "warning"
    beside.write_bytes(b"YAFFLE_LOG__LEVEL=\xff")
    with pytest.raises(ConfigError, match="run it as the user of the service"):
        of_installation(None, service=service)


def test_one_that_cannot_be_read_is_not_passed_over(service: Path, tmp_path: Path) -> None:
    service.write_text("state_dir = ")
    with pytest.raises(ConfigError, match="run it as the user of the service"):
        of_installation(None, service=service)
    # Nor one of which it cannot be seen whether it is there.
    with pytest.raises(ConfigError, match="run it as the user of the service"):
        of_installation(None, service=tmp_path / ("x" * 300))
