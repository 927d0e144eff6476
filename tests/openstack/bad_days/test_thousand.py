"""A crowd of servers fails in one second: one incident of their host, or a guard; never a deletion.

In a real Nova, whose record is asked what anybody wanted done. Only how the servers came to be there
is not real: booting them takes an hour, so the rows of one are copied (`lab.openstack.crowd`).

`CROWD=998` says how many are copied of two; without it there are fewer, for Nova takes 5 ms of a core
to list each.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
from lab.openstack import crowd
from lab.openstack.catalog import grant
from tests.functional.cli.support import Server, wait_for
from tests.openstack.bad_days.gate import Gate, standing
from tests.openstack.bad_days.scenes import settings
from tests.openstack.cloud import Cloud
from tests.waiting import wait_until

COUNT: Final = int(os.environ.get("CROWD", "120"))
"""More than what the lab takes for a crowd."""
LOST, LEFT = "cmp2", "cmp1"
INTERVAL_S: Final = 15
IN_FLIGHT: Final = 4
POLICY: Final = {
    "type": "senlin.policy.health",
    "version": "1.3",
    "properties": {
        "detection": {
            "interval": INTERVAL_S,
            "node_update_timeout": 2 * INTERVAL_S,
            "rise": 1,
            "fall": 2,
            "recovery_conditional": "ANY_FAILED",
            "detection_modes": [
                {"type": "NODE_STATUS_POLLING"},
                {"type": "HYPERVISOR_STATUS_POLLING"},
            ],
        },
        "recovery": {
            "fencing": ["COMPUTE"],
            "actions": [{"name": "RECREATE", "timeout": 120}],
            "limits": {"max_unhealthy": "40%", "max_in_flight": IN_FLIGHT},
        },
    },
}
"""Whoever fails is deleted and made anew. Nothing but the guards is between that and all of them."""
PROPERTIES: Final = {"flavor": "lab.tiny", "image": "lab-image", "networks": "none"}
WITHIN_S: Final = 240.0
"""For a machine that does much else."""
OPEN: Final = "open_key IS NOT NULL"
GRIEF_S: Final = 20.0
"""How long a failure is left to Yaffle after it was found: a poll more, and what it may try by then."""


@dataclass(slots=True)
class Crowd:
    """A cluster of copies and the two servers that they are copies of, one on each host."""

    cloud: Cloud
    gate: Gate
    yaffle: Server
    models: dict[str, str]
    """The real server on each host."""
    copies: list[str]
    told: list[str] = field(default_factory=list)

    @property
    def servers(self) -> list[str]:
        """All of them."""
        return [*self.copies, *self.models.values()]

    def asked(self, query: str) -> list[tuple[Any, ...]]:
        """Return what Yaffle has stored: its lists come in pages, of which a poll would need thirty."""
        file = self.yaffle.state_dir / "yaffle.db"
        with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=30)) as database:
            return database.execute(query).fetchall()

    def healths(self) -> dict[str, int]:
        """Return how many nodes are well, and how many not."""
        return dict(self.asked("SELECT health, count(*) FROM nodes GROUP BY health"))

    def open_of_hosts(self) -> list[tuple[Any, ...]]:
        """Return the names and causes of the hosts whose failures go on."""
        return self.asked(f"SELECT node_name, cause FROM incidents WHERE {OPEN} AND node_id = ''")

    def open_of_nodes(self) -> dict[tuple[str, str | None], int]:
        """Return how many failures of nodes go on, by their state and by what holds them."""
        query = f"SELECT state, hold_reason, count(*) FROM incidents WHERE {OPEN} AND node_id != ''"
        found = self.asked(f"{query} GROUP BY state, hold_reason")
        return {(state, reason): count for state, reason, count in found}

    def well(self) -> bool:
        """Whether every node is healthy and no failure goes on."""
        return (
            self.healths() == {"healthy": len(self.servers)}
            and not self.open_of_hosts()
            and not self.open_of_nodes()
        )

    def timed(self, what: str, since_s: float, condition: Callable[[], Any]) -> Any:
        """Wait for a condition, and note how long after `since_s` it came true."""
        found = wait_for(condition, within_s=WITHIN_S, every_s=1.0)
        asked = [s for s in list(self.gate.seen) if s.at_s >= since_s and "/v3/" not in s.path]
        lists = sum(s.path.endswith("/servers/detail") for s in asked)
        self.told.append(
            f"{what}: {time.monotonic() - since_s:.0f} s, {len(asked)} requests to Nova,"
            f" {lists} of them lists of servers, {sum(s.writes for s in asked)} of them acts"
        )
        return found

    def told_why(self, reason: str) -> None:
        """Wait until a person who asks about one of them is told so."""
        ask = lambda: self.yaffle.ok("why", f"web-{COUNT // 2:04}").out  # noqa: E731
        wait_until(ask, lambda why: reason in why)

    def nobody_was_touched(self) -> None:
        """See in Nova's own record that nothing was asked for, and that all of them are there."""
        lab, project = self.cloud.lab, self.cloud.credentials.project_id
        assert crowd.acts(lab.plan, self.copies) == {}
        assert crowd.acts(lab.plan, list(self.models.values())) == {"create": len(self.models)}
        assert set(lab.servers_of(project)) == set(self.servers)
        assert self.gate.writes() == []


