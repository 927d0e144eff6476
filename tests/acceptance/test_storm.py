"""Sixteen clients want ten clusters to do different things at once: afterwards nothing is stuck.

`YAFFLE_ACCEPTANCE_STORM_S=300` storms longer; `YAFFLE_ACCEPTANCE_SEED` makes other weather.
"""

from __future__ import annotations

import collections
import contextlib
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from sqlalchemy import create_engine
from tests.acceptance.rig import UNFINISHED, Api, Server, serving
from tests.acceptance.world import World
from tests.waiting import wait_for

from yaffle.store.dialects import place_of

SECONDS = float(os.environ.get("YAFFLE_ACCEPTANCE_STORM_S") or 20)
SEED = int(os.environ.get("YAFFLE_ACCEPTANCE_SEED") or 1)
CLIENTS = 16
CLUSTERS = 10
MOST = 4
SETTLED_S = 180
ALLOWED = {200, 202, 204, 400, 404, 409}


@dataclass
class Storm:
    """What all clients share: the clusters by slot, and what came back."""

    root: str
    profiles: list[str]
    policies: list[str]
    until: float
    slots: list[str] = field(default_factory=list)
    statuses: collections.Counter[tuple[str, int]] = field(default_factory=collections.Counter)
    wrong: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)


class Client(threading.Thread):
    """Does one random thing after the other until the storm is over."""

    def __init__(self, storm: Storm, number: int) -> None:
        super().__init__(daemon=True)
        self.storm = storm
        self.dice = random.Random(SEED * 1000 + number)
        self.api = Api(storm.root)

    def run(self) -> None:
        verbs = [getattr(self, name) for name in dir(self) if name.startswith("do_")]
        with contextlib.closing(self.api):
            while time.monotonic() < self.storm.until:
                verb = self.dice.choice(verbs)
                try:
                    verb()
                except (httpx.HTTPError, AssertionError, KeyError, ValueError) as error:
                    with self.storm.lock:
                        self.storm.wrong.append(f"{verb.__name__}: {error!r}"[:2000])
                time.sleep(self.dice.uniform(0, 0.1))

    def ask(self, method: str, path: str, *body: Any) -> Any:
        answer = self.api.ask(method, path, *body)
        what = f"{method} {path.partition('/')[0]} {next(iter(body[0]), '') if body else ''}"
        with self.storm.lock:
            self.storm.statuses[what, answer.status] += 1
            if answer.status not in ALLOWED:
                self.storm.wrong.append(str(answer))
        return answer.json if answer.text and answer.kind == "application/json" else None

    def cluster(self) -> str:
        return f"clusters/{self.dice.choice(self.storm.slots)}"

    def node(self) -> str | None:
        found = self.ask("GET", "nodes?limit=50")["nodes"]
        return f"nodes/{self.dice.choice(found)['id']}" if found else None

    def act(self, verb: str, data: Any) -> None:
        self.ask("POST", f"{self.cluster()}/actions", {verb: data})

    def do_scale_out(self) -> None:
        self.act("scale_out", {"count": self.dice.randint(1, 3)})

    def do_scale_in(self) -> None:
        self.act("scale_in", {"count": self.dice.randint(1, 3)})

    def do_resize(self) -> None:
        number = self.dice.randint(0, MOST)
        self.act("resize", {"adjustment_type": "EXACT_CAPACITY", "number": number})

    def do_check(self) -> None:
        self.act("check", {})

    def do_recover(self) -> None:
        operation = self.dice.choice(["REBOOT", "REBUILD", "RECREATE"])
        self.act("recover", {"operation": operation, "check": self.dice.random() < 0.5})

    def do_attach(self) -> None:
        self.act("policy_attach", {"policy_id": self.dice.choice(self.storm.policies)})

    def do_detach(self) -> None:
        self.act("policy_detach", {"policy_id": self.dice.choice(self.storm.policies)})

    def do_update(self) -> None:
        change = {"profile_id": self.dice.choice(self.storm.profiles)}
        self.ask("PATCH", self.cluster(), {"cluster": change})

    def do_operate(self) -> None:
        self.ask("POST", f"{self.cluster()}/ops", {"reboot": {"params": {"type": "HARD"}}})

    def do_replace_the_cluster(self) -> None:
        slot = self.dice.randrange(CLUSTERS)
        old = self.storm.slots[slot]
        force = "?force=true" if self.dice.random() < 0.5 else ""
        self.ask("DELETE", f"clusters/{old}{force}")
        body = {
            "name": f"storm-{slot}",
            "profile_id": self.dice.choice(self.storm.profiles),
            "desired_capacity": self.dice.randint(0, 3),
            "max_size": MOST,
        }
        made = self.ask("POST", "clusters", {"cluster": body})
        if made and "cluster" in made:
            self.storm.slots[slot] = made["cluster"]["id"]

    def do_cancel(self) -> None:
        found = self.ask("GET", "actions?status=RUNNING&status=WAITING&status=READY&limit=20")
        if found["actions"]:
            action = self.dice.choice(found["actions"])["id"]
            force = "?force=true" if self.dice.random() < 0.3 else ""
            self.ask("PATCH", f"actions/{action}{force}", {"action": {"status": "CANCELLED"}})

    def do_node(self) -> None:
        if node := self.node():
            verb = self.dice.choice(["check", "recover"])
            self.ask("POST", f"{node}/actions", {verb: {}})

    def do_node_operation(self) -> None:
        if node := self.node():
            self.ask("POST", f"{node}/ops", {"reboot": {"type": "HARD"}})

    def do_delete_node(self) -> None:
        if node := self.node():
            self.ask("DELETE", node)

    def do_list(self) -> None:
        for noun in ("clusters", "actions?limit=10", "events?limit=10"):
            self.ask("GET", noun)


