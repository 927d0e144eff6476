"""Every client command against a real server, as text and as JSON."""

from __future__ import annotations

import json
import re
import resource
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from tests.functional.cli.support import (
    POLICY,
    YAFFLE,
    Running,
    Server,
    deaf,
    environment,
    let_go,
    living,
    profile_document,
    run_here,
    stubborn_document,
    swept,
    wait_for,
)
from tests.waiting import wait_until


@pytest.mark.parametrize(
    ("words", "said", "key"),
    [
        pytest.param(("status",), "cluster web", "clusters", id="status"),
        pytest.param(("cluster", "list"), "2 healthy", "clusters", id="cluster-list"),
        pytest.param(("cluster", "show", "web"), "web-2", "cluster", id="cluster-show"),
        pytest.param(("node", "list"), "web-1", "nodes", id="node-list"),
        pytest.param(("node", "list", "--cluster", "web"), "web-1", "nodes", id="node-list-of"),
        pytest.param(("node", "show", "web-1"), "port", "node", id="node-show"),
        pytest.param(("why", "web-1"), "web-1 (cluster web) is healthy", "why", id="why"),
        pytest.param(("policy", "list"), "care", "policies", id="policy-list"),
        pytest.param(("policy", "show", "care"), "max_unhealthy: 2", "policy", id="policy-show"),
        pytest.param(("profile", "list"), "page", "profiles", id="profile-list"),
        pytest.param(("profile", "show", "page"), "stop_timeout", "profile", id="profile-show"),
        pytest.param(("incident", "list"), "", "incidents", id="incident-list"),
        pytest.param(("incident", "list", "--open"), "", "incidents", id="incident-list-open"),
        pytest.param(("events",), "CLUSTER_CREATE", "events", id="events"),
        pytest.param(("events", "--node", "web-1"), "NODE_CREATE", "events", id="events-of"),
        pytest.param(("maintenance", "list"), "", "maintenance", id="maintenance-list"),
        pytest.param(("stop", "--show"), "nothing is stopped", "stops", id="stop-show"),
        pytest.param(("outbox", "list"), "", "messages", id="outbox-list"),
        pytest.param(("engines",), "live", "coverage", id="engines"),
        pytest.param(("outbox", "redeliver"), "0 messages", "redelivered", id="redeliver"),
    ],
)
def test_every_question_has_an_answer_in_text_and_json(
    shop: Server, words: tuple[str, ...], said: str, key: str
) -> None:
    assert said in shop.ok(*words).out
    assert key in shop.ok(*words, "--json").json


def test_the_latest_events_are_printed_not_the_first(shop: Server) -> None:
    def events(limit: int) -> list[int]:
        found = shop.ok("events", "--json", "--limit", str(limit)).json["events"]
        return [event["seq"] for event in found]

    # Asked until nothing has happened between the questions.
    whole, latest, _ = wait_until(
        lambda: (events(1000), events(2), events(1000)), lambda found: found[0] == found[2]
    )
    assert latest == whole[-2:]


