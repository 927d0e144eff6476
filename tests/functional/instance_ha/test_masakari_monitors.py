"""A real masakari-monitors notifies us unchanged; what it finds puts its host on maintenance."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from lab.openstack import packages
from lab.openstack.plan import HERE, HOME
from tests.functional.api.live import Live, running
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


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with running(tmp_path_factory.mktemp("state") / "yaffle", engine=True) as served:
        yield served


@contextmanager
def process_monitor(folder: Path, url: str) -> Iterator[Path]:
    """Run one that misses a process; yield its log."""
    packages.install(FOLDER, LOCK)
    processes, config, log = (folder / name for name in ("list.yaml", "monitor.conf", "log"))
    processes.write_text(PROCESSES)
    config.write_text(SETTINGS.format(url=url, processes=processes))
    command = [str(FOLDER / "bin" / "masakari-processmonitor"), "--config-file", str(config)]
    with log.open("w") as out, subprocess.Popen(command, stdout=out, stderr=out) as monitor:
        try:
            yield log
        finally:
            monitor.kill()


def test_its_process_monitor_tells_us_what_it_misses(live: Live, tmp_path: Path) -> None:
    url = f"http://{live.address}/instance-ha/v1"
    with live.client() as client:

        def ask(method: str, path: str, body: Any = None) -> Any:
            answer = client.request(method, f"/instance-ha/v1{path}", json=body)
            return answer.raise_for_status().json()

        values = {"name": "all", "recovery_method": "auto", "service_type": "COMPUTE"}
        segment = ask("POST", "/segments", {"segment": values})["segment"]["uuid"]
        hosts = f"/segments/{segment}/hosts"
        # The monitor tells of the machine that it runs on.
        host = {"name": socket.gethostname(), "type": "COMPUTE", "control_attributes": "SSH"}
        ask("POST", hosts, {"host": host})

        def told() -> Any:
            return ask("GET", "/notifications?type=PROCESS&status=finished")["notifications"]

        with process_monitor(tmp_path, url) as log:
            try:
                (one,) = wait_for(told, within_s=120, why="it has told us")
            except AssertionError as error:
                raise AssertionError(f"{error}\n{log.read_text()[-4000:]}") from None
        assert one["payload"] == {"event": "STOPPED", "process_name": MISSING}
        (registered,) = ask("GET", hosts)["hosts"]
        assert registered["on_maintenance"] is True