@pytest.fixture(scope="module")
def place(
    tmp_path_factory: pytest.TempPathFactory, database_url: Callable[[], str]
) -> Iterator[World]:
    """A server of its own, for nobody else shall stand in the rain."""
    with serving(tmp_path_factory.mktemp("storm"), database=database_url()) as server:
        api = Api(server.root)
        yield World(api, server)
        api.close()


def unfinished(api: Api) -> list[Any]:
    query = "&".join(f"status={status}" for status in sorted(UNFINISHED))
    return list(api.get(f"actions?{query}")["actions"])


def settle(api: Api) -> None:
    """Wait until each action has an end, or say which has none."""
    wait_for(
        lambda: not unfinished(api),
        within_s=SETTLED_S,
        every_s=0.2,
        why=lambda: f"unfinished: {unfinished(api)}",
    )


def locks(server: Server) -> list[Any]:
    """Read the locks where they are, and change nothing."""
    engine = create_engine(place_of(server.database).url)
    query = "SELECT id, action, status, lock_key FROM actions WHERE lock_key IS NOT NULL"
    try:
        with engine.connect() as conn:
            return list(conn.exec_driver_sql(query))
    finally:
        engine.dispose()


@pytest.mark.timeout(int(SECONDS) + 400)
def test_a_storm_leaves_nothing_behind(place: World) -> None:
    api = place.api
    policies = [
        place.policy("senlin.policy.deletion-1.0", {"criteria": "OLDEST_FIRST"})["id"],
        place.policy("senlin.policy.batch-1.0")["id"],
        place.policy("senlin.policy.scaling-1.0")["id"],
    ]
    profiles = [place.profile()["id"] for _ in range(2)]
    storm = Storm(api.root, profiles, policies, 0)
    made = [place.asked_cluster(2, max_size=MOST, profile_id=profiles[0]) for _ in range(CLUSTERS)]
    for cluster, answer in made:
        api.ended(answer)
        storm.slots.append(cluster["id"])

    storm.until = time.monotonic() + SECONDS
    clients = [Client(storm, number) for number in range(CLIENTS)]
    for client in clients:
        client.start()
    for client in clients:
        client.join(SECONDS + 90)
        assert not client.is_alive(), "a request without an end"
    began = time.monotonic()
    settle(api)
    total = sum(storm.statuses.values())
    print(f"\n{total} requests, seed {SEED}; settled in {time.monotonic() - began:.1f} s")
    for (what, status), count in sorted(storm.statuses.items()):
        print(f"  {count:5} {status} {what}")

    assert not storm.wrong, f"{len(storm.wrong)} wrong answers:\n" + "\n\n".join(storm.wrong[:5])
    assert locks(place.server) == []
    check_facts(place)
    check_that_everything_can_go(place)


def check_facts(place: World) -> None:
    """Members, sizes and processes agree with each other."""
    api = place.api
    nodes = {node["id"]: node for node in api.get("nodes")["nodes"]}
    for cluster in api.get("clusters")["clusters"]:
        members = {i for i, node in nodes.items() if node["cluster_id"] == cluster["id"]}
        assert set(cluster["nodes"]) == members, cluster
        assert 0 <= cluster["desired_capacity"] <= MOST, cluster
        assert len(members) <= max(MOST, cluster["desired_capacity"]), cluster
        active = sum(nodes[i]["status"] == "ACTIVE" for i in members)
        if cluster["status"] == "ACTIVE":
            assert active >= cluster["desired_capacity"], cluster
        assert cluster["status"] in {"ACTIVE", "WARNING", "ERROR", "CRITICAL", "INIT"}, cluster
        indexes = [nodes[i]["index"] for i in members]
        assert len(set(indexes)) == len(indexes), cluster
    stuck = [
        node
        for node in nodes.values()
        if node["status"].endswith("ING") and node["status"] != "WARNING"
    ]
    assert not stuck, stuck
    running = collections.Counter(place.server.living().values())
    assert all(count == 1 for count in running.values()), running
    assert set(running) <= set(nodes), "processes of nodes that are no more"


def check_that_everything_can_go(place: World) -> None:
    api = place.api
    for cluster in api.get("clusters")["clusters"]:
        api.delete(f"clusters/{cluster['id']}", want=(202, 409))
    settle(api)
    assert api.get("clusters")["clusters"] == []
    for node in api.get("nodes")["nodes"]:
        api.delete(f"nodes/{node['id']}")
    settle(api)
    assert api.get("nodes")["nodes"] == []
    assert place.server.living() == {}
    assert locks(place.server) == []
