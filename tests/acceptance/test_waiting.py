"""Who waits for whom: conflicts, locks, cool-down, time-outs, hooks, batches."""

from __future__ import annotations

import http.server
import json
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.acceptance.rig import UNFINISHED, action_of
from tests.acceptance.world import World
from tests.waiting import wait_for

BUSY = ("ResourceIsLocked", "ActionConflict")


@contextmanager
def busy(world: World) -> Iterator[tuple[str, str]]:
    """Yield a cluster and the action that keeps it busy until the block ends."""
    cluster = world.cluster(1, profile_id=world.stubborn())["id"]
    with world.held():
        yield (
            cluster,
            action_of(
                world.api.post(f"clusters/{cluster}/ops", {"reboot": {"params": {"type": "SOFT"}}})
            ),
        )


# --- conflicts ----------------------------------------------------------------------------------------

VERBS: list[tuple[str, Any]] = [
    ("scale_out", {"count": 1}),
    ("scale_in", {}),
    ("resize", {"adjustment_type": "EXACT_CAPACITY", "number": 2}),
    ("check", {}),
    ("recover", {}),
]


def test_a_busy_cluster_refuses_every_other_action(world: World) -> None:
    policy = world.policy("senlin.policy.batch-1.0")["id"]
    orphan = world.node()["id"]
    more = [("policy_attach", {"policy_id": policy}), ("add_nodes", {"nodes": [orphan]})]
    with busy(world) as (cluster, first):
        for verb, data in VERBS + more:
            said = world.api.refused(
                "POST", f"clusters/{cluster}/actions", {verb: data}, status=409, kind=BUSY
            )
            answer = world.api.exchanges[-1]
            if answer.json["error"]["type"] == "ActionConflict":
                name = {"policy_attach": "ATTACH_POLICY"}.get(verb, verb.upper())
                assert said == (
                    f"The CLUSTER_{name} action for target {cluster} conflicts with the following"
                    f" action(s): {first}"
                )
        change = {"cluster": {"name": "other"}}
        world.api.refused("PATCH", f"clusters/{cluster}", change, status=409, kind=BUSY)
        body = {"reboot": {}}
        world.api.refused("POST", f"clusters/{cluster}/ops", body, status=409, kind=BUSY)
        assert world.api.action(first)["status"] in UNFINISHED
    world.api.ended(first)
    world.acted(cluster, "check", {})


def test_a_busy_node_refuses(world: World) -> None:
    node = world.node(profile_id=world.stubborn())["id"]
    with world.held():
        first = action_of(world.api.post(f"nodes/{node}/ops", {"reboot": {"type": "SOFT"}}))
        for body in ({"check": {}}, {"recover": {}}):
            world.api.refused("POST", f"nodes/{node}/actions", body, status=409, kind=BUSY)
        change = {"node": {"name": "other"}}
        world.api.refused("PATCH", f"nodes/{node}", change, status=409, kind=BUSY)
        # An operation is not kept back by the queueing rule, and waits or fails by itself.
        second = world.api.post(f"nodes/{node}/ops", {"reboot": {}}, want=(202, 409))
    world.api.ended(first)
    if second.status == 202:
        world.api.ended(second, want=None)
    world.api.ended(world.api.post(f"nodes/{node}/actions", {"check": {}}))


def test_delete_steals_the_lock_of_a_cluster(world: World) -> None:
    with busy(world) as (cluster, first):
        answer = world.api.delete(f"clusters/{cluster}?force=true")
    world.api.ended(answer)
    world.api.gone(f"clusters/{cluster}")
    assert world.api.ended(first, want=None)["status"] in {"CANCELLED", "FAILED", "SUCCEEDED"}


