"""Single nodes, receivers, types, documents and services through the command line."""

from __future__ import annotations

import json
import urllib.request
import uuid
from collections.abc import Iterator

import pytest
from tests.functional.cli.support import POLICY, Server, living, profile_document, swept, wait_for

KIND = "yaffle.local.process-1.0"


@pytest.fixture(scope="module")
def solo(shop: Server) -> Iterator[str]:
    """A profile of its own, named as the mark that its processes carry."""
    mark = f"solo-{uuid.uuid4().hex}"
    with swept(mark):
        shop.ok("profile", "create", mark, "-", given=profile_document(mark))
        yield mark


def test_a_node_from_its_making_to_its_end(shop: Server, solo: str) -> None:
    words = ("node", "create", "lone", "--profile", solo, "--role", "db", "--metadata", "n=1")
    made = shop.ok(*words, "--json").json
    assert (made["node"]["status"], made["node"]["role"]) == ("ACTIVE", "db")
    assert made["action"]["action"] == "NODE_CREATE"
    assert shop.cli(*words).code == 4
    assert "lone" in shop.ok("node", "list", "--status", "active").out

    shop.ok("node", "update", "lone", "--tainted", "--name", "alone")
    found = shop.ok("node", "show", "alone", "--details", "--json").json
    assert found["node"]["tainted"] is True
    assert found["node"]["details"]["port"] == found["watch"]["attributes"]["port"]
    assert "tainted" in shop.ok("node", "show", "alone").out
    shop.ok("node", "update", "alone", "--untainted")
    assert shop.cli("node", "update", "alone").code == 2

    assert shop.ok("node", "check", "alone").out.startswith("node alone: ACTIVE")
    before = set(living(solo))
    assert shop.ok("node", "op", "alone", "reboot", "--param", "type=HARD").code == 0
    assert set(living(solo)) != before
    wrong = shop.cli("node", "op", "alone", "dance")
    assert (wrong.code, "not supported" in wrong.err) == (2, True), wrong
    assert shop.ok("node", "recover", "alone", "--operation", "RECREATE").out.startswith(
        "node alone: "
    )
    assert shop.ok("node", "delete", "alone").out == "node alone deleted\n"
    assert living(solo) == {}


def test_a_node_of_a_cluster_is_named_by_it(shop: Server, solo: str) -> None:
    shop.ok("cluster", "create", "team", "--profile", solo, "--size", "0")
    done = shop.ok("node", "create", "ignored", "--profile", solo, "--cluster", "team")
    assert done.out == "node team-1 created\n"
    shop.ok("cluster", "delete", "team")


def test_what_cannot_be_adopted_says_why(shop: Server) -> None:
    for word in ("adopt", "preview"):
        done = shop.cli("node", word, "no-such-process", "--type", KIND)
        assert done.code in {1, 2, 3, 4}, done
        assert done.err.startswith("yaffle: ")
        assert "Traceback" not in done.err


def test_types_tell_what_documents_may_hold(shop: Server) -> None:
    assert KIND in shop.ok("profile-type", "list").out
    assert "command" in shop.ok("profile-type", "show", KIND).out
    ops = shop.ok("profile-type", "ops", KIND)
    assert "reboot" in ops.out
    assert "reboot" in shop.ok("profile-type", "ops", KIND, "--json").json["operations"]
    assert "senlin.policy.health-1.3" in shop.ok("policy-type", "list").out
    assert "criteria" in shop.ok("policy-type", "show", "senlin.policy.deletion-1.0").out
    done = shop.cli("policy-type", "show", "senlin.policy.nothing-1.0")
    assert (done.code, "could not be found" in done.err) == (3, True)


