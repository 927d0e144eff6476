"""Real masakari-monitors and their commands notify us unchanged; what fails is put on maintenance."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from lab.openstack import packages
from lab.openstack.plan import HERE, HOME
from tests.functional.api.live import Live, running
from tests.servers.pacemaker import pacemaker
from tests.waiting import wait_for

FOLDER = HOME / "masakari-monitors"
LOCK = HERE / "requirements-masakari-monitors.lock"
MISSING = "a-process-that-is-not-there"
PROCESSES = f"""\
-
    process_name: {MISSING}
    start_command: /bin/false
    pre_start_command:
    post_start_command:
    restart_command: /bin/false
    pre_restart_command:
    post_restart_command:
    run_as_root: False
"""
SETTINGS = """\
[api]
auth_type = admin_token
endpoint = {url}
token = any
[process]
check_interval = 1
restart_retries = 1
restart_interval = 1
process_list_path = {processes}
"""
# The lab has no IPMI, and the members of its cluster are none of the hosts.
HOST_SETTINGS = """\
[api]
auth_type = admin_token
endpoint = {url}
token = any
[host]
monitoring_interval = 1
restrict_to_remotes = true
pacemaker_node_type = remote
disable_ipmi_check = true
[masakarimonitors_privileged]
helper_command = {bin}/privsep-helper --config-file {config}
"""


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with running(tmp_path_factory.mktemp("state") / "yaffle", engine=True) as served:
        yield served


@contextmanager
def monitor(name: str, folder: Path, settings: str, *, path: str = "") -> Iterator[Path]:
    """Run one of its monitors, with `path` before all other programs; yield its log."""
    packages.install(FOLDER, LOCK)
    config, log = folder / "monitor.conf", folder / "log"
    config.write_text(settings)
    command = [str(FOLDER / "bin" / f"masakari-{name}"), "--config-file", str(config)]
    env = {**os.environ, "PATH": f"{path}:{os.environ['PATH']}"}
    with (
        log.open("w") as out,
        subprocess.Popen(command, stdout=out, stderr=out, env=env) as process,
    ):
        try:
            yield log
        except AssertionError as error:
            raise AssertionError(f"{error}\n{log.read_text()[-4000:]}") from None
        finally:
            process.terminate()


def registered(ask: Callable[..., Any], host: str) -> str:
    """Register a host; return the path of its segment's hosts."""
    values = {"name": f"of {host}", "recovery_method": "auto", "service_type": "COMPUTE"}
    segment = ask("POST", "/segments", {"segment": values})["segment"]["uuid"]
    told = {"name": host, "type": "COMPUTE", "control_attributes": "SSH"}
    ask("POST", f"/segments/{segment}/hosts", {"host": told})
    return f"/segments/{segment}/hosts"


def test_its_process_monitor_tells_us_what_it_misses(live: Live, tmp_path: Path) -> None:
    url = f"http://{live.address}/instance-ha/v1"
    with live.client() as client:

        def ask(method: str, path: str, body: Any = None) -> Any:
            answer = client.request(method, f"/instance-ha/v1{path}", json=body)
            return answer.raise_for_status().json()

        # The monitor tells of the machine that it runs on.
        hosts = registered(ask, socket.gethostname())

        def told() -> Any:
            return ask("GET", "/notifications?type=PROCESS&status=finished")["notifications"]

        processes = tmp_path / "list.yaml"
        processes.write_text(PROCESSES)
        settings = SETTINGS.format(url=url, processes=processes)
        with monitor("processmonitor", tmp_path, settings):
            (one,) = wait_for(told, within_s=120, why="it has told us")
        assert one["payload"] == {"event": "STOPPED", "process_name": MISSING}
        (host,) = ask("GET", hosts)["hosts"]
        assert host["on_maintenance"] is True


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_its_host_monitor_tells_us_of_a_host_that_loses_its_power(
    live: Live, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    url = f"http://{live.address}/instance-ha/v1"
    settings = HOST_SETTINGS.format(url=url, bin=FOLDER / "bin", config=tmp_path / "monitor.conf")
    with pacemaker(tmp_path_factory.mktemp("lab"), hosts=2) as lab, live.client() as client:

        def ask(method: str, path: str, body: Any = None) -> Any:
            answer = client.request(method, f"/instance-ha/v1{path}", json=body)
            return answer.raise_for_status().json()

        def told() -> Any:
            found = ask("GET", "/notifications?type=COMPUTE_HOST&status=finished")["notifications"]
            return {one["payload"]["event"]: one for one in found}.get("STOPPED")

        hosts = registered(ask, "h001")
        with monitor("hostmonitor", tmp_path, settings, path=str(lab.bin)) as log:
            wait_for(lambda: log.read_text().count("as a new member") == 2, why=log.read_text)
            lab.power("freeze", "h001")
            one = wait_for(told, within_s=120, why="it has told us")
        (host,) = ask("GET", hosts)["hosts"]
        assert one["source_host_uuid"] == host["uuid"]
        assert one["payload"]["cluster_status"] == "OFFLINE"
        assert host["on_maintenance"] is True


def test_people_notify_us_with_the_commands_of_masakari(live: Live, tmp_path: Path) -> None:
    packages.install(FOLDER, LOCK)
    told = {"OS_AUTH_TYPE": "admin_token", "OS_TOKEN": "any", "HOME": str(tmp_path)}
    env = {**os.environ, **told, "OS_ENDPOINT": f"http://{live.address}/instance-ha/v1"}

    def openstack(*words: str) -> Any:
        command = [str(FOLDER / "bin" / "openstack"), *words, "-f", "json"]
        done = subprocess.run(
            command, env=env, capture_output=True, text=True, timeout=100, check=False
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    openstack("segment", "create", "racks", "auto", "COMPUTE")
    openstack("segment", "host", "create", "cmp7", "COMPUTE", "SSH", "racks")
    payload = {"event": "STOPPED", "cluster_status": "OFFLINE", "host_status": "NORMAL"}
    words = ("COMPUTE_HOST", "cmp7", "2026-11-29T10:00:00", json.dumps(payload))
    made = openstack("notification", "create", *words)["notification_uuid"]

    def finished() -> Any:
        shown = openstack("notification", "show", made)
        return shown["status"] == "finished" and shown

    assert wait_for(finished, within_s=60)["payload"] == payload
    assert made in {one["notification_uuid"] for one in openstack("notification", "list")}
    (host,) = openstack("segment", "host", "list", "racks")
    assert (host["name"], host["on_maintenance"]) == ("cmp7", True)