def test_policies_are_created_updated_warned_about_and_deleted(
    shop: Server, tmp_path: Path
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(POLICY.replace("interval: 1", "interval: 2"))
    assert shop.ok("policy", "create", "mine", str(file)).out == "policy mine created\n"
    file.write_text(POLICY.replace("fencing: [COMPUTE]", "node_force_recreate: true"))
    done = shop.ok("policy", "update", "mine", str(file))
    assert done.out == "policy mine updated\n"
    assert "warning: " in done.err
    assert "[force-recreate-unfenced]" in done.err
    file.write_text(POLICY.replace("fall: 2", "fal: 2"))
    done = shop.cli("policy", "update", "mine", str(file))
    assert (done.code, f"{file}:8:5 detection.fal: unknown key" in done.err) == (2, True)
    shop.ok("cluster", "detach", "web", "care")
    shop.ok("cluster", "attach", "web", "mine", "--disabled")
    assert "mine (off)" in shop.ok("cluster", "list").out
    assert shop.cli("policy", "delete", "mine").code == 4
    shop.ok("cluster", "policy-enable", "web", "mine")
    assert "(off)" not in shop.ok("cluster", "list").out
    shop.ok("cluster", "policy-disable", "web", "mine", "--json")
    shop.ok("cluster", "detach", "web", "mine")
    shop.ok("cluster", "attach", "web", "care", "--json")
    assert shop.ok("policy", "delete", "mine").out == "policy mine deleted\n"


def test_profiles_are_checked_before_they_are_stored(shop: Server) -> None:
    wrong = json.dumps({"type": "yaffle.local.process-1.0", "properties": {"comand": []}})
    done = shop.cli("profile", "create", "wrong", "-", given=wrong)
    assert done.code == 2
    assert "comand: unknown property" in done.err
    done = shop.cli("profile", "create", "wrong", "-", given="type: [\n")
    assert (done.code, "stdin:2:1: " in done.err) == (2, True)
    done = shop.cli("profile", "create", "wrong", "-", given="kind: x\n")
    assert (done.code, "stdin kind: unknown key" in done.err) == (2, True)
    good = profile_document("x")
    shop.ok("profile", "create", "spare", "-", given=good)
    assert shop.cli("profile", "create", "spare", "-", given=good).code == 4
    assert shop.ok("profile", "delete", "spare").out == "profile spare deleted\n"
    assert shop.cli("profile", "delete", "page").code == 4


def test_recover_waits_for_its_end_and_says_how_it_went(shop: Server) -> None:
    done = shop.ok("node", "recover", "web-1", "--operation", "reboot", "--param", "type=HARD")
    assert done.out.startswith("node web-1: ")
    action = shop.ok("node", "recover", "web-1", "--check", "--json").json["action"]
    assert action["status"] == "SUCCEEDED"
    assert shop.cli("node", "recover", "web-1", "--operation", "FLY").code == 2
    assert shop.cli("node", "recover", "web-1", "--param", "nonsense").code == 2
    listed = shop.ok("incident", "list", "--node", "web-1", "--json").json["incidents"]
    story = shop.ok("incident", "show", listed[0]["id"]).out
    assert re.search(r"^ +\+.*(look|act|verify)", story, re.MULTILINE), story
    assert shop.ok("incident", "ack", listed[0]["id"][:8]).out.startswith("incident ")


def test_a_recovery_held_by_the_stop_is_a_conflict_that_says_so(shop: Server) -> None:
    done = shop.ok("stop", "--all", "--for", "10m", "--reason", "the network is being mended")
    assert "for 10m" in done.out
    try:
        assert "the network is being mended" in shop.ok("stop", "--show").out
        assert shop.ok("stop", "--show", "--json").json["stopped"] is True
        assert "the network is being mended" in shop.ok("status").out
        held = shop.cli("node", "recover", "web-2", "--operation", "REBOOT")
        assert (held.code, "held (stopped)" in held.err) == (4, True), held
        again = shop.cli("node", "recover", "web-2")
        assert (again.code, "holds it; wait for its end" in again.err) == (4, True), again
        _cancels_as_told(shop, held.err)
    finally:
        assert shop.ok("stop", "--lift").out == "the stop is lifted\n"
    assert shop.ok("stop", "--lift").out == "there was no stop\n"
    wait_for(lambda: shop.ok("node", "show", "web-2", "--json").json["watch"]["action"] is None)


def _cancels_as_told(shop: Server, said: str) -> None:
    """Whoever asked, and whoever looks, is told until when it waits and what takes it back."""
    (request,) = shop.ok("status", "--json").json["waiting_requests"]
    told = (request["node"], request["status_reason"], request["by"] != "")
    assert told == ("web-2", "held: stopped", True)
    assert request["expires_us"] - request["created_us"] == 900_000_000
    command = request["cancel"]
    why = shop.ok("why", "web-2").out
    for text in (said, shop.ok("status").out, why):
        assert command in text, text
    assert "recovery of web-2 waits" in shop.ok("status").out
    assert command.startswith("yaffle action cancel ")
    assert shop.ok(*command.split()[1:]).out.endswith(" cancelled\n")
    assert shop.ok("status", "--json").json["waiting_requests"] == []
    assert "waits" not in shop.ok("status").out


def test_stop_wants_exactly_one_wish_and_a_reason(shop: Server) -> None:
    for words in (("stop",), ("stop", "--all"), ("stop", "--lift", "--show")):
        assert shop.cli(*words).code == 2
    assert shop.cli("stop", "--all", "--reason", "x", "--for", "soon").code == 2


def test_maintenance_begins_is_listed_and_ends(shop: Server) -> None:
    assert shop.cli("maintenance", "start", "--reason", "x").code == 2
    words = ("maintenance", "start", "--node", "web-1", "--for", "2h", "--reason", "new disk")
    begun = shop.ok(*words, "--json").json["maintenance"]
    assert begun["expires_us"] - begun["starts_us"] == 7_200_000_000
    assert "node web-1" in shop.ok("maintenance", "list").out
    assert "new disk" in shop.ok("maintenance", "list").out
    shop.ok("maintenance", "end", begun["id"][:8])
    assert shop.ok("maintenance", "list").out == "no maintenance\n"
    assert "lifted by" in shop.ok("maintenance", "list", "--all").out
    assert shop.cli("maintenance", "end", begun["id"]).code == 3


def test_a_persons_mark_is_healed_and_lifted(shop: Server) -> None:
    shop.ok("stop", "--all", "--reason", "so that the mark stays", "--for", "5m")
    try:
        shop.ok("node", "mark", "unhealthy", "web-1", "--reason", "its disk clicks")
        assert "its disk clicks" in shop.ok("node", "show", "web-1").out
        assert "its disk clicks" in shop.ok("why", "web-1").out
        lifted = shop.ok("node", "mark", "healthy", "web-1", "--reason", "disk replaced")
        assert lifted.out == "mark on node web-1 lifted\n"
        again = shop.ok("node", "mark", "healthy", "web-1")
        assert again.out == "node web-1 had no mark\n"
        assert shop.ok("node", "show", "web-1", "--json").json["watch"]["mark"] is None
        # The belief follows with the next pass of the watch.
        wait_for(lambda: "its disk clicks" not in shop.ok("node", "show", "web-1").out)
    finally:
        shop.ok("stop", "--lift")


def test_the_storm_limit_is_released_for_a_while(shop: Server) -> None:
    words = ("cluster", "release", "web", "--reason", "the switch is back", "--for", "90s")
    assert shop.ok(*words).out == "storm limit of cluster web released for 90.0 s\n"
    assert "limit released until" in shop.ok("cluster", "show", "web").out


def test_a_cluster_of_its_own_lives_and_goes(shop: Server) -> None:
    mark = f"small-{uuid.uuid4().hex}"
    with swept(mark):
        shop.ok("profile", "create", mark, "-", given=profile_document(mark))
        done = shop.ok("cluster", "create", "small", "--profile", mark, "--size", "2")
        assert done.out == "cluster small created, 2 nodes\n"
        assert "of 2 parts done" in done.err
        assert len(living(mark)) == 2
        assert shop.cli("cluster", "create", "small", "--profile", mark).code == 4
        assert shop.ok("node", "delete", "small-2").out == "node small-2 deleted\n"
        assert len(living(mark)) == 1
        shop.ok("cluster", "delete", "small", "--no-wait")
        wait_for(lambda: shop.cli("cluster", "show", "small").code == 3)
        wait_for(lambda: not living(mark))


def test_a_node_that_cannot_be_built_is_a_failure_with_its_reason(shop: Server) -> None:
    document = {"type": "yaffle.local.process-1.0", "properties": {"command": ["/no/such/program"]}}
    shop.ok("profile", "create", "broken", "-", given=json.dumps(document))
    done = shop.cli("cluster", "create", "broken", "--profile", "broken", "--size", "1")
    assert done.code == 1, done
    assert "/no/such/program" in done.err
    assert "cluster broken: 0 of 1 parts done" in done.err
    assert "cluster broken: CLUSTER_CREATE failed: " in done.err
    assert "node broken-1: NODE_CREATE failed: " in done.err
    shop.ok("cluster", "delete", "broken")


def test_waiting_has_a_bound_and_says_that_the_work_goes_on(shop: Server) -> None:
    mark = f"late-{uuid.uuid4().hex}"
    with swept(mark):
        shop.ok("profile", "create", mark, "-", given=stubborn_document(mark))
        shop.ok("cluster", "create", "late", "--profile", mark, "--size", "2")
        wait_for(lambda: deaf(mark))
        done = shop.cli("cluster", "delete", "late", "--timeout", "1ms")
        later = re.search(r"it goes on, see `yaffle (action wait \w+)`", done.err)
        assert later, done
        assert done.code == 1
        let_go(mark)
        assert shop.ok(*later[1].split()).out.endswith("CLUSTER_DELETE succeeded\n")
        assert living(mark) == {}


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("node", "show", "nobody"), id="node"),
        pytest.param(("why", "nobody"), id="why"),
        pytest.param(("cluster", "delete", "nothing"), id="cluster"),
        pytest.param(("policy", "show", "nothing"), id="policy"),
        pytest.param(("incident", "show", "00000000"), id="incident"),
        pytest.param(("node", "show", "../clusters"), id="path-tricks"),
    ],
)
def test_what_is_not_there_is_exit_3(shop: Server, words: tuple[str, ...]) -> None:
    done = shop.cli(*words)
    assert (done.code, done.out) == (3, "")
    assert done.err.startswith("yaffle: ")
    assert "Traceback" not in done.err


