"""What an operator does in a night, over a real socket against real processes."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest
from tests.functional.api.live import POLICY, Live, pid_of
from tests.waiting import wait_for

OBSERVE = POLICY.replace("  recovery:\n", "  recovery:\n    mode: observe\n")


@pytest.fixture(scope="module")
def described(healing: Live) -> Live:
    healing.profile("sleeper")
    healing.policy("heal", POLICY)
    healing.policy("observe", OBSERVE)
    return healing


def cluster(live: Live, name: str, size: int, policy: str = "heal") -> dict[str, dict[str, object]]:
    """Create a cluster, wait until all its nodes are healthy, and return them by name."""
    live.cluster(name, "sleeper", size, policy)
    found = live.until(f"/clusters/{name}", lambda a: a["cluster"]["health"]["healthy"] == size)
    return {node["name"]: node for node in found["cluster"]["nodes"]}


def held(live: Live, node: str, reason: str) -> dict[str, Any]:
    """Wait until that reason holds the node; return the hold."""
    found: dict[str, Any] = live.until(
        f"/nodes/{node}/why", lambda a: (a["why"]["held"] or {}).get("reason") == reason
    )
    return found["why"]


@pytest.fixture
def web(request: pytest.FixtureRequest) -> str:
    """A cluster's name of this test's own."""
    return str(request.node.name.removeprefix("test_")[:20])


def test_a_killed_node_is_healed_and_the_incident_tells_every_step(
    described: Live, web: str
) -> None:
    node = cluster(described, web, 1)[f"{web}-1"]
    os.kill(pid_of(node), signal.SIGKILL)
    ended = described.until(
        f"/incidents?node={web}-1",
        lambda a: a["incidents"] and a["incidents"][0]["state"] == "recovered",
    )
    ident = ended["incidents"][0]["id"]
    incident = described.call("GET", f"/incidents/{ident[:8]}")["incident"]
    assert [s["stage"] for s in incident["steps"]] == ["look", "delete", "create", "verify"]
    times = incident["timeline_ms"]
    order = [times[k] for k in ("failed", "detected", "decided", "started", "recovered")]
    assert order == sorted(order)
    assert order[0] == 0.0
    assert all(s["took_ms"] is not None and s["at_ms"] > 0 for s in incident["steps"])
    assert incident["proofs"][0]["method"] == "delete-confirmed"
    well = f"{web}-1 (cluster {web}) is healthy since "
    answer = described.until(f"/nodes/{web}-1/why", lambda a: a["why"]["lines"][0].startswith(well))
    # By one answer: the next look may have come too late.
    up = [("0:NODE_STATUS_POLLING", "up", "ST-UP")]
    answer = described.until(
        f"/nodes/{web}-1/why",
        lambda a: [(m["mode"], m["belief"], m["code"]) for m in a["why"]["modes"]] == up,
    )
    lines = answer["why"]["lines"]
    assert any(
        line.startswith(f"Incident {ident[:8]}: recovered; gone: detected") for line in lines
    )
    # It rests: the bound would not be kept.
    assert any(line.startswith("Attempts used: 1 of ") and "it backs off" in line for line in lines)
    assert not any("At worst" in line for line in lines)


def test_a_mark_holds_against_every_check_until_it_is_lifted(described: Live, web: str) -> None:
    cluster(described, web, 1, policy="observe")
    path = f"/nodes/{web}-1"
    with described.client(headers={"X-Yaffle-User": "mara"}) as client:
        marked = client.post(f"/yaffle/v1{path}/mark", json={"reason": "its disk clicks"})
    assert marked.json()["node"]["mark"]["by"] == "mara"
    why = held(described, f"{web}-1", "observe-mode")
    assert "RECREATE" in why["held"]["sentence"]
    assert why["held"]["runbook"] == "docs/runbook/observe-mode.md"
    assert any("mara marked it unhealthy" in line for line in why["lines"])
    unwell = described.call("GET", f"/nodes?cluster={web}&attention=true")
    assert [node["name"] for node in unwell["nodes"]] == [f"{web}-1"]
    assert unwell["total"] >= 1
    shown = described.call("GET", path)["node"]
    assert shown["health"] == "unhealthy"
    assert shown["status"] == "WARNING"
    described.call("DELETE", f"{path}/mark", {"reason": "new disk", "by": "mara"})
    well = described.until(path, lambda a: a["node"]["health"] == "healthy")["node"]
    # It was never sick, so it did not get well either.
    (incident,) = described.call("GET", f"/incidents?node={web}-1")["incidents"]
    assert incident["reason"] == "the mark was lifted, and its checks pass"
    assert well["status_reason"] == incident["reason"]
    described.until(f"/nodes?cluster={web}&attention=true", lambda a: a["nodes"] == [])


def test_maintenance_and_stop_hold_until_they_are_lifted(described: Live, web: str) -> None:
    node = cluster(described, web, 1)[f"{web}-1"]
    work = described.call(
        "POST",
        "/maintenance",
        {"scope": "cluster", "target": web, "reason": "new rack", "for_s": 600, "by": "mara"},
        want=201,
    )["maintenance"]
    stop = described.call("POST", "/stop", {"reason": "the network is cut"}, want=201)["stop"]
    assert (stop["owner"], stop["scope"]) == ("local user", "all")
    # Also of a node that is well: no bound is promised that nobody would keep.
    lines = described.call("GET", f"/nodes/{web}-1/why")["why"]["lines"]
    assert lines[-1].endswith("while this is in force: stop by local user: the network is cut")
    assert not any("At worst" in line for line in lines)
    os.kill(pid_of(node), signal.SIGKILL)
    found = held(described, f"{web}-1", "stopped")["held"]
    assert found["sentence"] == "local user stopped all healing: the network is cut."
    assert described.call("GET", "/stop")["stopped"] is True
    assert described.call("DELETE", "/stop") == {"lifted": 1}
    found = held(described, f"{web}-1", "maintenance")["held"]
    assert found["sentence"] == "mara has planned work here (scope cluster): new rack."
    assert found["until_us"] == work["expires_us"]
    listed = described.call("GET", "/maintenance")["maintenance"]
    assert [(m["target"], m["in_force"]) for m in listed] == [(web, True)]
    described.call("DELETE", f"/maintenance/{work['id'][:8]}", want=204)
    described.until(f"/nodes/{web}-1", lambda a: a["node"]["status"] == "ACTIVE")
    past = described.call("GET", "/maintenance?all=true")["maintenance"]
    assert past[0]["lifted_by"] == "local user"


def test_a_storm_holds_until_an_operator_releases_it(described: Live, web: str) -> None:
    nodes = cluster(described, web, 3)
    # Stopped for so long, or one might be healed before the next is killed.
    described.call("POST", "/stop", {"reason": "all at once"}, want=201)
    for node in nodes.values():
        os.kill(pid_of(node), signal.SIGKILL)
    described.until(f"/clusters/{web}", lambda a: a["cluster"]["health"]["unhealthy"] == 3)
    described.call("DELETE", "/stop")
    shown = described.until(
        f"/clusters/{web}", lambda a: a["cluster"]["holds"].get("storm", 0) == 3
    )
    why = held(described, f"{web}-3", "storm")
    assert "the storm limit holds above 1." in why["held"]["sentence"]
    assert f"yaffle cluster release {web}" in why["held"]["advice"]
    assert shown["cluster"]["released_until_us"] is None
    body = {"reason": "the test killed them", "for_s": 60}
    released = described.call("POST", f"/clusters/{web}/release", body)["cluster"]
    assert released["released_until_us"] > 0
    described.until(
        f"/clusters/{web}", lambda a: a["cluster"]["health"]["healthy"] == 3, within_s=120
    )


def test_a_person_may_ask_for_a_recovery_and_for_deletion(described: Live, web: str) -> None:
    before = cluster(described, web, 2)
    body = {"recover": {"operation": "RECREATE"}}
    with described.client({"X-Yaffle-User": "mara"}) as client:
        asked = client.post(f"/v1/nodes/{web}-1/actions", json=body).json()["action"]
    done = described.until(
        f"/actions?node={web}-1", lambda a: a["actions"][0]["status"] == "SUCCEEDED"
    )["actions"][0]
    assert done["id"] == asked
    assert (done["by"], done["action"]) == ("mara", "NODE_RECOVER")
    after = described.until(
        f"/nodes/{web}-1", lambda a: a["node"]["physical_id"] != before[f"{web}-1"]["physical_id"]
    )
    assert after["node"]["id"] == before[f"{web}-1"]["id"]
    described.drop("node", f"{web}-2")
    described.until(f"/nodes?cluster={web}", lambda a: len(a["nodes"]) == 1)
    assert described.call("GET", f"/clusters/{web}")["cluster"]["desired_capacity"] == 1
    events = described.call("GET", f"/events?node={web}-1&limit=1000")["events"]
    assert [e["user"] for e in events if e["action"] == "NODE_RECOVER"] == ["mara"]
    assert [e["seq"] for e in events] == sorted(e["seq"] for e in events)


def test_the_doctor_finds_a_working_service_well(described: Live) -> None:
    report = described.until(
        "/doctor", lambda a: not [c for c in a["checks"] if c["status"] == "fail"]
    )
    names = {check["name"] for check in report["checks"]}
    assert {
        "database",
        "engine",
        "prober",
        "clock",
        "watching",
        "never seen",
        "notifications",
    } <= names
    with described.client() as client:
        wait_for(lambda: client.get("/health").json()["status"] == "pass")
        assert b"yaffle_nodes" in client.get("/metrics").content
