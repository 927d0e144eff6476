"""Clusters through the command line: sizes, members, policies, care; each command against a server."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator

import pytest
from tests.functional.cli.support import POLICY, Server, living, profile_document, swept, wait_for

DELETION = """\
type: senlin.policy.deletion
version: "1.0"
properties: {criteria: YOUNGEST_FIRST}
"""


@pytest.fixture(scope="module")
def farm(shop: Server) -> Iterator[str]:
    """A profile of its own, named as the mark that its processes carry."""
    mark = f"farm-{uuid.uuid4().hex}"
    with swept(mark):
        shop.ok("profile", "create", mark, "-", given=profile_document(mark))
        yield mark


def size_of(shop: Server, cluster: str) -> tuple[int, int]:
    """Return the desired capacity and how many members there are."""
    found = shop.ok("cluster", "show", cluster, "--json").json["cluster"]
    return found["desired_capacity"], len(found["nodes"])


def test_a_cluster_grows_shrinks_and_keeps_its_bounds(shop: Server, farm: str) -> None:
    words = ("cluster", "create", "herd", "--profile", farm, "--size", "1", "--max", "4")
    made = shop.ok(*words, "--metadata", "team=blue", "--json").json
    assert made["cluster"]["metadata"] == {"team": "blue"}
    assert made["action"]["status"] == "SUCCEEDED"
    assert [n["name"] for n in listed(shop, "herd")] == ["herd-1"]

    assert shop.ok("cluster", "scale-out", "herd").out == "cluster herd has more nodes\n"
    assert size_of(shop, "herd") == (2, 2)
    shop.ok("cluster", "resize", "herd", "--size", "3")
    refused = shop.cli("cluster", "resize", "herd", "--by", "4")
    assert (refused.code, "max_size" in refused.err) == (2, True), refused
    shop.ok("cluster", "resize", "herd", "--by", "4", "--best-effort")
    assert size_of(shop, "herd") == (4, 4)
    shop.ok("cluster", "resize", "herd", "--percent", "-50")
    assert size_of(shop, "herd") == (2, 2)
    shop.ok("cluster", "resize", "herd", "--min", "1", "--max", "-1")
    shop.ok("cluster", "scale-in", "herd", "--count", "1")
    assert size_of(shop, "herd") == (1, 1)
    assert "at least 1" in shop.ok("cluster", "show", "herd").out
    assert shop.cli("cluster", "scale-in", "herd").code == 2
    for words in (("--size", "1", "--by", "1"), ()):
        assert shop.cli("cluster", "resize", "herd", *words).code == 2
    shop.ok("cluster", "delete", "herd")
    assert shop.cli("cluster", "show", "herd").code == 3


def listed(shop: Server, cluster: str) -> list[dict[str, str]]:
    found: list[dict[str, str]] = shop.ok("cluster", "members", cluster, "--json").json["nodes"]
    return found


def test_members_come_go_and_are_replaced(shop: Server, farm: str) -> None:
    shop.ok("cluster", "create", "club", "--profile", farm, "--size", "0")
    for name in ("ann", "bob"):
        assert shop.ok("node", "create", name, "--profile", farm).out == f"node {name} created\n"
    assert "has ann" in shop.ok("cluster", "add-nodes", "club", "ann").out
    assert "ann" in shop.ok("cluster", "members", "club").out
    again = shop.cli("cluster", "add-nodes", "club", "ann")
    assert (again.code, "already owned" in again.err) == (2, True), again
    shop.ok("cluster", "replace-nodes", "club", "ann=bob")
    assert [n["name"] for n in listed(shop, "club")] == ["bob"]
    assert shop.cli("cluster", "replace-nodes", "club", "ann").code == 2
    shop.ok("cluster", "remove-nodes", "club", "bob")
    assert listed(shop, "club") == []
    assert shop.ok("node", "show", "bob", "--json").json["node"]["cluster_id"] == ""
    shop.ok("cluster", "add-nodes", "club", "bob", "ann")
    shop.ok("cluster", "remove-nodes", "club", "bob", "ann", "--destroy")
    assert shop.cli("node", "show", "bob").code == 3
    shop.ok("cluster", "delete", "club", "--force")


def test_policies_are_attached_before_there_is_a_node(shop: Server, farm: str) -> None:
    shop.ok("policy", "create", "first", "-", given=POLICY)
    shop.ok("policy", "create", "young", "-", given=DELETION)
    words = ("cluster", "create", "kept", "--profile", farm, "--size", "2", "--min", "1")
    done = shop.ok(*words, "--policy", "first", "--policy", "young")
    assert done.out == "cluster kept created, 2 nodes\n"
    assert size_of(shop, "kept") == (2, 2)
    actions = shop.ok("action", "list", "--cluster", "kept", "--json").json["actions"]
    order = [row["action"] for row in actions]
    assert order.index("CLUSTER_ATTACH_POLICY") < order.index("NODE_CREATE")

    listed = shop.ok("cluster", "policies", "kept", "--json").json["cluster_policies"]
    assert {row["policy_name"] for row in listed} == {"first", "young"}
    text = shop.ok("cluster", "policies", "kept", "--type", "senlin.policy.deletion-1.0").out
    assert ("young" in text, "first" in text) == (True, False)
    assert "kept" in shop.ok("policy", "list", "--name", "first").out
    # A second policy of a kind that stands alone: the action is taken, and fails with its reason.
    shop.ok("policy", "create", "second", "-", given=POLICY)
    rival = shop.cli("cluster", "attach", "kept", "second")
    assert rival.code == 1, rival
    assert "cluster kept: CLUSTER_ATTACH_POLICY failed: " in rival.err
    assert shop.cli("cluster", "detach", "kept", "second").code == 2
    words = ("cluster", "create", "torn", "--profile", farm, "--policy", "first")
    torn = shop.cli(*words, "--policy", "second")
    assert (torn.code, "cluster torn: CLUSTER_ATTACH_POLICY failed: " in torn.err) == (1, True)
    wait_for(lambda: shop.cli("cluster", "show", "torn").code == 3)
    shop.ok("cluster", "delete", "kept")
    for name in ("first", "young", "second"):
        shop.ok("policy", "delete", name)


def test_a_cluster_with_a_policy_that_is_not_there_is_not_begun(shop: Server, farm: str) -> None:
    words = ("cluster", "create", "halfway", "--profile", farm, "--policy", "nowhere")
    assert shop.cli(*words).code == 3
    assert shop.cli("cluster", "show", "halfway").code == 3


def test_a_cluster_is_checked_recovered_operated_on_and_asked(shop: Server, farm: str) -> None:
    shop.ok("cluster", "create", "ward", "--profile", farm, "--size", "2")
    try:
        assert shop.ok("cluster", "check", "ward").out.startswith("cluster ward checked")
        assert shop.ok("cluster", "recover", "ward", "--check").out == "cluster ward recovered\n"
        wrong = shop.cli("cluster", "recover", "ward", "--operation", "FLY")
        assert (wrong.code, "REBOOT, REBUILD, RECREATE" in wrong.err) == (2, True), wrong
        pids = set(living(farm))
        shop.ok("cluster", "op", "ward", "reboot", "--filter", "name=ward-1")
        assert len(set(living(farm)) & pids) == 1
        wrong = shop.cli("cluster", "op", "ward", "dance")
        assert (wrong.code, "is not supported by the profile type" in wrong.err) == (2, True)
        assert shop.cli("cluster", "op", "ward", "reboot", "--filter", "colour=red").code == 2
        assert "ward-2" in shop.ok("cluster", "attrs", "ward", "name").out
        found = shop.ok("cluster", "attrs", "ward", "name", "--json").json["cluster_attributes"]
        assert {row["value"] for row in found} == {"ward-1", "ward-2"}
        assert shop.cli("cluster", "complete-lifecycle", "ward", str(uuid.uuid4())).code == 3
    finally:
        shop.ok("cluster", "delete", "ward")


def test_a_cluster_is_renamed_and_updated(shop: Server, farm: str) -> None:
    shop.ok("cluster", "create", "old", "--profile", farm, "--size", "1")
    said = shop.ok("cluster", "update", "old", "--name", "new", "--metadata", "n=1").out
    assert said == "cluster old updated\n"
    found = shop.ok("cluster", "show", "new", "--json").json
    assert found["cluster"]["metadata"] == {"n": 1}
    assert found["watch"]["health"].keys() >= {"healthy", "unhealthy"}
    assert shop.cli("cluster", "update", "new").code == 2
    same = shop.cli("cluster", "update", "new", "--name", "new")
    assert (same.code, "No property needs an update." in same.err) == (2, True), same

    shop.ok("profile", "create", f"{farm}-2", "-", given=profile_document(farm))
    shop.ok("cluster", "update", "new", "--profile", f"{farm}-2")
    assert listed(shop, "new")[0]["profile_name"] == f"{farm}-2"
    shop.ok("cluster", "update", "new", "--node-name-format", "n-$3I")
    shop.ok("cluster", "scale-out", "new")
    assert listed(shop, "new")[1]["name"] == "n-002"
    shop.ok("cluster", "delete", "new")
    shop.ok("profile", "delete", f"{farm}-2")


def test_run_twice_a_command_makes_no_second_one_of_the_name(shop: Server, farm: str) -> None:
    shop.ok("cluster", "create", "once", "--profile", farm, "--size", "0")
    again = shop.cli("cluster", "create", "once", "--profile", farm, "--size", "0")
    assert (again.code, "--allow-duplicate" in again.err) == (4, True), again
    shop.ok("cluster", "create", "once", "--profile", farm, "--size", "0", "--allow-duplicate")
    which = shop.cli("cluster", "show", "once")
    assert (which.code, "Multiple results" in which.err) == (2, True), which
    for row in shop.ok("cluster", "list", "--name", "once", "--json").json["clusters"]:
        shop.ok("cluster", "delete", row["id"])


def test_lists_are_filtered_and_sorted(shop: Server, farm: str) -> None:
    for name in ("a1", "a2", "a3"):
        shop.ok("cluster", "create", name, "--profile", farm, "--size", "0")

    def names(*words: str) -> list[str]:
        found = shop.ok("cluster", "list", "--json", *words).json["clusters"]
        return [row["name"] for row in found if row["name"].startswith("a")]

    assert names() == ["a1", "a2", "a3"]
    assert names("--sort", "name:desc") == ["a3", "a2", "a1"]
    assert names("--name", "a2") == ["a2"]
    assert names("--status", "active") == ["a1", "a2", "a3"]
    assert names("--status", "error") == []
    assert len(shop.ok("cluster", "list", "--json", "--limit", "2").json["clusters"]) == 2
    marker = shop.ok("cluster", "show", "a2", "--json").json["cluster"]["id"]
    assert names("--marker", marker) == ["a3"]
    wrong = shop.cli("cluster", "list", "--sort", "colour")
    assert (wrong.code, "Unsupported sort key 'colour'" in wrong.err) == (2, True), wrong
    assert shop.cli("cluster", "list", "--status", "purple").code == 2
    assert names("--all-projects") == ["a1", "a2", "a3"]
    for name in ("a1", "a2", "a3"):
        shop.ok("cluster", "delete", name)


def test_what_the_server_hints_at_is_said(shop: Server) -> None:
    document = {"type": "no.such.type", "version": "1.0", "properties": {}}
    done = shop.cli("profile", "create", "odd", "-", given=json.dumps(document))
    assert done.code == 3, done
    assert "yaffle: The profile_type 'no.such.type-1.0' could not be found.\n" in done.err
    assert "yaffle: known: yaffle.local.process-1.0" in done.err
