"""Nova's record of who asked for what fails or hangs, and a user switches a server off.

That nobody can be asked is no answer: the server is left as it is, by every policy. What has gone off
by itself is healed as soon as Nova tells that it has.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest
from lab.openstack.catalog import grant
from tests.functional.cli.support import Server, wait_for
from tests.openstack.bad_days.clouds import through
from tests.openstack.bad_days.gate import HANG_MAX_S, Gate, Refusal, Seen, standing
from tests.openstack.cloud import Cloud
from tests.openstack.hearing import until_heard
from tests.openstack.test_nova_healing import HEAL_S, PROFILE, healthy, nodes

POLLING: Final = """
type: senlin.policy.health
version: "1.0"
properties:
  detection:
    type: NODE_STATUS_POLLING
    options: {interval: 2}
    node_update_timeout: 3
  recovery:
    fencing: [COMPUTE]
    actions:
      - {name: RECREATE}
"""
LISTENING: Final = """
type: senlin.policy.health
version: "1.3"
properties:
  detection:
    interval: 2
    node_update_timeout: 6
    rise: 1
    fall: 2
    detection_modes:
      - type: LIFECYCLE_EVENTS
  recovery:
    fencing: [COMPUTE]
    actions:
      - {name: RECREATE, timeout: 120}
    limits: {max_unhealthy: 100%}
    retry: {attempts: 3, backoff: 2, max_backoff: 4}