def test_a_cluster_that_is_being_deleted(world: World) -> None:
    path = f"clusters/{world.cluster(1, profile_id=world.stubborn())['id']}"
    with world.held():
        first = world.api.delete(path)
        world.api.until(path, lambda found: found["status"] == "DELETING")
        world.api.refused("DELETE", path, status=409, kind="ActionInProgress")
        world.api.refused("POST", f"{path}/actions", {"check": {}}, status=409, kind=None)
        second = world.api.delete(f"{path}?force=true")
    world.api.gone(path)
    for answer in (first, second):
        world.api.ended(answer, want=None)


def test_a_node_that_is_being_deleted(world: World) -> None:
    path = f"nodes/{world.node(profile_id=world.stubborn())['id']}"
    with world.held():
        world.api.delete(path)
        world.api.until(path, lambda found: found["status"] == "DELETING")
        world.api.refused("DELETE", path, status=409, kind="ActionInProgress")
        world.api.ask("DELETE", path, {"force": True}, want=202)
    world.api.gone(path)


def test_a_recovering_node_is_deleted_by_force_alone(world: World) -> None:
    path = f"nodes/{world.node(profile_id=world.stubborn())['id']}"
    body = {"recover": {"operation": "REBOOT", "operation_params": {"type": "SOFT"}}}
    with world.held():
        world.api.post(f"{path}/actions", body)
        world.api.until(path, lambda found: found["status"] == "RECOVERING")
        world.api.refused("DELETE", path, status=409, kind="ActionInProgress")
        world.api.delete(f"{path}?force=true")
    world.api.gone(path)


# --- time-outs ----------------------------------------------------------------------------------------


def test_an_action_ends_with_its_timeout(world: World) -> None:
    cluster = world.cluster(1, profile_id=world.stubborn())["id"]
    world.api.ended(world.api.patch(f"clusters/{cluster}", {"cluster": {"timeout": 1}}))
    # What it waits for never comes: only its time ends it.
    with world.held():
        body = {"reboot": {"params": {"type": "SOFT"}}}
        answer = world.api.post(f"clusters/{cluster}/ops", body)
        action = world.api.ended(answer, want="FAILED")
    assert action["timeout"] == 1
    # A lock must not outlive it for ever.
    wait_for(
        lambda: world.api.ask("POST", f"clusters/{cluster}/actions", {"check": {}}).status == 202
    )


# --- scaling policy and cool-down ---------------------------------------------------------------------


def scaling(event: str, kind: str, number: float, **more: Any) -> dict[str, Any]:
    return {
        "event": event,
        "adjustment": {"type": kind, "number": number, "cooldown": 0, **more},
    }


@pytest.mark.parametrize(
    ("start", "verb", "properties", "after"),
    [
        (1, "scale_out", scaling("CLUSTER_SCALE_OUT", "CHANGE_IN_CAPACITY", 2), 3),
        (3, "scale_in", scaling("CLUSTER_SCALE_IN", "CHANGE_IN_CAPACITY", 2), 1),
        (2, "scale_out", scaling("CLUSTER_SCALE_OUT", "CHANGE_IN_PERCENTAGE", 50), 3),
        (2, "scale_out", scaling("CLUSTER_SCALE_OUT", "EXACT_CAPACITY", 3), 3),
        (
            1,
            "scale_out",
            scaling("CLUSTER_SCALE_OUT", "CHANGE_IN_CAPACITY", 9, best_effort=True),
            3,
        ),
        (
            1,
            "scale_out",
            scaling("CLUSTER_SCALE_OUT", "CHANGE_IN_PERCENTAGE", 10, min_step=2),
            3,
        ),
        # A policy of the other direction has no say.
        (1, "scale_out", scaling("CLUSTER_SCALE_IN", "CHANGE_IN_CAPACITY", 2), 2),
    ],
)
def test_the_scaling_policy_says_how_many(
    world: World, start: int, verb: str, properties: Any, after: int
) -> None:
    cluster = world.cluster(start, max_size=3)["id"]
    world.attached(cluster, "senlin.policy.scaling-1.0", properties)
    world.acted(cluster, verb, {})
    found = world.api.get(f"clusters/{cluster}")["cluster"]
    assert (found["desired_capacity"], len(found["nodes"])) == (after, after)


