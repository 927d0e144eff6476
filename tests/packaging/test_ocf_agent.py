"""The OCF resource agent runs a real Yaffle: started once, told from others, stopped whatever it does."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree as ET

import psutil
import pytest
from tests.servers.process import free_port
from tests.waiting import wait_for

AGENT = Path(__file__).resolve().parents[2] / "packaging" / "pacemaker" / "engine"
SUCCESS, GENERIC, UNIMPLEMENTED, INSTALLED, CONFIGURED, NOT_RUNNING = 0, 1, 3, 5, 6, 7


@dataclass
class Resource:
    """A resource as the cluster has it: its parameters in the environment."""

    folder: Path
    parameters: dict[str, str] = field(default_factory=dict)
    timeout_s: int = 60

    def ask(self, action: str, **changed: str) -> int:
        return self.run(action, **changed).returncode

    def run(self, action: str, **changed: str) -> subprocess.CompletedProcess[str]:
        env = {
            **os.environ,
            "OCF_RESOURCE_INSTANCE": "alerter",
            "HA_RSCTMP": str(self.folder),
            "OCF_RESKEY_CRM_meta_timeout": str(self.timeout_s * 1000),
        }
        for name, value in {**self.parameters, **changed}.items():
            env[f"OCF_RESKEY_{name}"] = value
        return subprocess.run(
            [str(AGENT), action], env=env, capture_output=True, text=True, timeout=120, check=False
        )

    @property
    def process(self) -> psutil.Process:
        pid, _ = (self.folder / "yaffle-alerter.pid").read_text().split()
        return psutil.Process(int(pid))


def card_of(resource: Resource) -> dict[str, object]:
    """Return what the server says of itself, once it does."""
    with contextlib.suppress(OSError, ValueError):
        found: dict[str, object] = json.loads(
            (resource.folder / "state" / "server.json").read_text()
        )
        return found
    return {}


def line_of(process: psutil.Process) -> list[str]:
    with contextlib.suppress(psutil.Error):
        return process.cmdline()
    return []


def gone(process: psutil.Process) -> bool:
    """Whether it has ended; nobody may have noted that yet."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.status() == psutil.STATUS_ZOMBIE
    return True


@pytest.fixture
def resource(tmp_path: Path) -> Iterator[Resource]:
    config, port = tmp_path / "yaffle.toml", free_port()
    config.write_text(
        f'state_dir = "{tmp_path / "state"}"\n[server]\nlisten = "127.0.0.1:{port}"\n'
    )
    found = Resource(
        tmp_path,
        {
            "binary": str(Path(sys.executable).with_name("yaffle")),
            "command": "serve",
            "config": str(config),
            "user": "",
            "environment": str(tmp_path / "yaffle.env"),
            "state": "",
            "log": str(tmp_path / "logs" / "log"),
            "health": f"http://127.0.0.1:{port}/livez",
        },
    )
    yield found
    found.timeout_s = 16
    assert found.ask("stop") == SUCCESS


def test_it_is_started_once_and_stopped(resource: Resource) -> None:
    assert resource.ask("monitor") == NOT_RUNNING
    assert resource.ask("stop") == SUCCESS, "what does not run is stopped"
    assert resource.ask("start") == SUCCESS, (resource.folder / "logs" / "log").read_text()
    assert resource.ask("monitor") == SUCCESS
    process = resource.process
    card = wait_for(lambda: card_of(resource), within_s=30)
    assert card["pid"] == process.pid
    assert resource.ask("start") == SUCCESS
    assert resource.process == process, "it is not started twice"
    assert resource.ask("stop") == SUCCESS
    assert gone(process)
    assert resource.ask("monitor") == NOT_RUNNING


def test_it_makes_its_folders_and_reads_its_environment_without_running_it(
    resource: Resource,
) -> None:
    ran, state = resource.folder / "ran", resource.folder / "var" / "cluster"
    Path(resource.parameters["environment"]).write_text(
        f'# what is secret\nYAFFLE_LOG__LEVEL="debug"\nTZ=$(touch {ran})\n'
        f"not a name=1\n; touch {ran}\nnothing"
    )
    resource.parameters["state"] = str(state)
    assert resource.ask("start") == SUCCESS
    assert state.stat().st_mode & 0o777 == 0o700
    # It answers for its health while it still opens its database.
    wait_for((state / "server.json").exists, within_s=30)
    environment = resource.process.environ()
    assert environment["YAFFLE_LOG__LEVEL"] == "debug"
    assert environment["TZ"] == f"$(touch {ran})"
    assert not ran.exists()


def test_an_engine_on_a_database_of_all_answers_for_its_health(
    resource: Resource, postgres_ready: str
) -> None:
    port = free_port()
    Path(resource.parameters["config"]).write_text(f'[engine]\nlisten = "127.0.0.1:{port}"\n')
    # As packaged: the password of the database is in the environment's file.
    Path(resource.parameters["environment"]).write_text(f"YAFFLE_DATABASE__URL={postgres_ready}\n")
    resource.parameters |= {
        "command": "engine",
        "state": str(resource.folder / "cluster"),
        "health": f"http://127.0.0.1:{port}/livez",
    }
    assert resource.ask("start") == SUCCESS, (resource.folder / "logs" / "log").read_text()
    assert resource.ask("monitor") == SUCCESS
    assert resource.ask("stop") == SUCCESS
    assert resource.ask("monitor") == NOT_RUNNING


def test_one_that_was_killed_does_not_run_and_is_started_again(resource: Resource) -> None:
    assert resource.ask("start") == SUCCESS
    before = resource.process
    before.kill()
    before.wait(30)
    assert resource.ask("monitor") == NOT_RUNNING
    assert resource.ask("start") == SUCCESS
    assert resource.process.pid != before.pid


