"""The `pacemaker` monitor on a real cluster, judged by what its BMCs recorded; a failure's whole way."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from lab.openstack.errors import LabError
from lab.pacemaker.cluster import PacemakerLab
from tests.contract.notifiers.receiver import receiver, say
from tests.docs.pages import ROOT, blocks
from tests.docs.test_blocks import IN_A_CLUSTER, Reader
from tests.functional.cli.support import Server
from tests.servers.pacemaker import pacemaker
from tests.waiting import wait_for

from yaffle.core.health.host_verdict import is_judged
from yaffle.drivers.host_monitors.pacemaker import PacemakerMonitor
from yaffle.engine.runtime.clock import SystemClock
from yaffle.integrations.fence_yaffle import ATTRIBUTE
from yaffle.ports import DriverContext, HostFencing, HostMark, HostReport, MonitorBlind, Seen
from yaffle.testing import check_host_monitor

PACKAGING = ROOT / "packaging" / "pacemaker"
SET = ("cibadmin", "--modify", "--allow-create")
LEVEL = '<fencing-level id="ft" target-pattern="[ch][0-9]+" index="1" devices="{}"/>'
"""The lab's own."""
pytestmark = pytest.mark.timeout(300)

SETTINGS = """
[hosts]
on_shared_storage = true
poll = 1
unfenced_after = 5

[hosts.names]
h001 = "compute1.example.org"

[host_monitors.cluster]
type = "pacemaker"
programs = "{programs}"

[alerts.recovery]
type = "http_json"
url = "http://127.0.0.1:{port}/failures"
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PacemakerLab]:
    # Sockets lie below it, and their paths must not be long.
    with pacemaker(tmp_path_factory.mktemp("lab")) as running:
        yield running


@pytest.fixture
def hosts(lab: PacemakerLab) -> list[str]:
    """Have every host back before a test, whatever the one before did."""
    for name in lab.remotes:
        lab.power("thaw", name)
        lab.power("mend", name)
        lab.power("bmc", name, "well")
        lab.run("crm_resource", "-r", name, "--meta", "-d", "target-role")
        lab.run("crm_attribute", "-N", name, "-n", "maintenance", "-D", "-l", "forever")

    lab.bring_back()
    for name in lab.remotes:
        # Only now: whoever was fenced meanwhile was marked, and a mark is told by whoever sees it.
        lab.run("crm_attribute", "-N", name, "-n", ATTRIBUTE, "-D", "-l", "forever")
    return lab.remotes


def monitor(lab: PacemakerLab, **settings: object) -> PacemakerMonitor:
    given = {"programs": str(lab.bin), **settings}
    return PacemakerMonitor(DriverContext(clock=SystemClock(), state_dir=lab.state, settings=given))


def look(lab: PacemakerLab) -> HostReport:
    answer = asyncio.run(monitor(lab).look(deadline_s=20))
    assert isinstance(answer, HostReport), answer
    return answer


def marks(lab: PacemakerLab, host: str) -> list[HostMark]:
    return [mark for mark in look(lab).marks if mark.host == host]


def how(lab: PacemakerLab, host: str) -> Seen | None:
    return {s.host: s.seen for s in look(lab).sightings}.get(host)


def is_off(lab: PacemakerLab, host: str) -> bool:
    return {s.host: s.off for s in look(lab).sightings}[host]


def fencings(lab: PacemakerLab, host: str) -> list[HostFencing]:
    return [f for f in look(lab).fencings if f.host == host]


def test_it_keeps_the_promises_of_the_port(lab: PacemakerLab, hosts: list[str]) -> None:
    @asynccontextmanager
    async def frozen() -> AsyncIterator[None]:
        lab.power("freeze", "c1")
        yield
        lab.power("thaw", "c1")

    gone = HostMark(host=hosts[0], name=ATTRIBUTE, value="1")
    asked = monitor(lab)
    asyncio.run(check_host_monitor(asked, clock=SystemClock(), up=hosts[0], hang=frozen, gone=gone))


@pytest.mark.parametrize("harm", ["off", "freeze", "panic", "cut"])
def test_a_host_that_fails_is_lost_and_proved_off_by_its_bmc(
    lab: PacemakerLab, hosts: list[str], harm: str
) -> None:
    host = hosts[0]
    before, since_s = fencings(lab, host), int(time.time())
    lab.power(harm, host)
    wait_for(lambda: len(fencings(lab, host)) > len(before))
    (done,) = [f for f in fencings(lab, host) if f not in before]
    wait_for(lambda: how(lab, host) is Seen.LOST)
    assert is_off(lab, host)
    assert since_s <= done.at_s <= time.time() + 1
    assert lab.power("status", host) == "off", "what is called a proof is one"
    recorded = [r for r in lab.recorded() if r["host"] == host and r["verb"] == "off"]
    assert abs(float(str(recorded[-1]["at"])) - done.at_s) < 5
    assert all(how(lab, other) is Seen.UP for other in hosts[1:])


def test_a_host_whose_bmc_is_dead_is_lost_and_not_proved_off(
    lab: PacemakerLab, hosts: list[str]
) -> None:
    host = hosts[1]
    before = fencings(lab, host)
    lab.power("bmc", host, "dead")
    lab.power("cut", host)
    wait_for(lambda: how(lab, host) is Seen.LOST)
    time.sleep(5)
    assert fencings(lab, host) == before
    assert not is_off(lab, host), "whatever was proved of it before"
    assert lab.power("status", host) == "on", "it runs, and so do its instances"


def test_a_host_that_is_taken_out_of_service_is_stopped_or_under_maintenance(
    lab: PacemakerLab, hosts: list[str]
) -> None:
    host = hosts[2]
    before = fencings(lab, host)
    role = ("crm_resource", "-r", host, "--meta", "-p", "target-role")
    lab.run(*role, "-v", "Stopped")
    wait_for(lambda: how(lab, host) is Seen.STOPPED)
    lab.run("crm_resource", "-r", host, "--meta", "-d", "target-role")
    wait_for(lambda: how(lab, host) is Seen.UP)
    lab.run("crm_attribute", "-N", host, "-n", "maintenance", "-v", "true", "-l", "forever")
    wait_for(lambda: how(lab, host) is Seen.MAINTENANCE)
    lab.run("crm_attribute", "-N", host, "-n", "maintenance", "-D", "-l", "forever")
    wait_for(lambda: how(lab, host) is Seen.UP)
    assert fencings(lab, host) == before


# --- marks ----------------------------------------------------------------------------------------


def test_a_fenced_host_is_marked_and_its_return_and_a_restart_of_the_cluster_leave_the_mark(
    lab: PacemakerLab, hosts: list[str]
) -> None:
    host = hosts[0]
    before = fencings(lab, host)
    lab.power("off", host)
    wait_for(lambda: len(fencings(lab, host)) > len(before))
    (done,) = [f for f in fencings(lab, host) if f not in before]
    assert done.owed, "one failure, with the proof of the history"
    (mark,) = marks(lab, host)
    assert 0 <= done.at_s - mark.at_s[0] <= 5
    lab.power("on", host)
    wait_for(lambda: how(lab, host) is Seen.UP)
    assert marks(lab, host) == [mark], "it is back, and nobody has taken its failure over"
    lab.power("off", "c1")
    lab.power("on", "c1")
    lab.until(lambda: lab.online() >= set(lab.remotes), 60, "the cluster is back")
    assert marks(lab, host) == [mark]
    (told,) = [f for f in fencings(lab, host) if f.owed]
    assert is_judged(told, [done.at_s]), "the same failure"
    assert "marked by fence_yaffle" in told.proof, "the history is gone"

    stale = replace(mark, value=f"{mark.value},{mark.at_s[0] + 1}")
    assert asyncio.run(monitor(lab).clear(stale, deadline_s=20)) == ""
    assert marks(lab, host) == [mark], "it said another thing"
    assert asyncio.run(monitor(lab).clear(mark, deadline_s=20)) == ""
    assert marks(lab, host) == []


def test_the_marks_of_the_how_to_are_set_up_as_it_says(lab: PacemakerLab, hosts: list[str]) -> None:
    host = hosts[2]
    (text,) = [
        b.text for b in blocks(ROOT / "docs/howto/watch-hosts.md") if "fencing-level" in b.text
    ]
    ours = text.replace('target="compute1"', f'target="{host}"').replace(
        "power-compute1", "fence-lab"
    )
    # Of two levels for one host the one with the lower index is the first.
    ours = ours.replace('index="1"', 'index="9"').replace('"fence-mark', '"how-to-mark')
    ours = ours.replace("fence-lab,fence-mark", "fence-lab,how-to-mark")
    lab.run("sh", "-ec", ours)
    try:
        lab.until(lambda: "how-to-mark" in _started(lab), 30, "the agent has started")
        lab.run("cibadmin", "--delete", "--xml-text", '<fencing-level id="ft"/>')
        lab.run("stonith_admin", "--fence", host, within_s=60)
        assert marks(lab, host)
    finally:
        lab.run(*SET, "--scope", "fencing-topology", "-X", LEVEL.format("fence-lab,fence-mark"))
        lab.run("cibadmin", "--delete", "--xml-text", '<fencing-level id="fence-compute1"/>')
        lab.run("cibadmin", "--delete", "--xml-text", '<primitive id="how-to-mark"/>')


def _started(lab: PacemakerLab) -> set[str]:
    root = ET.fromstring(lab.run("crm_mon", "-1", "--output-as=xml"))
    return {str(r.get("id")) for r in root.iter("resource") if r.get("role") == "Started"}


def test_what_fence_compute_has_marked_is_taken_over(lab: PacemakerLab, hosts: list[str]) -> None:
    host = hosts[1]
    lab.run("attrd_updater", "--node", host, "--name", "evacuate", "--update", "yes")
    asked = monitor(lab, attrd_mark="evacuate")

    def report() -> HostReport:
        answer = asyncio.run(asked.look(deadline_s=20))
        assert isinstance(answer, HostReport), answer
        return answer

    (mark,) = [m for m in report().marks if m.host == host]
    assert (mark.value, mark.at_s, mark.timeless) == ("yes", (), True)
    assert asyncio.run(asked.clear(replace(mark, value="no"), deadline_s=20)) == ""
    assert mark in report().marks, "it said another thing"
    assert asyncio.run(asked.clear(mark, deadline_s=20)) == ""
    assert mark not in report().marks
    said = lab.run("attrd_updater", "--node", host, "--name", "evacuate", "--query")
    assert 'value="no"' in said, "so that its fence agent lets the host be switched on"


def test_a_marking_agent_that_stands_for_a_switch_fails_at_once_and_fences_nothing(
    lab: PacemakerLab, hosts: list[str]
) -> None:
    host = hosts[2]
    before = fencings(lab, host)
    lab.run(*SET, "-X", LEVEL.format("fence-mark"))
    try:
        with pytest.raises(LabError, match="exit"):
            lab.run("stonith_admin", "--fence", host, within_s=60)
        assert fencings(lab, host) == before
        assert lab.power("status", host) == "on"
        assert marks(lab, host) == []
        # A host without a level of its own may be fenced by any device: only the switch can, then.
        others = LEVEL.format("fence-lab,fence-mark").replace("[ch][0-9]+", "h001")
        lab.run(*SET, "-X", others)
        for _ in range(3):
            with contextlib.suppress(LabError):
                lab.run("stonith_admin", "--fence", host, within_s=60)
            assert marks(lab, host) == []
            if len(fencings(lab, host)) > len(before):
                assert lab.power("status", host) == "off"
    finally:
        lab.run(*SET, "-X", LEVEL.format("fence-lab,fence-mark"))


def test_a_cluster_that_is_off_leaves_the_monitor_blind(tmp_path: Path) -> None:
    lab = PacemakerLab(tmp_path / "none")
    lab.bin.mkdir(parents=True)
    answer = asyncio.run(monitor(lab).look(deadline_s=5))
    assert isinstance(answer, MonitorBlind)


def test_from_power_loss_to_the_alert_that_is_accepted_and_what_people_are_told(
    lab: PacemakerLab, hosts: list[str], tmp_path: Path
) -> None:
    config = tmp_path / "yaffle.toml"
    with receiver(say(202)) as controller:
        config.write_text(SETTINGS.format(programs=lab.bin, port=controller.port))
        server = Server(tmp_path / "state", flags=("--config", str(config)))
        server.start()

        def state(host: str) -> str:
            return str(server.ok("host", "show", host, "--json").json["host"]["state"])

        def listed() -> list[dict[str, str]]:
            return list(server.ok("host", "list", "--json").json["hosts"])

        wait_for(lambda: [h["state"] for h in listed()] == ["up"] * 3)
        assert controller.seen == [], "what was fenced before it was watched is no news"
        lab.power("off", "h001")
        wait_for(lambda: marks(lab, "h001"))
        wait_for(lambda: controller.seen)
        body = json.loads(controller.seen[0].body)
        assert body["payload"]["hostname"] == "compute1.example.org"
        assert body["payload"]["failure_time"] in {f.at_s for f in fencings(lab, "h001")}
        wait_for(lambda: state("h001") == "fenced")
        wait_for(lambda: "accepted" in server.ok("alert", "list").out)
        wait_for(lambda: not marks(lab, "h001"))
        why = server.ok("host", "why", "h001").out
        assert "yaffle alert list --host compute1.example.org" in why
        _, *words = why.split("`")[1].split()
        assert "compute1.example.org" in server.ok(*words).out, "what it advises works"

        lab.power("bmc", "h002", "dead")
        lab.power("freeze", "h002")
        wait_for(lambda: state("h002") == "unfenced")
        checks = {c["name"]: c for c in server.cli("doctor", "--json").json["checks"]}
        assert checks["host monitors"]["status"] == "ok"
        assert "h002" in checks["lost hosts"]["detail"]
        assert len(controller.seen) == 1, "nobody is told of a host that may run"
        lab.power("bmc", "h002", "well")
        # Pasted from `host why`; as it says, on a member of the cluster.
        advised = server.ok("host", "why", "h002").out.split("`")[1]
        assert advised == "stonith_admin --fence h002"
        lab.run(*advised.split(), within_s=60)
        wait_for(lambda: len(controller.seen) == 2)
        wait_for(lambda: state("h002") == "fenced")
        assert server.stop() == 0
        assert {json.loads(s.body)["payload"]["hostname"] for s in controller.seen} == {
            "compute1.example.org",
            "h002",
        }


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Yield a folder that everybody may enter: the cluster runs its alert agents as another user."""
    with tempfile.TemporaryDirectory(prefix="yaffle-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def test_a_cluster_that_wakes_the_engine_is_not_waited_for(
    lab: PacemakerLab, hosts: list[str], tmp_path: Path, open_folder: Path
) -> None:
    config, alerts = tmp_path / "yaffle.toml", (PACKAGING / "alert.xml").read_text()
    wake, agent = open_folder / "wake", shutil.copy(PACKAGING / "alert_yaffle", open_folder)
    alerts = alerts.replace("/usr/lib/yaffle/alert_yaffle", str(agent))
    lab.run(*ALERTS, "--xml-text", alerts.replace("/run/yaffle/wake", str(wake)))
    with receiver(say(202)) as controller:
        text = SETTINGS.format(programs=lab.bin, port=controller.port)
        # It is told by the alert alone, for the next look is far.
        text = text.replace("poll = 1", "poll = 300")
        config.write_text(text.replace("[alerts", f'wake = "{wake}"\n\n[alerts', 1))
        server = Server(tmp_path / "state", flags=("--config", str(config)))
        server.start()
        wait_for(wake.is_socket)
        assert wake.stat().st_mode & 0o777 == 0o666, "the cluster runs its agents as another user"
        lab.power("off", "h003")
        wait_for(lambda: controller.seen, within_s=60)
        assert json.loads(controller.seen[0].body)["payload"]["hostname"] == "h003"
        assert server.stop() == 0
    lab.run("cibadmin", "--delete", "--xml-text", '<alert id="yaffle-wake"/>')


