"""`yaffle watch` against a cloud that grants whatever it is asked: told what would be, and asked only."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.functional.cli.fake_cloud import OWNER, FakeCloud, served
from tests.functional.cli.support import Running, run, wait_for
from tests.waiting import wait_until

from yaffle import wiring
from yaffle.cli.dry_run import paths
from yaffle.drivers.profiles.nova_server import NovaServer
from yaffle.engine.runtime.clock import SystemClock
from yaffle.integrations.openstack import CloudsYaml, looked_at
from yaffle.model.ids import ClusterId, NodeId, OperationId
from yaffle.model.incident import HoldReason
from yaffle.model.operations import Operation, ProgressState, Target

pytestmark = pytest.mark.slow

INTERVAL = "1"
PASSING = {HoldReason.BLIND.value, HoldReason.DEPENDENCY_LOST.value}
"""Why a watch may hold a node, truthfully, where answers take long: neither is the server's doing."""


@pytest.fixture
def cloud() -> Iterator[FakeCloud]:
    with served() as found:
        yield found


class Watch:
    """The command, on a state and a clouds.yaml of its own."""

    def __init__(self, cloud: FakeCloud, folder: Path) -> None:
        self.database = folder / "watch.db"
        file = cloud.clouds_yaml(folder / "clouds.yaml")
        self.words = ["watch", "--cloud", "prod", "--clouds-file", str(file)]
        self.words += ["--state", str(self.database)]

    def start(self, *more: str) -> Running:
        return Running(*self.words, "--interval", INTERVAL, *more)

    def report(self) -> Any:
        return run(*self.words, "--report", "--json").json


@pytest.fixture
def watch(cloud: FakeCloud, tmp_path: Path) -> Watch:
    return Watch(cloud, tmp_path)


def test_a_week_in_a_minute_without_one_request_that_changes_anything(
    cloud: FakeCloud, watch: Watch
) -> None:
    off, wiped, wanted, deleted, vanished = (cloud.add(f"web-{n}") for n in range(1, 6))
    broken = cloud.add("db-1")
    for number in range(6, 30):
        cloud.add(f"web-{number}")
    running = watch.start("--json")
    running.line('"kind": "began"')
    wait_for(lambda: watch.report()["health"].get("healthy") == 30)

    cloud.turn(off, "SHUTOFF", 4)
    cloud.turn(wiped, "ACTIVE", 0)
    cloud.turn(broken, "ERROR", 1)
    cloud.turn(wanted, "SHUTOFF", 4, act="stop", by=OWNER)
    cloud.delete(deleted, by=OWNER)
    cloud.delete(vanished)
    new = cloud.add("web-30")
    told = lambda: [json.loads(line) for line in running.lines]  # noqa: E731

    def kinds(server: str) -> list[str]:
        return [one["kind"] for one in told() if one.get("server") == server]

    for server, kind in (
        (off, "would"), (wiped, "would"), (broken, "would"), (vanished, "would"),
        (wanted, "wish"), (deleted, "gone"), (new, "arrived"),
    ):  # fmt: skip
        wait_for(lambda server=server, kind=kind: kind in kinds(server))
    cloud.turn(off, "ACTIVE", 1, act="start", by=OWNER)
    wait_for(lambda: "over" in kinds(off))
    running.signal(signal.SIGINT)
    assert running.end() == 0

    operation = {one["server"]: one["operation"] for one in told() if one["kind"] == "would"}
    assert operation == {off: "START", wiped: "REBOOT", broken: "REBOOT", vanished: "REBOOT"}
    # Told once, whatever it is held by for a while: a cloud that answers late makes a watch blind.
    of_broken = [one for one in told() if one.get("server") == broken]
    (ill,) = (one for one in of_broken if one.get("reason") not in PASSING)
    assert ill["kind"] == "would", "\n".join(running.lines)
    assert "db-1 (shop) has been ERROR for" in ill["text"]
    assert ill["looks"] >= 3
    assert "it failed (status ERROR" in ill["more"]["because"]
    assert "COMPUTE before RECREATE" in ill["more"]["fence"]
    assert not any("would" in kinds(server) for server in (wanted, deleted, new))
    assert cloud.writes == []
    assert {method for method, _, _ in cloud.asked} == {"GET", "POST"}

    summed = watch.report()
    assert (summed["failures"], summed["open"], summed["wishes"]) == (4, 3, 1)
    assert (summed["arrived"], summed["gone"]) == (1, 1)
    assert summed["would"] == {"START": 1, "REBOOT": 3}


