"""The lab is what it says: a real cloud, in which each lever does what its name promises, and no more."""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import psutil
import pytest
from lab.openstack import Lab, LabError, keeper
from lab.openstack.api import Refused
from lab.openstack.lab import new
from lab.openstack.processes import Processes, Service
from lab.openstack.waiting import until
from tests.openstack.cloud import NOSTATE, PAUSED, RUNNING, SHUTDOWN, Cloud
from tests.waiting import wait_for, wait_until


def test_the_lab_is_furnished(cloud: Cloud, heat: str) -> None:
    lab = cloud.lab
    both = {"cmp1": "up", "cmp2": "up"}
    wait_until(lab.host_states, lambda states: states == both)
    flavors = {flavor["name"] for flavor in lab.api.get("compute", "/flavors")["flavors"]}
    assert flavors == {"lab.tiny", "lab.small"}
    images = lab.api.get("image", "/images?visibility=public")["images"]
    assert {image["name"] for image in images} == {"lab-image", "lab-image-2"}
    assert {image["status"] for image in images} == {"active"}
    assert heat == lab.url("orchestration")
    assert lab.api.get("orchestration", "/")["versions"]


def test_a_project_is_its_users_own(cloud: Cloud) -> None:
    server = cloud.server("mine", metadata={"a": "b"})
    with cloud.connected() as connection:
        assert [found.id for found in connection.compute.servers()] == [server]
        assert connection.compute.get_server(server).metadata == {"a": "b"}
    with pytest.raises(Refused, match="403"):
        cloud.api.get("compute", "/os-services")


def test_a_removed_project_leaves_nothing(lab: Lab, cloud: Cloud) -> None:
    other = Cloud(lab=lab, credentials=lab.project())
    server = other.server()
    other.act(server, "lock")
    other.remove()
    with pytest.raises(Refused, match="404"):
        lab.api.get("compute", f"/servers/{server}")
    with pytest.raises(Refused, match="404"):
        lab.api.get("identity", f"/projects/{other.credentials.project_id}")
    assert not other.clouds_yaml.exists()


def test_guests_change_behind_novas_back(cloud: Cloud) -> None:
    server = cloud.server()
    guest = cloud.guest(server)
    guest.off()
    cloud.until(server, "SHUTOFF", SHUTDOWN)
    cloud.act(server, "os-start")
    cloud.until(server, "ACTIVE", RUNNING)
    guest.pause()
    cloud.until(server, "ACTIVE", PAUSED)
    guest.on()
    cloud.until(server, "ACTIVE", RUNNING)
    guest.vanish()
    cloud.until(server, "ACTIVE", NOSTATE)
    assert server not in cloud.lab.guests_of(guest.host)
    cloud.act(server, "rebuild", imageRef=cloud.image("lab-image-2"))
    cloud.until(server, "ACTIVE", RUNNING)
    assert server in cloud.lab.guests_of(guest.host)


def test_an_operation_fails_for_one_project_only(cloud: Cloud) -> None:
    mine = cloud.credentials.project_id
    one = cloud.server("before")
    host = cloud.show(one).host
    with cloud.lab.fail(host, "spawn", only=one):
        other = cloud.server("other")
        cloud.act(one, "rebuild", imageRef=cloud.image())
        cloud.until(one, "ERROR")
    troubles = [cloud.lab.fail(name, "spawn", only=mine) for name in cloud.lab.hosts]
    failed = cloud.server("failed", active=False)
    cloud.until(failed, "ERROR")
    for trouble in troubles:
        trouble.end()
    cloud.act(one, "rebuild", imageRef=cloud.image())
    cloud.until(one, "ACTIVE", RUNNING)
    assert cloud.show(other).status == "ACTIVE"


