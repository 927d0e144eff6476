"""The openstacksdk drives the server as it drove Senlin, every verb, every way to connect."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import openstack
import pytest
from openstack import exceptions
from openstack.resource import Resource
from tests.acceptance.rig import Api, Server, fresh
from tests.acceptance.world import KIND, World, spec_of
from tests.waiting import wait_for

pytestmark = pytest.mark.filterwarnings("default")

NOW: dict[str, Any] = {"interval": 0.1, "wait": 120}


def connect(**how: Any) -> Any:
    """Connect with what is given here, never with what the machine has."""
    return openstack.connect(load_yaml_config=False, load_envvars=False, **how)


@pytest.fixture(scope="module")
def conn(server: Server) -> Iterator[Any]:
    """The connection that the contract recommends."""
    found = connect(auth_type="none", endpoint=server.root, clustering_default_microversion="1.14")
    yield found
    found.close()


@pytest.fixture
def cloud(conn: Any) -> Any:
    return conn.clustering


def over(cloud: Any, action: Any) -> Any:
    """Wait for an action, given as the SDK gives it: a dict or an object."""
    ident = action.id if isinstance(action, Resource) else action["action"]
    found = cloud.get_action(ident)
    return cloud.wait_for_status(found, "SUCCEEDED", failures=["FAILED", "CANCELLED"], **NOW)


@pytest.fixture
def cluster(cloud: Any, world: World) -> Any:
    made = cloud.create_cluster(
        name=fresh("sdk"), profile_id=world.quick(), desired_capacity=2, min_size=0, max_size=-1
    )
    world.clusters.append(made.id)
    return cloud.wait_for_status(made, "ACTIVE", failures=["ERROR"], **NOW)


# --- the SDK's own functional file, in our words ------------------------------------------------------


def test_find(cloud: Any, cluster: Any) -> None:
    assert cloud.find_cluster(cluster.id, ignore_missing=False).id == cluster.id
    assert cloud.find_cluster(cluster.name).id == cluster.id
    assert cloud.find_cluster("nobody") is None
    with pytest.raises(exceptions.NotFoundException):
        cloud.find_cluster("nobody", ignore_missing=False)


def test_get(cloud: Any, cluster: Any) -> None:
    assert cloud.get_cluster(cluster).id == cluster.id
    with pytest.raises(exceptions.NotFoundException):
        cloud.get_cluster("nobody")


def test_list(cloud: Any, cluster: Any) -> None:
    assert cluster.name in {one.name for one in cloud.clusters()}
    assert cluster.name in {one.name for one in cloud.clusters(limit=1)}
    assert [one.id for one in cloud.clusters(name=cluster.name)] == [cluster.id]
    assert cloud.clusters(name=cluster.name, status="ACTIVE", sort="name:asc", limit=5)


def test_update(cloud: Any, cluster: Any) -> None:
    name = fresh("renamed")
    cloud.update_cluster(cluster, name=name, profile_only=False)
    wait_for(lambda: cloud.get_cluster(cluster).name == name)


@pytest.mark.parametrize("force", [False, True])
def test_delete(cloud: Any, cluster: Any, force: bool) -> None:
    action = cloud.delete_cluster(cluster.id, False, force)
    cloud.wait_for_delete(cluster, **NOW)
    assert over(cloud, action).action == "CLUSTER_DELETE"
    found = cloud.get_action(cluster.id)
    assert (found.target_id, found.action, found.status) == (
        cluster.id,
        "CLUSTER_DELETE",
        "SUCCEEDED",
    )
    with pytest.raises(exceptions.NotFoundException):
        cloud.update_action(cluster.id, status="CANCELLED")
    with pytest.raises(exceptions.NotFoundException):
        cloud.delete_cluster(cluster.id, ignore_missing=False)
    assert cloud.delete_cluster(cluster.id, ignore_missing=True) is None


# --- all the rest -------------------------------------------------------------------------------------


def test_build_info_and_types(cloud: Any) -> None:
    assert cloud.get_build_info().api["revision"] == "1.0"
    assert KIND in {one.name for one in cloud.profile_types()}
    assert cloud.get_profile_type(f"{KIND}-1.0").schema["command"]["required"]
    assert "senlin.policy.deletion" in {one.name for one in cloud.policy_types()}
    assert cloud.get_policy_type("senlin.policy.deletion-1.1").schema["criteria"]
    operations = list(cloud.list_profile_type_operations(f"{KIND}-1.0"))
    assert operations


def test_profiles(cloud: Any, world: World) -> None:
    made = cloud.create_profile(name=fresh("sdk"), spec=world.spec(), metadata={"a": "b"})
    assert made.type == f"{KIND}-1.0"
    assert cloud.get_profile(made.id).metadata == {"a": "b"}
    assert cloud.find_profile(made.name).id == made.id
    assert cloud.find_profile("nobody") is None
    assert made.id in {one.id for one in cloud.profiles(limit=2)}
    assert [one.id for one in cloud.profiles(name=made.name)] == [made.id]
    assert cloud.update_profile(made, name="renamed-by-sdk").name == "renamed-by-sdk"
    assert cloud.validate_profile(spec=world.spec()).spec == world.spec()
    with pytest.raises(exceptions.BadRequestException):
        cloud.validate_profile(spec={"type": KIND, "version": "1.0", "properties": {}})
    assert cloud.delete_profile(made) is None
    assert cloud.delete_profile(made.id, ignore_missing=True) is None
    with pytest.raises(exceptions.NotFoundException):
        cloud.delete_profile(made.id, ignore_missing=False)


def test_policies(cloud: Any) -> None:
    spec = spec_of("senlin.policy.batch-1.0")
    made = cloud.create_policy(name=fresh("sdk"), spec=spec)
    assert cloud.get_policy(made).spec == spec
    assert cloud.find_policy(made.name).id == made.id
    assert made.id in {one.id for one in cloud.policies(limit=1)}
    assert cloud.update_policy(made, name="renamed-by-sdk").name == "renamed-by-sdk"
    assert cloud.validate_policy(spec=spec).name == "validated_policy"
    with pytest.raises(exceptions.BadRequestException):
        cloud.create_policy(name="x", spec=spec_of("senlin.policy.batch-1.0", {"bogus": 1}))
    cloud.delete_policy(made)
    with pytest.raises(exceptions.NotFoundException):
        cloud.get_policy(made.id)


def test_cluster_actions(cloud: Any, world: World, cluster: Any) -> None:
    over(cloud, cloud.scale_out_cluster(cluster, 1))
    over(cloud, cloud.scale_out_cluster(cluster))
    over(cloud, cloud.scale_in_cluster(cluster, 2))
    over(cloud, cloud.scale_in_cluster(cluster))
    over(cloud, cloud.resize_cluster(cluster, adjustment_type="EXACT_CAPACITY", number=2))
    over(cloud, cloud.check_cluster(cluster))
    over(cloud, cloud.recover_cluster(cluster, operation="REBOOT", check=True))
    over(cloud, cloud.perform_operation_on_cluster(cluster, "reboot", params={"type": "HARD"}))
    found = cloud.get_cluster(cluster.id)
    assert (found.status, len(found.node_ids), found.desired_capacity) == ("ACTIVE", 2, 2)

    node = world.node()
    over(cloud, cloud.add_nodes_to_cluster(cluster, [node["id"]]))
    over(
        cloud, cloud.remove_nodes_from_cluster(cluster, [node["id"]], destroy_after_deletion=False)
    )
    old = found.node_ids[0]
    over(cloud, cloud.replace_nodes_in_cluster(cluster, {old: node["id"]}))
    world.nodes.append(old)
    assert node["id"] in cloud.get_cluster(cluster.id).node_ids
    values = list(cloud.collect_cluster_attrs(cluster.id, "status"))
    assert {one.attr_value for one in values} == {"ACTIVE"}
    assert {one.node_id for one in values} == set(cloud.get_cluster(cluster.id).node_ids)


def test_an_error_comes_as_the_body(cloud: Any, cluster: Any) -> None:
    assert cloud.scale_in_cluster(cluster, 0)["error"]["message"] == (
        "Count for scale-in request cannot be 0."
    )


def test_cluster_policies(cloud: Any, world: World, cluster: Any) -> None:
    policy = world.policy("senlin.policy.deletion-1.0")
    over(cloud, cloud.attach_policy_to_cluster(cluster, policy["id"], enabled=True))
    over(cloud, cloud.update_cluster_policy(cluster, policy["id"], enabled=False))
    (binding,) = cloud.cluster_policies(cluster)
    assert binding.is_enabled is False
    assert binding.policy_id == policy["id"]
    one = cloud.get_cluster_policy(policy["id"], cluster.id)
    assert one.policy_name == policy["name"]
    assert list(cloud.cluster_policies(cluster, enabled=True)) == []
    over(cloud, cloud.detach_policy_from_cluster(cluster, policy["id"]))
    assert list(cloud.cluster_policies(cluster.id)) == []


def test_cluster_metadata(cloud: Any, cluster: Any) -> None:
    """The SDK asks `/clusters/ID/metadata`, which Senlin never had: an answer, not a crash."""
    for method in ("GET", "PUT", "POST"):
        answer = cloud.request(f"/clusters/{cluster.id}/metadata", method, raise_exc=False)
        assert answer.status_code < 500


def test_nodes(cloud: Any, world: World) -> None:
    made = cloud.create_node(name=fresh("sdk"), profile_id=world.quick(), role="r")
    world.nodes.append(made.id)
    node = cloud.wait_for_status(made, "ACTIVE", failures=["ERROR"], **NOW)
    assert cloud.find_node(made.name).id == made.id
    assert cloud.get_node(made.id, details=True).details
    assert cloud.get_node(made.id).details is None
    assert made.id in {one.id for one in cloud.nodes(limit=2)}
    assert [one.id for one in cloud.nodes(name=made.name)] == [made.id]
    over(cloud, cloud.check_node(node))
    over(cloud, cloud.recover_node(node, operation="REBOOT"))
    over(cloud, cloud.perform_operation_on_node(node, "reboot", type="HARD"))
    cloud.update_node(node, name="renamed-by-sdk", tainted=True)
    assert wait_for(lambda: cloud.get_node(made.id).name == "renamed-by-sdk")
    assert cloud.get_node(made.id).tainted is True
    kept = cloud.get_node(made.id)
    action = cloud.delete_node(node)
    cloud.wait_for_delete(kept, **NOW)
    assert over(cloud, action).action == "NODE_DELETE"


def test_force_delete_of_a_node(cloud: Any, world: World) -> None:
    node = world.node()
    action = cloud.delete_node(node["id"], force_delete=True)
    assert over(cloud, action).action == "NODE_DELETE"


def test_adopt(cloud: Any, world: World) -> None:
    """Both words of the SDK arrive; what a local process cannot give is refused in the envelope."""
    node = world.node()
    preview = {"identity": node["physical_id"], "type": f"{KIND}-1.0"}
    for flag in (True, False):
        try:
            found = cloud.adopt_node(preview=flag, **preview)
        except (
            exceptions.BadRequestException,
            exceptions.NotFoundException,
            exceptions.ConflictException,
        ):
            continue
        if not isinstance(found, dict):
            world.nodes.append(found.id)
        elif "error" in found:
            assert found["code"] in {400, 404, 409}
        else:
            assert found["node_profile"]["node_preview"]["type"] == KIND


def test_receivers(cloud: Any, world: World, cluster: Any) -> None:
    made = cloud.create_receiver(
        name=fresh("sdk"), type="webhook", cluster_id=cluster.id, action="CLUSTER_SCALE_OUT"
    )
    assert made.channel["alarm_url"].startswith(world.api.root)
    assert cloud.get_receiver(made.id).action == "CLUSTER_SCALE_OUT"
    assert cloud.find_receiver(made.name).id == made.id
    assert [one.id for one in cloud.receivers(cluster_id=cluster.id)] == [made.id]
    after = cloud.update_receiver(made, name="renamed-by-sdk", params={"count": 2})
    assert after.params == {"count": 2}
    cloud.delete_receiver(made)
    assert cloud.find_receiver(made.id) is None


def test_actions(cloud: Any, cluster: Any) -> None:
    found = list(cloud.actions(target=cluster.id, sort="created_at:desc", limit=2))
    assert {one.action for one in found} == {"CLUSTER_CREATE"}
    one = cloud.get_action(found[0].id)
    assert one.cluster_id == cluster.id
    assert one.start_at
    with pytest.raises(exceptions.ConflictException):
        cloud.update_action(one, status="CANCELLED")


def test_update_action(cloud: Any, world: World) -> None:
    cluster = world.cluster(1, profile_id=world.stubborn())["id"]
    with world.held():
        action = cloud.get_action(cloud.perform_operation_on_cluster(cluster, "stop")["action"])
        # The answer may be HTML, as Senlin's is.
        with contextlib.suppress(json.JSONDecodeError):
            cloud.update_action(action, status="CANCELLED", force=True)


def test_events(cloud: Any, cluster: Any) -> None:
    found = list(cloud.events(obj_id=cluster.id))
    assert {one.obj_name for one in found} == {cluster.name}
    assert cloud.get_event(found[0].id).obj_id == cluster.id
    assert list(cloud.events(cluster_id=cluster.id, sort="timestamp:desc", limit=1))


def test_services(cloud: Any) -> None:
    found = list(cloud.services())
    assert {one.state for one in found} == {"up"}


# --- ways to connect ----------------------------------------------------------------------------------

WAYS: dict[str, Any] = {
    "root": lambda root: {"auth_type": "none", "endpoint": root},
    "root-slash": lambda root: {"auth_type": "none", "endpoint": f"{root}/"},
    "v1": lambda root: {"auth_type": "none", "endpoint": f"{root}/v1"},
    "auth-root": lambda root: {"auth_type": "none", "auth": {"endpoint": root}},
    "auth-v1": lambda root: {"auth_type": "none", "auth": {"endpoint": f"{root}/v1"}},
    "override-root": lambda root: {"auth_type": "none", "clustering_endpoint_override": root},
    "override-v1": lambda root: {
        "auth_type": "none",
        "clustering_endpoint_override": f"{root}/v1",
    },
    "admin-token": lambda root: {
        "auth_type": "admin_token",
        "auth": {"endpoint": f"{root}/v1", "token": "x"},
    },
    "basic-v1": lambda root: {
        "auth_type": "http_basic",
        "auth": {"endpoint": f"{root}/v1", "username": "somebody", "password": "secret"},
    },
    "basic-override": lambda root: {
        "auth_type": "http_basic",
        "auth": {"endpoint": root, "username": "somebody", "password": "secret"},
        "clustering_endpoint_override": root,
    },
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("version", [None, "1.14", "1.2"])
def test_ways_to_connect(api: Api, world: World, way: str, version: str | None) -> None:
    if "cluster" not in world.shared:
        world.shared["cluster"] = world.cluster()["id"]
    more = {"clustering_default_microversion": version} if version else {}
    conn = connect(**WAYS[way](api.root), **more)
    try:
        assert world.shared["cluster"] in {one.id for one in conn.clustering.clusters()}
        assert conn.clustering.get_cluster(world.shared["cluster"]).status == "ACTIVE"
        assert list(conn.clustering.collect_cluster_attrs(world.shared["cluster"], "name")) == []
    finally:
        conn.close()


def test_discovery_finds_the_range(api: Api) -> None:
    conn = connect(auth_type="none", endpoint=api.root)
    try:
        data = conn.clustering.get_endpoint_data()
        assert data.url.rstrip("/") == f"{api.root}/v1"
        assert (data.min_microversion, data.max_microversion) == ((1, 0), (1, 14))
    finally:
        conn.close()