def test_it_goes_on_where_it_was_and_tells_nothing_twice(cloud: FakeCloud, watch: Watch) -> None:
    ill, well = cloud.add("web-1"), cloud.add("web-2")
    cloud.turn(ill, "ERROR", 0)
    first = watch.start()
    first.line("web-1 (shop) has been ERROR for")
    first.signal(signal.SIGTERM)
    assert first.end() == 0
    assert "goes on from here, `yaffle watch --cloud prod --report`" in first.text

    cloud.turn(well, "PAUSED", 3)
    cloud.turn(ill, "ACTIVE", 1)
    second = watch.start()
    second.line("1 failure told before and not over")
    second.line("web-1 (shop) is over it after")
    second.line("web-2 (shop) has been PAUSED")
    assert "web-1 (shop) has been" not in second.text
    text = wait_until(lambda: run(*watch.words, "--report").out, lambda said: "UNPAUSE 1" in said)
    second.signal(signal.SIGINT)
    assert second.end() == 0
    assert "in 2 runs" in text


def test_many_groups_share_one_list_a_look(cloud: FakeCloud, watch: Watch) -> None:
    for number in range(1000):
        cloud.add(f"{chr(97 + number % 20)}-{number}")
    began_s = time.monotonic()
    running = Running(*watch.words, "--interval", "3", "--group-by", "name-prefix", "--json")
    began = json.loads(running.line('"kind": "began"', within_s=90))
    assert (began["servers"], len(began["groups"])) == (1000, 20)
    wait_for(lambda: watch.report()["health"] == {"healthy": 1000}, within_s=90)
    running.signal(signal.SIGINT)
    assert running.end() == 0
    # No list is asked for while one is younger than 0.4 intervals; unshared it were 20 an interval.
    most = (time.monotonic() - began_s) / 1.2 + 2
    assert 2 <= cloud.lists <= most, (cloud.lists, most)
    # Beside the lists, only who we are and what we may see is asked, of one server.
    assert len([path for _, path, _ in cloud.asked if not path.endswith("/detail")]) < 12
    assert cloud.writes == []


def test_a_storm_is_held_and_told_calmly(cloud: FakeCloud, watch: Watch) -> None:
    for server in [cloud.add(f"web-{n}") for n in range(40)]:
        cloud.turn(server, "ERROR", 0)
    running = watch.start()
    running.line("held by   storm: 40 of 40 nodes are unhealthy or being healed")
    # The report has the last reason of each.
    held = wait_until(lambda: watch.report()["held"], lambda told: sum(told.values()) == 40)
    assert held.keys() - PASSING <= {"storm"}
    running.signal(signal.SIGINT)
    running.end()
    assert running.text.count("would have left it alone for now") <= 10, running.text
    assert "more like it in shop, at once" in running.text


def test_a_cloud_that_is_away_is_waited_for_and_judged_by_nobody(
    cloud: FakeCloud, watch: Watch
) -> None:
    cloud.add("web-1")
    cloud.status = 503
    running = watch.start()
    running.line("cloud prod does not answer; asking again")
    cloud.status = 0
    running.line("cloud prod answers again")
    running.line("cloud prod: 1 server in 1 group")
    wait_for(lambda: watch.report()["health"] == {"healthy": 1})
    # Where answers take long it may be away once more than it was made to be.
    before = running.text.count("does not answer")
    cloud.status = 500
    wait_for(lambda: running.text.count("does not answer") > before)
    wait_for(lambda: watch.report()["health"] == {"unknown": 1})
    cloud.status = 0
    wait_for(lambda: watch.report()["health"] == {"healthy": 1})
    running.signal(signal.SIGINT)
    assert running.end() == 0
    assert "would have" not in running.text
    assert watch.report()["away"] == running.text.count("does not answer") >= 2


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        pytest.param(["--cloud", "other"], 2, "Cloud other was not found", id="no-such-cloud"),
        pytest.param(["--group-by", "colour"], 2, "metadata:KEY or name-prefix", id="group-by"),
        pytest.param(["--since", "1h"], 2, "--since belongs to --report", id="since"),
        pytest.param(["--clouds-file", "/proc/none"], 2, "no such file", id="no-file"),
        pytest.param(["--report"], 3, "nothing has been watched yet", id="no-state"),
    ],
)
def test_what_a_person_has_to_mend_is_said_at_once(
    watch: Watch, words: list[str], code: int, said: str
) -> None:
    done = run(*watch.words, *words)
    assert (done.code, said in done.err) == (code, True), done
    assert not watch.database.exists()