def test_documents_are_judged_by_the_server_and_told_with_their_places(shop: Server) -> None:
    assert shop.ok("policy", "check", "-", given=POLICY).out == (
        "stdin: accepted, senlin.policy.health-1.3\n"
    )
    bad = POLICY.replace("fall: 2", "fal: 2")
    done = shop.cli("policy", "check", "-", given=bad)
    assert (done.code, "stdin:8:5 detection.fal: unknown key" in done.err) == (2, True), done
    done = shop.cli("policy", "create", "bad", "-", given=bad)
    assert (done.code, "stdin:8:5 detection.fal: unknown key" in done.err) == (2, True), done
    assert shop.cli("policy", "show", "bad").code == 3
    done = shop.cli("policy", "check", "-", given=POLICY.replace("1.3", "9.9"))
    assert (done.code, "stdin:2:10" in done.err) == (2, True), done

    accepted = shop.ok("profile", "validate", "-", given=profile_document("x"))
    assert accepted.out == f"-: accepted, {KIND}\n"
    done = shop.cli("profile", "validate", "-", given=json.dumps({"type": KIND, "properties": {}}))
    assert (done.code, "command" in done.err) == (2, True), done


def test_profiles_and_policies_are_renamed_not_changed(shop: Server, solo: str) -> None:
    assert shop.ok("profile", "show", solo).code == 0
    shop.ok("profile", "create", "tmp", "-", "--metadata", "a=b", given=profile_document("x"))
    shop.ok("profile", "update", "tmp", "--name", "tmp2", "--metadata", "c=2")
    found = shop.ok("profile", "show", "tmp2", "--json").json["profile"]
    assert found["metadata"] == {"c": 2}
    assert "tmp2" in shop.ok("profile", "list", "--type", KIND).out
    assert shop.cli("profile", "update", "tmp2").code == 2
    shop.ok("profile", "delete", "tmp2")

    shop.ok("policy", "create", "pol", "-", given=POLICY)
    assert shop.ok("policy", "update", "pol", "--name", "pol2").out == "policy pol2 updated\n"
    changed = POLICY.replace("attempts: 5", "attempts: 7")
    shop.ok("policy", "update", "pol2", "-", "--name", "pol3", given=changed)
    assert "attempts: 7" in shop.ok("policy", "show", "pol3").out
    assert shop.cli("policy", "update", "pol3").code == 2
    shop.ok("policy", "delete", "pol3")


def test_a_receiver_starts_its_action_for_whoever_has_its_address(shop: Server, solo: str) -> None:
    shop.ok("cluster", "create", "hooked", "--profile", solo, "--size", "0", "--max", "3")
    words = ("receiver", "create", "more", "--cluster", "hooked", "--action", "cluster_scale_out")
    made = shop.ok(*words, "--param", "count=2", "--json").json["receiver"]
    assert made["params"] == {"count": 2}
    assert shop.cli(*words).code == 4
    address = made["channel"]["alarm_url"]
    assert address in shop.ok("receiver", "show", "more").out
    assert "more" in shop.ok("receiver", "list", "--cluster", "hooked").out
    assert shop.ok("receiver", "list", "--action", "CLUSTER_CHECK").out.startswith("no receivers")
    shop.ok("receiver", "update", "more", "--param", "count=1", "--name", "one-more")
    assert shop.cli("receiver", "update", "one-more").code == 2

    with urllib.request.urlopen(urllib.request.Request(address, method="POST")) as answer:
        action = json.load(answer)["action"]
    assert "CLUSTER_SCALE_OUT succeeded" in shop.ok("action", "wait", action).out
    wait_for(lambda: len(living(solo)) == 1)
    assert shop.ok("receiver", "delete", "one-more").out == "receiver one-more deleted\n"
    assert shop.cli("receiver", "show", "one-more").code == 3
    wrong = shop.cli("receiver", "create", "x", "--cluster", "nowhere", "--action", "CLUSTER_CHECK")
    assert wrong.code == 2
    shop.ok("cluster", "delete", "hooked")


def test_the_engines_that_live_are_listed(shop: Server) -> None:
    assert "up" in shop.ok("service", "list").out
    assert shop.ok("service", "list", "--json").json["services"][0]["state"] == "up"