def test_no_server_is_exit_5_and_says_what_to_do() -> None:
    done = run_here("node", "list", "--server", "http://127.0.0.1:9")
    assert done.code == 5
    assert "start it with `yaffle serve`" in done.err
    done = run_here("node", "list", env={"YAFFLE_SERVER": "http://127.0.0.1:9"})
    assert (done.code, "127.0.0.1:9" in done.err) == (5, True)


@pytest.mark.parametrize(
    "server", ["127.0.0.1:9", "ftp://x", "http://", "http://[::1", "http://x:y"]
)
def test_a_server_that_is_no_address_is_a_wrong_use(server: str) -> None:
    done = run_here("status", "--server", server)
    assert (done.code, "is no address" in done.err) == (2, True), done


def test_events_are_followed_as_they_come(shop: Server) -> None:
    env = {"YAFFLE_STATE_DIR": str(shop.state_dir)}
    following = Running("events", "--follow", "--json", "--limit", "1", env=env)
    wait_for(lambda: following.lines)
    shop.ok("stop", "--all", "--reason", "to be seen following", "--for", "1m")
    shop.ok("stop", "--lift")
    event = json.loads(following.line("to be seen following"))
    assert event["action"] == "STOP_BEGIN"
    following.signal(signal.SIGINT)
    assert following.end() == 130


