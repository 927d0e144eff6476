"""The one view of many workers: the worst counts, the gone leave it, the silent fail it."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import health_peers as peers
import pytest
from health_servers import running, until, view
from health_wire import Given

from yaffle_health.errors import BadOption, UnknownGroup
from yaffle_health.manager import Manager
from yaffle_health.model import Health, Status
from yaffle_health.prefork import Workers, gather, serve_worker
from yaffle_health.prefork.workers import Worker, _remove
from yaffle_health.reader import Problem, Reading, Target, read


def patient(place: Path, **options: Any) -> Workers:
    """A view that waits for a worker that is merely held up."""
    return Workers(place, **({"timeout_s": 30} | options))


def saying(status: str, **checks: list[dict[str, str]]) -> peers.Script:
    body = json.dumps({"status": status, "description": "api", "checks": checks})
    return peers.saying(peers.answer(503 if status == "fail" else 200, body))


def found(health: Health) -> dict[tuple[str, str | None], Status]:
    return {(c.name, c.component_id): c.status for c in health.checks}


def test_the_worst_worker_counts_and_each_keeps_its_name(tmp_path: Path) -> None:
    well = saying("pass", db=[{"status": "pass"}])
    ill = saying("fail", db=[{"status": "fail", "output": "lost", "componentId": "main"}])
    with peers.listening(tmp_path / "11.sock", well), peers.listening(tmp_path / "12.sock", ill):
        health = patient(tmp_path).health()
    assert health.status is Status.FAIL
    assert found(health) == {
        ("db", "11"): Status.PASS,
        ("db", "12/main"): Status.FAIL,
        ("workers", None): Status.PASS,
    }
    assert health.checks[1].output == "lost"
    assert health.service.description == "api"


def test_a_worker_that_is_gone_leaves_the_view_and_its_socket_is_removed(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(tmp_path / "7.sock"))
    with peers.listening(tmp_path / "8.sock", saying("pass")):
        health = patient(tmp_path).health()
    assert (health.status, found(health)) == (Status.PASS, {("workers", None): Status.PASS})
    assert not (tmp_path / "7.sock").exists()
    assert (tmp_path / "8.sock").exists()


def test_a_worker_that_is_there_and_silent_fails_the_view_in_bounded_time(tmp_path: Path) -> None:
    frozen = [socket.socket(socket.AF_UNIX) for _ in range(5)]
    for number, one in enumerate(frozen, 1):
        one.bind(str(tmp_path / f"{number}.sock"))
        one.listen()
    with peers.listening(tmp_path / "8.sock", saying("pass")), Given() as given:
        health = Workers(tmp_path, timeout_s=0.3).health()
        assert given.s < 2
    assert health.status is Status.FAIL
    assert found(health)["worker", "3"] is Status.FAIL
    output = next(c.output for c in health.checks if c.component_id == "3")
    assert output is not None
    assert output.startswith("timeout: no answer within 0.3 s")
    assert (tmp_path / "3.sock").exists()
    for one in frozen:
        one.close()


def test_no_worker_at_all_is_a_failure_and_fewer_than_expected_a_warning(tmp_path: Path) -> None:
    assert patient(tmp_path).health().status is Status.FAIL
    assert patient(tmp_path / "not-there-yet").health().status is Status.FAIL
    with peers.listening(tmp_path / "8.sock", saying("pass")):
        assert patient(tmp_path).health().status is Status.PASS
        health = patient(tmp_path, expected=2).health()
    assert health.status is Status.WARN
    assert health.checks[0].output == "1 of 2 workers are there"


def test_a_socket_that_has_been_replaced_meanwhile_is_left_alone(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(tmp_path / "7.sock"))
    (found,) = patient(tmp_path)._sockets()
    pid, path, inode = found
    refused = Reading(address="", took_s=0, problem=Problem.REFUSED)
    _remove(Worker(pid=pid, path=path, inode=inode + 1, reading=refused))
    assert path.exists()
    _remove(Worker(pid=pid, path=path, inode=inode, reading=refused))
    assert not path.exists()


@pytest.mark.parametrize("name", ["a.sock", "8.socket", ".12ab", "08.sock", "8.sock.x", "-8.sock"])
def test_other_files_are_none_of_its_business(tmp_path: Path, name: str) -> None:
    (tmp_path / "5.sock").write_text("a file")
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(tmp_path / name))
    assert patient(tmp_path).read() == ()
    assert (tmp_path / name).exists()
    assert (tmp_path / "5.sock").exists()


def test_a_worker_that_talks_nonsense_warns_and_is_not_removed(tmp_path: Path) -> None:
    html = peers.saying(peers.answer(200, "<html>"))
    garbage = peers.saying(b"\0\1\2\r\n")
    with peers.listening(tmp_path / "1.sock", html), peers.listening(tmp_path / "2.sock", garbage):
        health = patient(tmp_path).health()
    told = found(health)
    assert (told["worker", "1"], told["worker", "2"]) == (Status.WARN, Status.FAIL)
    assert health.status is Status.FAIL


def test_groups_are_asked_for_and_an_unknown_one_is_unknown(tmp_path: Path) -> None:
    manager = Manager()
    manager.register("loop", groups=("live",))
    manager.passed("loop")
    manager.report("database", "fail", "lost")
    with serve_worker(manager, tmp_path) as endpoint:
        assert endpoint.failures == ()
        workers = patient(tmp_path)
        assert workers.health().status is Status.FAIL
        live = workers.health("live")
        assert live.status is Status.PASS
        assert "database" not in {c.name for c in live.checks}
        with pytest.raises(UnknownGroup):
            workers.health("nonsense & more")
        with pytest.raises(UnknownGroup):
            workers.health("live&format=nova")


def test_a_hundred_probes_a_second_are_not_a_hundred_questions(tmp_path: Path) -> None:
    asked: list[int] = []

    def script(connection: socket.socket) -> None:
        asked.append(1)
        saying("pass")(connection)

    with peers.listening(tmp_path / "8.sock", script):
        workers = patient(tmp_path, fresh_s=30)
        for _ in range(50):
            workers.health()
        assert len(asked) == 1
        workers.health("live")
        assert len(asked) == 2


def test_groups_that_are_made_up_do_not_fill_the_memory(tmp_path: Path) -> None:
    workers = patient(tmp_path)
    for number in range(100):
        assert workers.health(f"made-up-{number}").status is Status.FAIL
    assert len(workers._last) <= 16


def test_the_gathered_view_is_an_endpoint_of_its_own(tmp_path: Path) -> None:
    manager = Manager(description="api")
    manager.report("database", "warn", "slow")
    place = tmp_path / "run" / "workers"
    with (
        serve_worker(manager, place),
        gather(
            place, uri=f"unix://{tmp_path}/all.sock", expected=1, description="all", timeout_s=30
        ) as view,
    ):
        assert place.stat().st_mode & 0o777 == 0o700
        assert [str(a) for a in view.addresses] == [f"unix://{tmp_path}/all.sock"]
        reading = read(Target(path=f"{tmp_path}/all.sock"), timeout_s=60)
    assert (reading.status, reading.disagreements) == (Status.WARN, ())
    assert reading.health is not None
    assert reading.health.service.description == "all"
    database = reading.health.checks[0]
    assert (database.name, database.output) == ("database", "slow")
    assert database.component_id is not None
    assert database.component_id.isdigit()


def test_an_expired_item_stays_expired_through_the_view(tmp_path: Path) -> None:
    now = [1000.0]
    manager = Manager(ttl_s=10, clock=lambda: now[0])
    manager.report("database", "fail", "lost")
    now[0] += 11
    manager.passed("bus")
    with serve_worker(manager, tmp_path):
        health = patient(tmp_path).health()
    database = next(c for c in health.checks if c.name == "database")
    assert (database.status, database.expired) == (Status.WARN, True)
    assert database.last_status is Status.FAIL
    assert health.status is Status.WARN


def test_a_directory_that_everybody_writes_to_is_refused_but_stops_no_server(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tmp_path.chmod(0o777)
    refused = serve_worker(Manager(), tmp_path)
    assert refused.addresses == ()
    assert "everybody may write" in str(refused.failures[0])
    assert "everybody may write" in caplog.text
    assert gather(tmp_path, uri="tcp://127.0.0.1:1").addresses == ()
    for call in (
        lambda: serve_worker(Manager(), tmp_path, required=True),
        lambda: serve_worker(Manager(), "relative", required=True),
        lambda: gather(tmp_path, uri="tcp://127.0.0.1:1", required=True),
        lambda: Workers("/etc/hostname"),
        lambda: Workers("/tmp", expected=-1),
        lambda: Workers(tmp_path / "x", timeout_s=0),
    ):
        with pytest.raises(BadOption):
            call()


def test_a_path_too_long_names_the_option(tmp_path: Path) -> None:
    refused = serve_worker(Manager(), tmp_path / ("x" * 100))
    assert "107" in str(refused.failures[0])


def test_the_command_gathers_until_it_is_told_to_stop(tmp_path: Path) -> None:
    manager = Manager(description="api")
    whole = Target(path=f"{tmp_path}/all.sock")
    arguments = ["gather", f"{tmp_path}/run", "--uri", f"unix://{whole.path}", "--workers", "1"]
    with running([sys.executable, "-m", "yaffle_health", *arguments], tmp_path) as process:
        # Before there is a directory, too: workers may come later.
        until(lambda: view(whole), lambda r: r.status is Status.FAIL)
        with serve_worker(manager, tmp_path / "run"):
            until(lambda: view(whole), lambda r: r.status is Status.PASS)
        until(lambda: view(whole), lambda r: r.status is Status.FAIL)
        process.terminate()
        assert process.wait(60) == 0
    assert not Path(whole.path or "").exists()
    assert (tmp_path / "log").read_text() == f"listening on unix://{whole.path}\n"


def test_the_command_says_why_it_cannot_gather(tmp_path: Path) -> None:
    with peers.listening(None, saying("pass")) as taken:
        uri = f"tcp://127.0.0.1:{peers.port_of(taken)}"
        arguments = [sys.executable, "-m", "yaffle_health", "gather", str(tmp_path), "--uri", uri]
        ran = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stdout) == (64, "")
    assert uri in ran.stderr
    assert "Traceback" not in ran.stderr
