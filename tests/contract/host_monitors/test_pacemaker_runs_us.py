"""A real cluster runs our engine by the OCF agent, and moves it from a member that dies."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from lab.openstack.errors import LabError
from lab.pacemaker.cluster import ROOT, PacemakerLab
from tests.servers.pacemaker import pacemaker
from tests.waiting import wait_for

pytestmark = pytest.mark.timeout(300)
SAMPLE = ROOT / "packaging" / "pacemaker" / "engine.xml"
YAFFLE = Path(sys.executable).with_name("yaffle")
SETTINGS = """
[hosts]
on_shared_storage = true
poll = 1

[host_monitors.cluster]
type = "pacemaker"
programs = "/usr/sbin"

[alerts.recovery]
type = "exec"
program = "{program}"
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PacemakerLab]:
    with pacemaker(tmp_path_factory.mktemp("lab"), hosts=2, members=3) as running:
        yield running


def sample(folder: Path) -> str:
    """Return the shipped sample with our paths: one engine, for its database is a file that all share."""
    root = ET.parse(SAMPLE).getroot()
    given = {
        "binary": str(YAFFLE),
        "config": str(folder / "yaffle.toml"),
        "health": "http://127.0.0.1:8777/livez",
        "command": "serve",
        "user": "",
        "state": str(folder / "state"),
        "log": str(folder / "engine.log"),
    }
    parameters = root.find(".//instance_attributes")
    assert parameters is not None
    for pair in list(parameters):
        parameters.remove(pair)
    for name, value in given.items():
        ET.SubElement(parameters, "nvpair", id=f"yaffle-{name}", name=name, value=value)
    meta = root.find(".//meta_attributes")
    assert meta is not None
    ET.SubElement(meta, "nvpair", id="yaffle-max", name="clone-max", value="1")
    return ET.tostring(root, encoding="unicode")


def test_an_engine_moves_from_a_member_that_dies_and_tells_of_the_host_that_died_with_it(
    lab: PacemakerLab, tmp_path: Path
) -> None:
    told, program = tmp_path / "told", tmp_path / "tell"
    program.write_text(f"#!/bin/sh\ncat >> {told}\necho >> {told}\n")
    program.chmod(0o755)
    (tmp_path / "yaffle.toml").write_text(SETTINGS.format(program=program))
    here = ""

    def where() -> str:
        for member in lab.members:
            try:
                said = lab.run("crm_resource", "--locate", "-r", "yaffle-clone", host=member)
            except LabError:
                continue
            return said.rpartition("running on: ")[2].strip()
        return ""

    def states() -> dict[str, str]:
        try:
            said = lab.run(str(YAFFLE), "host", "list", "--json", host=where())
        except (LabError, OSError):
            return {}
        return {host["host"]: host["state"] for host in json.loads(said)["hosts"]}

    def log() -> str:
        return (tmp_path / "engine.log").read_text()[-3000:]

    lab.run(
        "cibadmin", "--modify", "--allow-create", "--scope", "configuration", "-X", sample(tmp_path)
    )
    up = dict.fromkeys(lab.remotes, "up")
    wait_for(lambda: states() == up, within_s=90, why=lambda: f"{where()}: {states()}")
    here = where()
    lab.power("off", here)
    lab.power("off", "h001")
    wait_for(told.exists, within_s=120, why=log)
    assert where() != here
    (failure,) = (json.loads(line) for line in told.read_text().splitlines() if line)
    assert failure["payload"]["hostname"] == "h001"
    wait_for(lambda: states().get("h002") == "up", within_s=60, why=log)