def test_a_count_beats_the_policy(world: World) -> None:
    cluster = world.cluster(1, max_size=9)["id"]
    properties = scaling("CLUSTER_SCALE_OUT", "CHANGE_IN_CAPACITY", 5)
    world.attached(cluster, "senlin.policy.scaling-1.0", properties)
    world.acted(cluster, "scale_out", {"count": 1})
    assert world.api.get(f"clusters/{cluster}")["cluster"]["desired_capacity"] == 2


def test_cool_down(world: World) -> None:
    cluster = world.cluster(0)["id"]
    properties = scaling("CLUSTER_SCALE_OUT", "CHANGE_IN_CAPACITY", 1, cooldown=3600)
    policy = world.attached(cluster, "senlin.policy.scaling-1.0", properties)["id"]
    world.acted(cluster, "scale_out", {})
    path = f"clusters/{cluster}/actions"
    world.api.refused("POST", path, {"scale_out": {}}, status=409, kind="ActionCooldown")
    (binding,) = world.api.get(f"clusters/{cluster}/policies")["cluster_policies"]
    assert binding["last_op"]
    # The other direction is not meant, and a policy that is off says nothing.
    world.acted(cluster, "scale_in", {})
    world.acted(cluster, "policy_update", {"policy_id": policy, "enabled": False})
    world.acted(cluster, "scale_out", {})


def test_a_short_cool_down_passes(world: World) -> None:
    cluster = world.cluster(0)["id"]
    properties = scaling("CLUSTER_SCALE_OUT", "CHANGE_IN_CAPACITY", 1, cooldown=2)
    world.attached(cluster, "senlin.policy.scaling-1.0", properties)
    world.acted(cluster, "scale_out", {})
    wait_for(
        lambda: (
            world.api.ask("POST", f"clusters/{cluster}/actions", {"scale_out": {}}).status == 202
        ),
        every_s=0.2,
    )


# --- deletion policy ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("criteria", "gone"), [("OLDEST_FIRST", 0), ("YOUNGEST_FIRST", -1), ("RANDOM", None)]
)
def test_criteria(world: World, criteria: str, gone: int | None) -> None:
    cluster = world.cluster(0)["id"]
    for _ in range(3):
        world.acted(cluster, "scale_out", {"count": 1})
    world.attached(
        cluster,
        "senlin.policy.deletion-1.0",
        {"criteria": criteria, "destroy_after_deletion": True, "grace_period": 0},
    )
    before = [node["id"] for node in world.members(cluster)]
    world.acted(cluster, "scale_in", {"count": 1})
    after = [node["id"] for node in world.members(cluster)]
    assert len(after) == 2
    if gone is not None:
        assert set(before) - set(after) == {before[gone]}


def test_the_tainted_go_first(world: World) -> None:
    cluster = world.cluster(3)["id"]
    middle = world.members(cluster)[1]["id"]
    world.api.ended(world.api.patch(f"nodes/{middle}", {"node": {"tainted": True}}))
    world.acted(cluster, "scale_in", {"count": 1})
    assert middle not in {node["id"] for node in world.members(cluster)}


def test_what_is_not_destroyed_becomes_an_orphan(world: World) -> None:
    cluster = world.cluster(1)["id"]
    node = world.members(cluster)[0]["id"]
    world.nodes.append(node)
    world.attached(
        cluster,
        "senlin.policy.deletion-1.0",
        {"criteria": "OLDEST_FIRST", "destroy_after_deletion": False},
    )
    world.acted(cluster, "scale_in", {"count": 1})
    found = world.api.get(f"nodes/{node}")["node"]
    assert (found["cluster_id"], found["index"], found["status"]) == ("", -1, "ACTIVE")
    assert node in world.server.living().values()