def test_an_operation_is_slow(cloud: Cloud) -> None:
    server = cloud.server()
    host = cloud.show(server).host
    with cloud.lab.slow(host, "power_off", 1, only=server):
        cloud.act(server, "os-stop")
        cloud.until(server, "SHUTOFF")
    cloud.act(server, "os-start")
    cloud.until(server, "ACTIVE")
    with cloud.lab.slow(host, "power_off", 600, only=server):
        cloud.act(server, "os-stop")
        until("it is being stopped", lambda: cloud.show(server).task == "powering-off", 60)
        assert cloud.show(server).status == "ACTIVE"
    cloud.until(server, "SHUTOFF")


def test_a_snapshot_becomes_an_image_that_starts(cloud: Cloud) -> None:
    server = cloud.server()
    cloud.act(server, "createImage", name="snapshot")

    def image() -> dict[str, str]:
        found: list[dict[str, str]]
        found = cloud.api.get("image", "/images?name=snapshot")["images"]
        return found[0] if found else {"status": "not there"}

    until("the snapshot is active", lambda: image()["status"] == "active", 60)
    again = cloud.server("again", imageRef=image()["id"])
    assert cloud.show(again).status == "ACTIVE"
    cloud.api.call("DELETE", "image", f"/images/{image()['id']}")


def test_a_killed_host_is_down_and_comes_back_with_its_guests(broken_cloud: Cloud) -> None:
    lab = broken_cloud.lab
    server = broken_cloud.server(host="cmp2")
    assert broken_cloud.show(server).host == "cmp2"
    lab.kill_host("cmp2")
    with pytest.raises(LabError, match="does not run"):
        broken_cloud.guest(server).off()
    lab.until_host("cmp2", "down")
    lab.until_host("cmp1", "up")
    assert broken_cloud.show(server).status == "ACTIVE"
    lab.start_host("cmp2")
    assert lab.host_states()["cmp2"] == "up"
    assert lab.guests_of("cmp2")[server] == RUNNING
    broken_cloud.guest(server).off()
    broken_cloud.until(server, "SHUTOFF")


@pytest.mark.parametrize("name", ["keystone", "nova-api"])
def test_a_service_is_away_and_comes_back(broken_cloud: Cloud, name: str) -> None:
    lab = broken_cloud.lab
    kind = "identity" if name == "keystone" else "compute"
    with lab.stopped(name), pytest.raises(LabError, match="no answer"):
        lab.api.get(kind, "/")
    assert lab.api.get(kind, "/")
    with lab.frozen(name):
        statuses = {process.status() for process in lab.processes.family(name)}
        assert statuses == {psutil.STATUS_STOPPED}
    assert lab.api.get(kind, "/")


@pytest.mark.parametrize("kind", ["identity", "compute", "image", "orchestration"])
def test_idle_connections_keep_nobody_out(cloud: Cloud, heat: str, kind: str) -> None:
    place = urlsplit(url := cloud.lab.plan.url(kind))
    with ExitStack() as held:
        for _ in range(150):
            address = (str(place.hostname), place.port or 80)
            held.enter_context(socket.create_connection(address, timeout=10.0))
        assert httpx.get(f"{url}/", timeout=10.0).status_code < 500


def test_repair_takes_back_what_a_test_forgot(broken_cloud: Cloud) -> None:
    lab = broken_cloud.lab
    lab.fail("cmp1", "spawn")
    lab.fail("cmp2", "spawn")
    lab.stop("glance")
    lab.freeze("nova-conductor")
    lab.kill_host("cmp2")
    lab.kill("rabbitmq")
    lab.repair()
    broken_cloud.server(host="cmp2")
    broken_cloud.server(host="cmp1")


