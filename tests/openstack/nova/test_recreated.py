"""Six servers of a host that dies are made anew elsewhere, on the word of its power switch alone."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.functional.cli.support import Server, wait_for
from tests.openstack.nova.rack import care, switched
from tests.openstack.nova.test_host_lost import LEFT, LOST, PROFILE, all_healthy, closed, nodes
from tests.openstack.nova.world import World

WITHIN_S = 240.0
SIX = 6


@pytest.fixture
def yaffle(broken_admin_world: World, tmp_path: Path) -> Iterator[Server]:
    """A server of Yaffle's own with an administrator's rights, and a power switch."""
    config = switched(broken_admin_world.cloud, tmp_path)
    server = Server(tmp_path / "state", flags=("--config", str(config)))
    server.start()
    try:
        server.ok("profile", "create", "web", "-", given=PROFILE)
        yield server
    finally:
        assert server.stop(signal.SIGTERM) == 0


def cluster(world: World, yaffle: Server, *, size: int, **recovery: Any) -> dict[str, str]:
    """Build a cluster on the host that is to be lost; return its copies by the names of its nodes."""
    document = care("100%", size)
    document["properties"]["recovery"] |= recovery
    yaffle.ok("policy", "create", "care", "-", given=json.dumps(document))
    closed(world.cloud, LEFT, to_new=True)
    yaffle.ok(
        "cluster", "create", "web", "--profile", "web", "--size", str(size), "--policy", "care"
    )
    wait_for(lambda: all_healthy(yaffle, size), within_s=WITHIN_S)
    closed(world.cloud, LEFT, to_new=False)
    before = {n["name"]: n["physical_id"] for n in nodes(yaffle)}
    assert {world.cloud.show(server).host for server in before.values()} == {LOST}
    return before


def shown(yaffle: Server) -> list[dict[str, Any]]:
    """Return every incident with all that is on record of it."""
    listed = yaffle.ok("incident", "list", "--json").json["incidents"]
    return [yaffle.ok("incident", "show", i["id"], "--json").json["incident"] for i in listed]


def proofs(yaffle: Server) -> list[dict[str, Any]]:
    """Return every proof on record."""
    return [proof for incident in shown(yaffle) for proof in incident.get("proofs", ())]


def steps(yaffle: Server) -> list[dict[str, Any]]:
    """Return every step on record."""
    return [step for incident in shown(yaffle) for step in incident.get("steps", ())]


def made_anew(world: World, yaffle: Server, before: dict[str, str]) -> bool:
    """Whether every node is well and has another copy, where hosts are alive."""
    now = nodes(yaffle)
    if any(n["health"] != "healthy" or n["physical_id"] == before[n["name"]] for n in now):
        return False
    return {world.cloud.show(n["physical_id"]).host for n in now} == {LEFT}


def test_six_servers_of_a_killed_host_are_made_anew_once_it_is_proved_off(
    broken_admin_world: World, yaffle: Server, tmp_path: Path
) -> None:
    world = broken_admin_world
    recreate = [{"name": "RECREATE", "timeout": 120}]
    before = cluster(world, yaffle, size=SIX, actions=recreate)
    world.cloud.lab.kill_host(LOST)
    wait_for(lambda: made_anew(world, yaffle, before), within_s=WITHIN_S)
    assert (tmp_path / "power").read_text() == "off"
    assert world.cloud.lab.host_states()[LOST] == "down"
    found = proofs(yaffle)
    fences = [p for p in found if p["method"].startswith("fence_scripted")]
    # One rung for each: no attempt was in vain, and none spent of what all share.
    assert len(fences) == SIX
    assert {f"host {LOST}, plug 2" in p["evidence"] for p in fences} == {True}
    assert not any(p["waived"] for p in found)


def frozen(world: World) -> None:
    """Have Nova lose a host whose guests run on."""
    world.cloud.lab.freeze(f"nova-compute-{LOST}")


def called_down(world: World) -> None:
    """Have an administrator tell Nova that a host is dead, which reports on."""
    api = world.cloud.lab.api
    (found,) = api.get("compute", f"/os-services?host={LOST}&binary=nova-compute")["services"]
    api.call("PUT", "compute", f"/os-services/{found['id']}", {"forced_down": True})


def left_running(folder: Path) -> list[int]:
    """Return what still runs of the agent."""
    pids = {int(line.split()[2]) for line in (folder / "calls").read_text().splitlines()}
    return [pid for pid in pids if Path(f"/proc/{pid}").exists()]


HANGS = {"wait": 3600}


@pytest.mark.parametrize(
    ("plan", "lost"),
    [
        pytest.param({"off": {"ignore": True}}, frozen, id="says that all is done, and is on"),
        pytest.param({"status": HANGS}, frozen, id="hangs when it is asked how it is"),
        pytest.param({"off": HANGS}, frozen, id="hangs when it is to switch off"),
        pytest.param(
            {"status": {"exit": 2, "print": "Status: OFF"}}, called_down, id="always says off"
        ),
    ],
)
def test_no_copy_is_made_on_the_word_of_a_switch_that_does_not_switch(
    broken_admin_world: World,
    yaffle: Server,
    tmp_path: Path,
    plan: dict[str, Any],
    lost: Callable[[World], None],
) -> None:
    """Of 2 servers 0 are touched, whatever their host's agent says, or does not say."""
    world = broken_admin_world
    recreate = [{"name": "RECREATE", "timeout": 60}]
    before = cluster(world, yaffle, size=2, actions=recreate)
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    lost(world)

    def tried() -> list[dict[str, Any]]:
        return [s for s in steps(yaffle) if (s["stage"], s["result"]) == ("fence", "unproved")]

    (first, *_) = wait_for(tried, within_s=WITHIN_S)
    assert "plug 2" in first["detail"], first
    assert {n["name"]: n["physical_id"] for n in nodes(yaffle)} == before
    assert set(world.cloud.lab.guests_of(LOST)) >= set(before.values())
    assert set(world.cloud.lab.servers_of(world.cloud.credentials.project_id)) == set(
        before.values()
    )
    yaffle.ok("stop", "--all", "--reason", "the agent is looked at", "--for", "5m")
    wait_for(lambda: not left_running(tmp_path), within_s=WITHIN_S)
    world.cloud.lab.thaw(f"nova-compute-{LOST}")