def test_the_grace_period_is_waited_for(world: World) -> None:
    cluster = world.cluster(1)["id"]
    world.attached(
        cluster,
        "senlin.policy.deletion-1.0",
        {"criteria": "OLDEST_FIRST", "destroy_after_deletion": True, "grace_period": 2},
    )
    action = world.acted(cluster, "scale_in", {"count": 1})
    assert action["end_time"] - action["start_time"] >= 2


# --- lifecycle hooks ----------------------------------------------------------------------------------


@contextmanager
def listening() -> Iterator[tuple[str, queue.Queue[Any]]]:
    """Listen for what a hook posts; yields the URL and what came."""
    heard: queue.Queue[Any] = queue.Queue()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            heard.put(json.loads(self.rfile.read(size) or b"null"))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/hook", heard
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


def hooked(world: World, url: str, timeout: int, size: int = 1) -> str:
    """Return a cluster whose nodes are not deleted before the hook was answered."""
    cluster = world.cluster(size)["id"]
    hooks = {"type": "webhook", "timeout": timeout, "params": {"url": url}}
    world.attached(
        cluster, "senlin.policy.deletion-1.1", {"criteria": "OLDEST_FIRST", "hooks": hooks}
    )
    return str(cluster)


@pytest.mark.parametrize("verb", ["scale_in", "resize", "del_nodes"])
def test_a_hook_is_asked_before_a_node_goes(world: World, verb: str) -> None:
    with listening() as (url, heard):
        cluster = hooked(world, url, 60)
        node = world.members(cluster)[0]["id"]
        data = {
            "scale_in": {"count": 1},
            "resize": {"adjustment_type": "EXACT_CAPACITY", "number": 0},
            "del_nodes": {"nodes": [node], "destroy_after_deletion": True},
        }[verb]
        answer = world.act(cluster, verb, data)
        message = heard.get(timeout=60)
        assert message["node_id"] == node
        assert message["lifecycle_transition_type"] == "termination"
        token = message["lifecycle_action_token"]
        waiting = world.api.until(
            f"actions/{token}", lambda a: a["status"] == "WAITING_LIFECYCLE_COMPLETION"
        )
        assert waiting["cause"] == "Derived Action with Lifecycle Hook"
        assert waiting["target"] == node
        assert node in world.server.living().values()
        found = world.api.get("actions?status=WAITING_LIFECYCLE_COMPLETION")["actions"]
        assert token in {action["id"] for action in found}

        done = world.act(cluster, "complete_lifecycle", {"lifecycle_action_token": token})
        assert action_of(done) == token
        world.api.ended(answer)
        assert world.members(cluster) == []
        assert node not in world.server.living().values()
        body = {"complete_lifecycle": {"lifecycle_action_token": token}}
        again = world.api.ask("POST", f"clusters/{cluster}/actions", body)
        assert again.status in {202, 400, 404, 409}, again
        assert world.api.action(token)["status"] == "SUCCEEDED"


def test_a_hook_that_nobody_answers(world: World) -> None:
    with listening() as (url, heard):
        cluster = hooked(world, url, 2)
        action = world.acted(cluster, "scale_in", {"count": 1})
        assert heard.get(timeout=60)
        assert action["end_time"] - action["start_time"] >= 2
        assert world.members(cluster) == []


# --- batches ------------------------------------------------------------------------------------------


def test_batches_of_an_update(world: World) -> None:
    cluster = world.cluster(3)["id"]
    properties = {"min_in_service": 1, "max_batch_size": 1, "pause_time": 1}
    world.attached(cluster, "senlin.policy.batch-1.0", properties)
    change = {"cluster": {"profile_id": world.profile()["id"]}}
    action = world.api.ended(world.api.patch(f"clusters/{cluster}", change))
    updates = world.api.get(f"actions?cluster_id={cluster}&action=NODE_UPDATE")["actions"]
    assert len(updates) == 3
    times = sorted((item["start_time"], item["end_time"]) for item in updates)
    assert times[0][1] <= times[1][0]
    assert times[1][1] <= times[2][0]
    assert action["end_time"] - action["start_time"] >= 2
