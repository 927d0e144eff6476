"""In real eventlet and gevent programs: the endpoint lives outside the hub, and sees it stop."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from health_servers import running, statuses, until, view
from health_wire import Given

from yaffle_health.model import Status
from yaffle_health.reader import Target

EVENTLET = """
import warnings
warnings.simplefilter("ignore")
import eventlet
eventlet.monkey_patch()
from eventlet import sleep, spawn
import eventlet.patcher
block = eventlet.patcher.original("time").sleep
"""
GEVENT = """
from gevent import monkey
monkey.patch_all()
from gevent import sleep, spawn
block = monkey.get_original("time", "sleep")
"""
# Nothing but greenlets and the endpoint: a heart that beats on the hub, and orders by files.
PROGRAM = """
import os, pathlib, sys
import yaffle_health
from yaffle_health import prefork
from yaffle_health.escalation import Connection

manager = yaffle_health.Manager(description="green")
yaffle_health.set_default(manager)
manager.register("hub", groups=("live",), ttl_s=0, fail_after_s=0.6)
here = pathlib.Path(os.getcwd())

@yaffle_health.healthcheck("database", [ConnectionError])
def query(lost):
    sleep(0)
    if lost:
        raise ConnectionError("lost")

def beat():
    while True:
        manager.passed("hub")
        sleep(0.05)

def work():
    while True:
        try:
            query((here / "lose").exists())
        except ConnectionError:
            pass
        sleep(0.01)

def gathered():
    # A view of other workers, asked for by a greenlet: it must come back.
    while True:
        workers = prefork.Workers(here / "run", fresh_s=0, timeout_s=30).health()
        manager.report("view", workers.status, str([c.output for c in workers.checks]))
        sleep(0.1)

spawn(beat)
for _ in range(20):
    spawn(work)
yaffle_health.serve(manager, uri=f"unix://{here}/health.sock", required=True)
prefork.serve_worker(manager, here / "run", required=True, group="live")
prefork.gather(here / "run", uri=f"unix://{here}/all.sock", required=True)
spawn(gathered)
while True:
    while (here / "block").exists():
        block(0.05)
    sleep(0.02)
"""


@pytest.fixture(params=["eventlet", "gevent"])
def program(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    patch = EVENTLET if request.param == "eventlet" else GEVENT
    (tmp_path / "program.py").write_text(patch + PROGRAM)
    with running([sys.executable, "program.py"], tmp_path):
        until(lambda: view(Target(path=f"{tmp_path}/health.sock")), lambda r: r.status is not None)
        yield tmp_path


def test_decorators_and_greenlets(program: Path) -> None:
    target = Target(path=f"{program}/health.sock")
    until(lambda: view(target), lambda r: r.status is Status.PASS)
    (program / "lose").touch()
    # The heart fails it as well where the whole program is held up.
    reading = until(
        lambda: view(target), lambda r: statuses(r).get(("database", None)) is Status.FAIL
    )
    assert reading.status is Status.FAIL
    (program / "lose").unlink()
    until(lambda: view(target), lambda r: r.status is Status.PASS)


def test_a_blocked_hub_is_seen_from_outside_it(program: Path) -> None:
    target = Target(path=f"{program}/health.sock", request="/health?group=live")
    # A heart that has not beaten yet cannot stop.
    until(lambda: view(target), lambda r: statuses(r).get(("hub", None)) is Status.PASS)
    (program / "block").touch()
    reading = until(lambda: view(target), lambda r: r.status is Status.FAIL)
    with Given() as given:
        assert view(target).status is Status.FAIL
        assert given.s < 1
    assert statuses(reading)["hub", None] is Status.FAIL
    (program / "block").unlink()
    until(lambda: view(target), lambda r: r.status is Status.PASS)


def test_the_view_of_workers_from_a_greenlet_and_from_the_endpoints_thread(program: Path) -> None:
    # Where the program is held up its heart, or a worker, is told of for a moment.
    until(
        lambda: view(Target(path=f"{program}/health.sock")),
        lambda r: statuses(r).get(("view", None)) is Status.PASS and r.status is Status.PASS,
    )
    until(
        lambda: view(Target(path=f"{program}/all.sock")),
        lambda r: (r.status, r.disagreements) == (Status.PASS, ()),
    )


@pytest.mark.parametrize("patch", [EVENTLET, GEVENT], ids=["eventlet", "gevent"])
def test_the_reader_in_a_patched_program(patch: str, tmp_path: Path) -> None:
    """Nobody there, by name and by socket: both answers come, with and without a hub's thread."""
    (tmp_path / "asking.py").write_text(
        patch
        + """
from yaffle_health.reader import Target, read
print(read(Target(path="/nowhere.sock"), timeout_s=30).problem)
print(read(Target(host="localhost", port=1), timeout_s=30).problem)
"""
    )
    ran = subprocess.run(
        [sys.executable, "asking.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert ran.stdout.split() == ["missing", "refused"]