ALERTS = ("cibadmin", "--modify", "--allow-create", "--scope", "alerts")

SWITCHES = """
[drivers.HOST.devices.rack]
agent = "{agent}"
hosts = {{ h001 = "h001", h002 = "h002", h003 = "h003" }}
"""


def power_devices(server: Server) -> dict[str, str]:
    """Return what `yaffle doctor` says of them."""
    checks = server.cli("doctor", "--json").json["checks"]
    return next(check for check in checks if check["name"] == "power devices")


def test_a_fencing_that_the_cluster_has_lost_is_made_up_for_by_our_own_fencers(
    lab: PacemakerLab, hosts: list[str], tmp_path: Path
) -> None:
    config = tmp_path / "yaffle.toml"
    options = ("crm_attribute", "-n", "stonith-enabled")
    with receiver(say(202)) as controller:
        text = SETTINGS.format(programs=lab.bin, port=controller.port)
        text = text.replace("unfenced_after = 5", "unfenced_after = 5\nfence_lost = true")
        config.write_text(text + SWITCHES.format(agent=lab.state / "sbin" / "fence_lab"))
        server = Server(tmp_path / "state", flags=("--config", str(config)))
        server.start()

        def shown(host: str) -> dict[str, str]:
            return dict(server.ok("host", "show", host, "--json").json["host"])

        wait_for(
            lambda: len(server.ok("host", "list", "--state", "up", "--json").json["hosts"]) == 3
        )
        lab.power("bmc", "h003", "dead")
        devices = power_devices(server)
        assert (devices["status"], "h003" in devices["detail"]) == ("warn", True), devices
        lab.power("bmc", "h003", "well")
        assert power_devices(server)["status"] == "ok"
        # The cluster sees that they are gone, and fences nobody.
        lab.run(*options, "-v", "false")
        try:
            lab.power("cut", "h001")
            wait_for(lambda: controller.seen, within_s=60)
            assert (
                json.loads(controller.seen[0].body)["payload"]["hostname"] == "compute1.example.org"
            )
            assert lab.power("status", "h001") == "off", "what is called a proof is one"
            assert shown("h001")["state"] == "fenced"
            lab.power("mend", "h001")
            lab.power("on", "h001")
            wait_for(lambda: shown("h001")["state"] == "up")
            # One of three is as many as may have failed at once.
            lab.power("cut", "h001")
            lab.power("cut", "h002")
            for host in ("h001", "h002"):
                wait_for(
                    lambda host=host: "2 of 3 hosts have failed at once" in shown(host)["fencing"],
                    why=lambda host=host: shown(host),
                )
            time.sleep(3)
            assert [lab.power("status", host) for host in ("h001", "h002")] == ["on", "on"]
            # Pasted from `host why`.
            why = server.ok("host", "why", "h002").out
            (advised,) = [word for word in why.split("`") if word.startswith("yaffle host fence")]
            server.ok(*advised.replace("TEXT", "drill").split()[1:])
            wait_for(lambda: len(controller.seen) == 2, within_s=60)
            assert lab.power("status", "h002") == "off"
            refused = server.cli("host", "fence", "h003", "--reason", "drill")
            assert refused.code != 0
            assert "host h003 is up: only one that is lost" in refused.err
            assert lab.power("status", "h003") == "on"
            assert server.stop() == 0
        finally:
            lab.run(*options, "-v", "true")


@pytest.mark.parametrize("name", sorted(IN_A_CLUSTER))
def test_the_tutorial_can_be_followed(
    name: str,
    lab: PacemakerLab,
    hosts: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "lab").symlink_to(lab.state)
    monkeypatch.setenv("CLONE", str(ROOT))
    reader = Reader(tmp_path)
    try:
        for block in blocks(ROOT / name):
            # The cluster is up already.
            if "lab" not in block.words:
                reader.follow(block)
    finally:
        reader.close()