def test_a_time_that_is_over_before_the_cloud_answers_is_no_success(
    cloud: FakeCloud, watch: Watch, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    cloud.clouds_yaml(tmp_path / "clouds.yaml", port=port)
    done = run(*watch.words, "--for", "1")
    assert done.code == 5
    assert "did not answer, and the time of --for is over" in done.err


def test_a_policy_of_ones_own_only_observes_whatever_it_says(
    cloud: FakeCloud, watch: Watch, tmp_path: Path
) -> None:
    cloud.turn(cloud.add("web-1"), "SHUTOFF", 4)
    cloud.turn(cloud.add("web-2"), "SHUTOFF", 4, act="stop", by=OWNER)
    policy = tmp_path / "mine.yaml"
    policy.write_text(
        "type: senlin.policy.health\nversion: '1.3'\nproperties:\n"
        "  detection: {interval: 1, fall: 2, node_update_timeout: 2,"
        " detection_modes: [{type: NODE_STATUS_POLLING}]}\n"
        "  recovery: {mode: recover, actions: [{name: REBUILD}]}\n"
    )
    running = watch.start("--policy", str(policy))
    # Polling too asks who wanted that, and begins with what costs least.
    line = running.line("Yaffle would have tried")
    assert "web-1 (shop) has been SHUTOFF for" in line
    assert "START" in line
    running.signal(signal.SIGINT)
    running.end()
    tried = [line for line in running.lines if "would have tried" in line]
    assert all("web-1" in line for line in tried), "what its owner stopped is left alone"
    assert cloud.writes == []


def test_nothing_that_an_engine_can_ask_for_leaves_it(cloud: FakeCloud, tmp_path: Path) -> None:
    """The hands are tied below every driver: each operation is asked for, and none is sent."""
    ident = cloud.add("web-1")
    clock = SystemClock()
    file = cloud.clouds_yaml(tmp_path / "clouds.yaml")
    watched = wiring.Watched(
        cloud=looked_at(CloudsYaml(name="prod", file=file), clock),
        name="prod",
        all_projects=False,
        shared_s=0.0,
    )
    spec = {"flavor": "f", "image": "0" * 8 + "-0000-4000-8000-" + "0" * 12, "networks": "none"}
    target = Target(
        node_id=NodeId("n-1"),
        name="web-1",
        physical_id=ident,
        cluster_id=ClusterId("c-1"),
        profile_type=NovaServer.type,
        spec=spec,
    )

    async def scene() -> None:
        async with wiring.watching(paths.settings(tmp_path / "w.db"), watched) as parts:
            for number, kind in enumerate(sorted(parts.nova.operations)):
                done = await parts.nova.submit(
                    Operation(kind=kind, target=target),
                    operation_id=OperationId(f"{number:08d}-0000-4000-8000-000000000000"),
                    deadline_s=60,
                )
                assert done.state is not ProgressState.DONE or "nothing to do" in done.detail, done
            assert (await parts.nova.adopt(target, deadline_s=60)).state != "found"
            assert "not sent" in await parts.nova.capture(target, deadline_s=60)
            (fencer,) = parts.ctx.drivers.fencers.values()
            verdict = await fencer.fence(target, operation_id=OperationId("x"), deadline_s=2)
            assert verdict.proof is None

    asyncio.run(scene())
    assert cloud.writes == []