"""
UNTOUCHED_S: Final = 25.0
"""Many looks, and longer than a START would be waited for by a call."""
ACTS: Final = frozenset({"os-start", "forceDelete", "DELETE", "create", "reboot", "rebuild"})


@dataclass
class Record:
    """What becomes of questions for `os-instance-actions`."""

    how: str
    """`fails` or `hangs`."""
    away: bool = False
    asked: int = 0
    back: threading.Event = field(default_factory=threading.Event)

    def weather(self, seen: Seen) -> Refusal | None:
        if not self.away or "os-instance-actions" not in seen.path:
            return None
        self.asked += 1
        if self.how == "hangs":
            self.back.wait(HANG_MAX_S)
        return 500, {"computeFault": {"message": "the cell is away", "code": 500}}

    def returns(self) -> None:
        self.away = False
        self.back.set()


@contextmanager
def served(cloud: Cloud, gate: Gate, folder: Path, policy: str) -> Iterator[Server]:
    config = folder / "yaffle.toml"
    config.write_text(
        f'[drivers."os.nova.server-1.0"]\ncloud = "{cloud.name}"\n'
        f'clouds_file = "{through(gate, cloud, folder)}"\n'
        "[drivers.LIFECYCLE_EVENTS.sources.lab]\n"
        f'urls = ["{cloud.lab.plan.bus_url}"]\nexchanges = ["nova"]\n'
    )
    server = Server(folder / "state", flags=("--config", str(config)))
    server.start()
    try:
        server.ok("profile", "create", "web", "-", given=PROFILE)
        server.ok("policy", "create", "care", "-", given=policy)
        server.ok("cluster", "create", "web", "--profile", "web", "--size", "2", "--policy", "care")
        wait_for(lambda: len(healthy(server)) == 2, within_s=HEAL_S)
        if policy is LISTENING:
            until_heard(server)
        yield server
    finally:
        assert server.stop(signal.SIGTERM) == 0


def untouched(gate: Gate, since_s: float) -> None:
    """Watch for a while that nothing is asked of Nova."""
    until_s = time.monotonic() + UNTOUCHED_S
    while time.monotonic() < until_s:
        done = [seen for seen in gate.writes(since_s) if seen.act in ACTS]
        assert not done, done
        time.sleep(0.5)


@pytest.mark.parametrize(
    ("policy", "how"),
    [
        pytest.param(POLLING, "fails", id="1.0 polling, 500"),
        pytest.param(POLLING, "hangs", id="1.0 polling, hanging"),
        pytest.param(LISTENING, "fails", id="1.3 events, 500"),
        pytest.param(LISTENING, "hangs", id="1.3 events, hanging"),
    ],
)
def test_while_novas_record_is_silent_nothing_is_done_and_afterwards_what_failed_is_healed(
    cloud: Cloud, tmp_path: Path, policy: str, how: str
) -> None:
    record = Record(how)
    with standing(cloud.lab) as gate, served(cloud, gate, tmp_path, policy) as yaffle:
        gate.weather = record.weather
        before = {name: node["physical_id"] for name, node in nodes(yaffle).items()}
        record.away, began_s = True, time.monotonic()
        # One is stopped by its user, the other one goes off by itself: who could tell them apart?
        asked = f"/servers/{before['web-1']}/action"
        cloud.operator.call("POST", "compute", asked, {"os-stop": None})
        cloud.guest(before["web-2"]).off()
        for ident in before.values():
            cloud.until(ident, "SHUTOFF")
        wait_for(lambda: record.asked >= 2, within_s=HEAL_S)
        untouched(gate, began_s)
        assert "could not be found out" in yaffle.cli("why", "web-1").out
        for ident in before.values():
            assert cloud.show(ident).status == "SHUTOFF"

        record.returns()
        wait_for(lambda: cloud.show(before["web-2"]).status == "ACTIVE", within_s=HEAL_S)
        wait_for(lambda: "web-2" in healthy(yaffle), within_s=HEAL_S)
        assert {n: x["physical_id"] for n, x in nodes(yaffle).items()} == before, "none made anew"
        assert cloud.show(before["web-1"]).status == "SHUTOFF", "its user's wish is respected"
        assert {seen.act for seen in gate.writes(began_s) if seen.act in ACTS} == {"os-start"}
        yaffle.ok("cluster", "delete", "web")


@pytest.mark.parametrize("policy", [POLLING, LISTENING], ids=["1.0 polling", "1.3 events"])
def test_a_locked_server_is_left_alone_by_an_administrator_too_until_it_is_unlocked(
    cloud: Cloud, tmp_path: Path, policy: str
) -> None:
    mine = cloud.credentials
    # Nova refuses a locked server to a user, and lets an administrator delete it.
    grant(cloud.lab.api, project=mine.project_id, user=mine.user_id, role="admin")
    with standing(cloud.lab) as gate, served(cloud, gate, tmp_path, policy) as yaffle:
        before = {name: node["physical_id"] for name, node in nodes(yaffle).items()}
        for ident in before.values():
            cloud.operator.call("POST", "compute", f"/servers/{ident}/action", {"lock": None})
        began_s = time.monotonic()
        cloud.guest(before["web-1"]).off()
        cloud.guest(before["web-2"]).vanish()
        # To those who listen Nova tells nothing of a guest that is gone: they find it by their sweep.
        asked = ("web-1",) if policy is LISTENING else ("web-1", "web-2")
        for name in asked:
            told = f"openstack server unlock {before[name]}"
            wait_for(lambda n=name, t=told: t in yaffle.cli("why", n).out, within_s=HEAL_S)
        untouched(gate, began_s)
        refused = yaffle.cli("node", "recover", "web-1")
        assert refused.code != 0
        untouched(gate, began_s)

        # The other one stays locked: two of two would be a storm, and be held.
        asked_for = f"/servers/{before['web-1']}/action"
        cloud.operator.call("POST", "compute", asked_for, {"unlock": None})
        active = lambda: cloud.show(before["web-1"]).status == "ACTIVE"  # noqa: E731
        wait_for(active, within_s=HEAL_S, why=lambda: yaffle.cli("why", "web-1").out)
        assert nodes(yaffle)["web-1"]["physical_id"] == before["web-1"], "started, not made anew"
        assert {seen.act for seen in gate.writes(began_s) if seen.act in ACTS} == {"os-start"}
        path = f"/servers/{before['web-2']}/action"
        cloud.operator.call("POST", "compute", path, {"unlock": None})
        yaffle.ok("cluster", "delete", "web")