@pytest.fixture
def crowded(broken_cloud: Cloud, tmp_path: Path) -> Iterator[Crowd]:
    """The cluster, watched and well."""
    cloud, mine = broken_cloud, broken_cloud.credentials
    grant(cloud.lab.api, project=mine.project_id, user=mine.user_id, role="admin")
    with standing(cloud.lab) as gate, _crowded(cloud) as (models, dump):
        config = settings(cloud, gate, tmp_path)
        yaffle = Server(tmp_path / "state", flags=("--config", str(config)))
        try:
            yaffle.start()
            servers = [node["physical_id"] for node in dump["nodes"]]
            copies = [ident for ident in servers if ident not in models.values()]
            yield _taken_over(Crowd(cloud, gate, yaffle, models, copies), dump, tmp_path)
        finally:
            code = yaffle.stop(signal.SIGTERM) if yaffle.running is not None else 0
        assert code == 0, code


@contextmanager
def _crowded(cloud: Cloud) -> Iterator[tuple[dict[str, str], dict[str, Any]]]:
    """Give the real servers by their hosts, and what a Senlin would say of all; leave none behind."""
    plan = cloud.lab.plan
    models = {host: cloud.server(f"model-{host}", host=host) for host in (LEFT, LOST)}
    dump = _dump([*models.values(), *(str(uuid.uuid4()) for _ in range(COUNT))])
    copies = [
        crowd.Copy(
            id=node["physical_id"],
            name=node["name"],
            metadata={
                "cluster_id": node["cluster_id"],
                "cluster_node_id": node["id"],
                "cluster_node_index": str(node["index"]),
            },
        )
        for node in dump["nodes"]
    ]
    for copy in copies[: len(models)]:
        path = f"/servers/{copy.id}/metadata"
        cloud.api.call("POST", "compute", path, {"metadata": dict(copy.metadata)})
    copies = copies[len(models) :]
    try:
        crowd.add(plan, LOST, models[LOST], copies)
        yield models, dump
    finally:
        cloud.lab.repair()
        crowd.remove(plan, [copy.id for copy in copies])


def _dump(servers: list[str]) -> dict[str, Any]:
    """Return a cluster as Senlin's API would list it."""
    profile, policy, cluster = (str(uuid.uuid4()) for _ in range(3))
    spec = {"type": "os.nova.server", "version": "1.0", "properties": PROPERTIES}
    count = len(servers)
    nodes = [
        {
            "id": str(uuid.uuid4()),
            "name": f"web-{index:04}",
            "cluster_id": cluster,
            "profile_id": profile,
            "physical_id": server,
            "index": index,
            "status": "ACTIVE",
        }
        for index, server in enumerate(servers, 1)
    ]
    return {
        "profiles": [{"id": profile, "name": "web", "spec": spec}],
        "policies": [{"id": policy, "name": "care", "spec": POLICY}],
        "clusters": [
            {
                "id": cluster,
                "name": "web",
                "profile_id": profile,
                "desired_capacity": count,
                "next_index": count + 1,
                "status": "ACTIVE",
            }
        ],
        "nodes": nodes,
        "cluster_policies": [
            {"id": str(uuid.uuid4()), "cluster_id": cluster, "policy_id": policy, "enabled": True}
        ],
    }


def _taken_over(world: Crowd, dump: dict[str, Any], folder: Path) -> Crowd:
    """Have Yaffle take them over, as from a Senlin, and wait until it has seen that all are well."""
    file = folder / "senlin.json"
    file.write_text(json.dumps(dump))
    began_s = time.monotonic()
    world.yaffle.ok("import", "senlin", "--from", str(file), "--apply")
    world.timed("taken over and seen to be well", began_s, world.well)
    return world


@pytest.mark.timeout(900)
def test_a_crowd_that_fails_at_once_is_one_host_or_a_guard_and_never_deleted(
    crowded: Crowd,
) -> None:
    try:
        _host_dies(crowded)
        _all_are_errors(crowded)
    finally:
        print("\n".join(crowded.told))


def _host_dies(world: Crowd) -> None:
    """The host of all but one stands still; what was sent to it meanwhile it would do when it goes on."""
    lab = world.cloud.lab
    lab.freeze(f"nova-compute-{LOST}")
    stroke_s = time.monotonic()
    host = f"host {LOST}@{world.cloud.name}"

    world.timed(
        "host lost, all of its servers judged",
        stroke_s,
        lambda: (
            world.healths().get("unhealthy") == COUNT + 1
            and world.open_of_hosts() == [(host, "host-lost")]
        ),
    )
    time.sleep(GRIEF_S)
    world.told_why(host)
    assert world.open_of_hosts() == [(host, "host-lost")]
    assert not any(reason == "storm" for _, reason in world.open_of_nodes())
    world.nobody_was_touched()

    lab.thaw(f"nova-compute-{LOST}")
    world.timed("host back, all well", time.monotonic(), world.well)
    world.nobody_was_touched()


def _all_are_errors(world: Crowd) -> None:
    """Half of them were moved to the other host; then Nova says ERROR of all, in one statement."""
    plan = world.cloud.lab.plan
    moved = world.copies[: COUNT // 2]
    crowd.move(plan, moved, LEFT, world.models[LEFT])
    stroke_s = time.monotonic()
    crowd.put(plan, world.servers, state="error", power=crowd.RUNNING)

    everybody = {("held", "storm"): len(world.servers)}
    world.timed("all in ERROR, all held", stroke_s, lambda: world.open_of_nodes() == everybody)
    time.sleep(GRIEF_S)
    # A look that a busy machine was late with holds them for another reason until the next one.
    wait_for(lambda: world.open_of_nodes() == everybody, within_s=WITHIN_S)
    assert world.open_of_hosts() == []
    world.told_why("storm")
    world.nobody_was_touched()

    crowd.put(plan, world.servers, state="active", power=crowd.RUNNING)
    world.timed("all ACTIVE again, all well", time.monotonic(), world.well)
    world.nobody_was_touched()