SLEEPER = """
import subprocess, sys, time
subprocess.Popen(sys.argv[1:], start_new_session=True, stdout=subprocess.DEVNULL)
print("as it is to be", flush=True)
time.sleep(600)
"""
# Overwrites its environment, as all do that change the title they have in lists of processes.
TITLED = """
import ctypes, pathlib, time
start, end = map(int, pathlib.Path("/proc/self/stat").read_text().rpartition(")")[2].split()[47:49])
ctypes.memset(start, 0, end - start)
print("as it is to be", flush=True)
time.sleep(600)
"""
STARTER = """
import os, sys
from pathlib import Path
from lab.openstack.processes import Processes, Service
state = Path(sys.argv[1])
for folder in ("run", "log"): (state / folder).mkdir()
Processes(state).start(Service(name="sleeper", command=tuple(sys.argv[2:])))
os.kill(os.getpid(), 9)
"""


@contextmanager
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """Give a process that is not the lab's, and end it."""
    with subprocess.Popen(["sleep", "600"]) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("words", "count"),
    [
        pytest.param([SLEEPER, "sleep", "600"], 2, id="with a child in another session"),
        pytest.param([TITLED], 1, id="without its environment"),
    ],
)
def test_what_a_killed_lab_left_behind_is_found_and_strangers_live(
    tmp_path: Path, words: list[str], count: int
) -> None:
    command = [sys.executable, "-c", STARTER, str(tmp_path), sys.executable, "-c", *words]
    subprocess.run(command, check=False, timeout=60)
    processes = Processes(tmp_path)
    # One that is to be found without its environment has that at first.
    until("it is as it is to be", lambda: "as it is" in processes.log_of("sleeper").read_text(), 60)
    until("all of it runs", lambda: len(processes.strays()) == count, 60)
    with sleeper() as stranger:
        # Another process got the number of one of ours.
        record = tmp_path / "run" / "another.json"
        record.write_text(f'{{"pid": {stranger.pid}, "ticks": 1, "command": []}}')
        assert not processes.alive("another")
        # And a record was lost.
        (tmp_path / "run" / "sleeper.json").unlink()
        assert processes.kill_all() == count
        assert processes.strays() == []
        assert stranger.poll() is None


def test_a_process_that_dies_is_named_with_its_last_words(tmp_path: Path) -> None:
    for folder in ("run", "log"):
        (tmp_path / folder).mkdir()
    processes = Processes(tmp_path)
    service = Service(name="broken", command=("sh", "-c", "echo no such table; exit 3"))
    processes.start(service)
    until("it has died", lambda: not processes.alive("broken"), 60)
    with pytest.raises(LabError, match=r"broken has died.*\n.*broken.out:\n.*no such table"):
        raise processes.death_of(service)
    with pytest.raises(LabError, match="cannot be started: /nonexistent"):
        processes.start(Service(name="absent", command=("/nonexistent",)))


WRITER = """
import os, sys, time
os.chdir(sys.argv[1])
end = time.monotonic() + 1
while time.monotonic() < end:
    for number in range(1000):
        os.close(os.open(str(number), os.O_CREAT))
    print("begun", flush=True)
"""


def test_a_lab_is_removed_though_one_without_its_mark_still_writes_there() -> None:
    """So does what was just being started when the others were killed."""
    # Not in pytest's own folder, whose name leaves none for the sockets of a lab.
    lab = new(Path(tempfile.mkdtemp(prefix="lab-")))
    command = [sys.executable, "-c", WRITER, str(lab.plan.state)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"begun\n"
        lab.remove()
    assert not lab.plan.state.exists()


def words(state: Path) -> str:
    """Return what there is of a lab, and what its keeper said."""
    there = ", ".join(str(path.relative_to(state)) for path in sorted(state.glob("*/*")))
    return f"{there}\n{(state / 'keeper.log').read_text()}"


def test_a_lab_ends_with_its_owner_however_that_ended(lab: Lab) -> None:
    """The one of this run cannot be shown to end, so another is begun, and its owner is killed."""
    with sleeper() as owner:
        state = keeper.begin(owner.pid)
        wait_for(lambda: Processes(state).strays(), within_s=180, why=lambda: words(state))
    wait_for(lambda: not state.exists(), within_s=180, why=lambda: words(state))
    assert Processes(state).strays() == []
    assert lab.api.get("identity", "/")