def test_one_that_hangs_has_failed_and_is_killed(resource: Resource) -> None:
    assert resource.ask("start") == SUCCESS
    every = [resource.process, *resource.process.children(recursive=True)]
    for one in every:
        one.send_signal(signal.SIGSTOP)
    failed = resource.run("monitor")
    assert failed.returncode == GENERIC
    assert "does not answer at" in failed.stderr
    resource.timeout_s = 16
    stopped = resource.run("stop")
    assert stopped.returncode == SUCCESS
    assert "it is killed" in stopped.stderr
    wait_for(lambda: all(map(gone, every)), within_s=30)


def test_a_number_that_is_anothers_by_now_is_not_ours(resource: Resource) -> None:
    with subprocess.Popen(["sleep", "60"]) as other:
        (resource.folder / "yaffle-alerter.pid").write_text(f"{other.pid} 1\n")
        assert resource.ask("monitor") == NOT_RUNNING
        assert resource.ask("stop") == SUCCESS
        assert other.poll() is None, "nobody else's process is ended"
        other.kill()


def test_one_that_ends_at_once_is_not_started(resource: Resource) -> None:
    Path(resource.parameters["config"]).write_text("nonsense = 1\n")
    failed = resource.run("start")
    assert failed.returncode == GENERIC
    assert "see" in failed.stderr
    assert "nonsense" in (resource.folder / "logs" / "log").read_text()


def test_one_that_could_not_be_found_again_is_not_left_running(resource: Resource) -> None:
    made = resource.folder / "run" / "yaffle.pid"
    assert resource.ask("start", pid=str(made)) == SUCCESS
    assert resource.ask("stop", pid=str(made)) == SUCCESS
    # As on a full disk: nothing can be written there.
    made.mkdir()
    done = resource.run("start", pid=str(made))
    assert (done.returncode, "it was killed" in done.stderr) == (GENERIC, True)
    ours = [p for p in psutil.process_iter() if str(resource.folder) in " ".join(line_of(p))]
    assert ours == []


@pytest.mark.parametrize(
    ("changed", "code", "why"),
    [
        ({}, SUCCESS, ""),
        ({"binary": "no-such-program"}, INSTALLED, "there is no program no-such-program"),
        ({"command": "demo"}, CONFIGURED, "command is engine or serve"),
        ({"config": "/nowhere/yaffle.toml"}, CONFIGURED, "there are no settings"),
        ({"user": "nobody-of-that-name"}, CONFIGURED, "there is no account"),
    ],
)
def test_what_is_wrong_is_told_before_anything_is_started(
    resource: Resource, changed: dict[str, str], code: int, why: str
) -> None:
    for action in ("validate-all", *(("start",) if why else ())):
        done = resource.run(action, **changed)
        assert (done.returncode, why in done.stderr) == (code, True), action
    assert resource.ask("monitor") == NOT_RUNNING


def test_it_describes_itself_to_the_cluster(resource: Resource) -> None:
    told = resource.run("meta-data")
    root = ET.fromstring(told.stdout.partition("?>")[2].partition(">")[2])
    actions = {one.attrib["name"]: one.attrib["timeout"] for one in root.iter("action")}
    assert actions.keys() == {"start", "stop", "monitor", "meta-data", "validate-all"}
    known = {one.attrib["name"] for one in root.iter("parameter")}
    assert known == {*resource.parameters, "options", "pid"}
    assert resource.ask("promote") == UNIMPLEMENTED


def pacemaker(command: list[str], cib: Path) -> str:
    """Return what a tool of Pacemaker says of a cluster that is a file."""
    path = f"{os.environ['PATH']}:/usr/sbin"
    if shutil.which(command[0], path=path) is None:
        pytest.skip(f"no {command[0]} (package pacemaker-cli-utils)")
    env = {**os.environ, "PATH": path, "CIB_file": str(cib)}
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_sample_is_one_that_pacemaker_takes(resource: Resource, tmp_path: Path) -> None:
    sample = AGENT.with_name("engine.xml")
    file = tmp_path / "cib.xml"
    file.write_text(
        '<cib validate-with="pacemaker-3.0" admin_epoch="0" epoch="1" num_updates="0" have-quorum="1"'
        ' dc-uuid="1"><configuration><crm_config><cluster_property_set id="c"><nvpair id="s"'
        ' name="stonith-enabled" value="false"/></cluster_property_set></crm_config>'
        '<nodes><node id="1" uname="member"/></nodes><resources>'
        '<primitive id="watched" class="ocf" provider="pacemaker" type="remote"/></resources>'
        '<constraints/></configuration><status><node_state id="1" uname="member" in_ccm="true"'
        ' crmd="online" join="member" expected="member"><lrm id="1"><lrm_resources/></lrm>'
        "</node_state></status></cib>"
    )
    for _ in range(2):
        pacemaker(
            [
                "cibadmin",
                "--modify",
                "--allow-create",
                "--scope",
                "configuration",
                "--xml-file",
                str(sample),
            ],
            file,
        )
    pacemaker(["crm_verify", "--verbose", "--xml-file", str(file)], file)
    planned = pacemaker(["crm_simulate", "--simulate", "--xml-file", str(file)], file)
    started = re.findall(r"\* Start +(yaffle:\d+|watched) +\( +(\w+) \)", planned)
    assert started == [("watched", "member"), ("yaffle:0", "member")], planned
    told = resource.run("meta-data").stdout
    for pair in ET.parse(sample).getroot().iter("nvpair"):
        if str(pair.get("id")).startswith("yaffle-clone") or pair.get("name") == "interleave":
            continue
        assert f'<parameter name="{pair.attrib["name"]}"' in told