def test_doctor_joins_what_it_sees_with_what_the_server_says(shop: Server) -> None:
    # A database that takes a second to answer is a warning, and true.
    report = wait_until(
        lambda: shop.ok("doctor", "--json").json, lambda report: report["status"] == "ok"
    )
    checks = {check["name"]: check["status"] for check in report["checks"]}
    assert {"here: config", "here: state directory", "here: database"} <= checks.keys()
    assert {"server", "database", "prober", "engine"} <= checks.keys()
    assert "here: database" in shop.ok("doctor").out


def test_the_database_is_looked_at_and_pruned_beside_a_running_server(shop: Server) -> None:
    place = ("--state-dir", str(shop.state_dir))
    assert "problems" in shop.ok("db", "check", *place).out
    assert shop.ok("db", "check", *place, "--json").json["problems"] == []
    assert shop.ok("db", "prune", *place, "--json").json["removed"]["events"] == 0
    done = shop.cli("db", "migrate", *place)
    assert (done.code, "another engine" in done.err) == (4, True)


def test_status_costs_hardly_more_than_the_libraries_that_it_loads(shop: Server) -> None:
    """0.2 s of CPU, as much as to load typer and all of httpx; it was three times that once."""
    env = environment(YAFFLE_STATE_DIR=str(shop.state_dir))
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    words = {
        "status": (*YAFFLE, "status"),
        "libraries": (sys.executable, "-c", "import typer, httpx"),
    }
    costs: dict[str, list[float]] = {name: [] for name in words}
    # Each at its best, when all is compiled, and in turn: what is beside them is the same for both.
    for _ in range(8):
        for name, command in words.items():
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(command, env=env, check=True, capture_output=True, timeout=60)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            costs[name].append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    status, libraries = min(costs["status"]), min(costs["libraries"])
    print(f"{status=:.3f} s, {libraries=:.3f} s, ratio {status / libraries:.2f}")
    assert status < 1.4 * libraries, costs
