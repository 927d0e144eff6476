"""Bad days of three members: what one of them sees alone is nothing, and no failure is missed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab.pacemaker.cluster import PacemakerLab
from tests.contract.host_monitors.test_pacemaker import SETTINGS, SWITCHES
from tests.contract.notifiers.receiver import Receiver, receiver, say
from tests.functional.cli.support import Server
from tests.servers.pacemaker import pacemaker
from tests.waiting import wait_for

from yaffle.integrations.fence_yaffle import ATTRIBUTE

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PacemakerLab]:
    with pacemaker(tmp_path_factory.mktemp("lab"), members=3) as running:
        yield running


@pytest.fixture
def controller(lab: PacemakerLab) -> Iterator[Receiver]:
    """Have every machine on, and a controller that hears of no failure yet."""
    for name in (*lab.members, *lab.remotes):
        lab.power("mend", name)
        lab.power("on", name)

    def back() -> bool:
        for name in lab.remotes:
            lab.power("on", name)
        return lab.online() >= set(lab.remotes) and members(lab) == set(lab.members)

    lab.until(back, 90, "every machine is online")
    for name in lab.remotes:
        # A mark is told by whoever sees it, also of a test before.
        lab.run("crm_attribute", "-N", name, "-n", ATTRIBUTE, "-D", "-l", "forever")
    with receiver(say(202)) as there:
        yield there


def members(lab: PacemakerLab) -> set[str]:
    said = lab.run("crm_node", "--partition")
    return set(said.split())


def serve(lab: PacemakerLab, controller: Receiver, folder: Path, *, fences: bool = False) -> Server:
    """Start an engine on c1, and wait until it sees all hosts; `fences`: by our own devices, too."""
    config = folder / "yaffle.toml"
    text = SETTINGS.format(programs=lab.bin, port=controller.port)
    if fences:
        text = text.replace("unfenced_after = 5", "unfenced_after = 5\nfence_lost = true")
        text += SWITCHES.format(agent=lab.state / "sbin" / "fence_lab")
    config.write_text(text)
    server = Server(folder / "state", flags=("--config", str(config)))
    server.start()
    wait_for(lambda: states(server) == dict.fromkeys(lab.remotes, "up"))
    return server


def states(server: Server) -> dict[str, str]:
    found = server.ok("host", "list", "--json").json["hosts"]
    return {host["host"]: host["state"] for host in found}


def told(controller: Receiver) -> list[str]:
    return [json.loads(one.body)["payload"]["hostname"] for one in controller.seen]


def test_a_host_that_dies_with_a_member_is_told_once(
    lab: PacemakerLab, controller: Receiver, tmp_path: Path
) -> None:
    server = serve(lab, controller, tmp_path)
    try:
        lab.power("off", "c3")
        lab.power("off", "h001")
        wait_for(lambda: told(controller), within_s=150)
        assert told(controller) == ["compute1.example.org"]
        assert states(server)["h002"] == "up"
    finally:
        assert server.stop() == 0


def test_a_member_that_is_cut_off_sees_nothing_and_tells_what_it_missed_when_it_is_back(
    lab: PacemakerLab, controller: Receiver, tmp_path: Path
) -> None:
    server = serve(lab, controller, tmp_path)
    try:
        lab.power("cut", "c1")
        lab.power("off", "h002")
        wait_for(lambda: "unknown" in states(server).values(), within_s=120)
        checks = {c["name"]: c for c in server.cli("doctor", "--json").json["checks"]}
        assert checks["host monitors"]["status"] != "ok"
        assert told(controller) == [], "alone it knows nothing"
        lab.power("mend", "c1")
        lab.power("on", "c1")
        wait_for(lambda: told(controller), within_s=120)
        assert told(controller) == ["h002"]
    finally:
        assert server.stop() == 0


def test_a_host_that_is_down_while_the_whole_cluster_restarts_is_fenced_and_told_once(
    lab: PacemakerLab, controller: Receiver, tmp_path: Path
) -> None:
    server = serve(lab, controller, tmp_path, fences=True)
    try:
        lab.power("bmc", "h001", "dead")
        lab.power("off", "h001")
        wait_for(lambda: states(server)["h001"] in {"lost", "unfenced"})
        for member in lab.members:
            lab.power("off", member)
        wait_for(lambda: set(states(server).values()) == {"unknown"}, within_s=120)
        assert told(controller) == [], "nobody has proved it off"
        for member in lab.members:
            lab.power("on", member)
        lab.power("bmc", "h001", "well")
        wait_for(lambda: told(controller), within_s=150, why=lambda: str(states(server)))
        wait_for(lambda: states(server)["h002"] == "up", within_s=120)
        assert told(controller) == ["compute1.example.org"]
    finally:
        lab.power("bmc", "h001", "well")
        assert server.stop() == 0


def test_a_fencer_that_dies_amid_a_fencing_loses_no_failure(
    lab: PacemakerLab, controller: Receiver, tmp_path: Path
) -> None:
    server = serve(lab, controller, tmp_path)
    try:
        lab.power("bmc", "h002", "slow")
        lab.power("freeze", "h002")
        wait_for(lambda: states(server)["h002"] == "lost")
        for member in lab.members:
            # Pacemaker starts it again; what it knew of fencings is gone.
            lab.run("pkill", "-KILL", "pacemaker-fence", host=member)
        wait_for(lambda: told(controller), within_s=150, why=lambda: str(states(server)))
        assert told(controller) == ["h002"]
    finally:
        lab.power("bmc", "h002", "well")
        assert server.stop() == 0