CONSENT: dict[str, Any] = {
    "fencing": [],
    "node_force_recreate": True,
    "node_delete_timeout": 10,
    "actions": [{"name": "RECREATE", "timeout": 120}],
}


def gone(world: World, yaffle: Server, before: dict[str, str]) -> bool:
    """Whether of the old copies none is left, in Nova or on the host that they were on."""
    project = world.cloud.credentials.project_id
    left = set(world.cloud.lab.servers_of(project)) | set(world.cloud.lab.guests_of(LOST))
    return not left & set(before.values())


def test_consent_makes_another_copy_though_the_old_one_may_run_and_that_is_deleted_later(
    broken_admin_world: World, yaffle: Server
) -> None:
    world = broken_admin_world
    before = cluster(world, yaffle, size=1, **CONSENT)
    with world.cloud.lab.frozen(f"nova-compute-{LOST}"):
        wait_for(lambda: made_anew(world, yaffle, before), within_s=WITHIN_S)
        assert set(world.cloud.lab.guests_of(LOST)) >= set(before.values())
        (waived,) = (p for p in proofs(yaffle) if p["waived"])
        assert f"its host {LOST} is down" in waived["evidence"]
    wait_for(lambda: gone(world, yaffle, before), within_s=WITHIN_S)


def test_a_person_may_consent_where_a_living_host_does_not_end_a_guest(
    broken_admin_world: World, yaffle: Server
) -> None:
    world = broken_admin_world
    recreate = [{"name": "RECREATE", "timeout": 120}]
    before = cluster(world, yaffle, size=1, fencing=[], actions=recreate)
    (name,) = before
    with world.cloud.lab.slow(LOST, "destroy", 3600):
        closed(world.cloud, LOST, to_new=True)
        words = ("--operation", "RECREATE", "--delete-timeout", "10", "--force-recreate")
        yaffle.ok("node", "recover", name, *words)
        assert made_anew(world, yaffle, before)
        assert set(world.cloud.lab.guests_of(LOST)) >= set(before.values())
    assert any(p["waived"] for p in proofs(yaffle))
