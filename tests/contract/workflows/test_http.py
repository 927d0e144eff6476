"""The HTTP workflow against services that lose answers, lie, hang and forget."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import textwrap
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest
import structlog
from tests.contract.notifiers.clock import START_US, SetClock
from tests.contract.notifiers.receiver import Manner, Receiver, raw, receiver, reset, say
from tests.contract.workflows.targets import NODE

from yaffle.drivers.workflows.http import HttpWorkflow
from yaffle.errors import ConfigError, InvalidSpec
from yaffle.integrations.signing import verify
from yaffle.model.ids import OperationId
from yaffle.model.operations import Progress, ProgressState
from yaffle.ports.context import DriverContext

SECRET = "a-secret-of-the-service"
OP = OperationId("op-1")
NOBODY = "http://127.0.0.1:1/"
RUNNING, DONE, FAILED, ABSENT = (
    ProgressState.RUNNING,
    ProgressState.DONE,
    ProgressState.FAILED,
    ProgressState.ABSENT,
)


@dataclass
class Side:
    """One engine's view: a driver over a state directory; `again()` is its successor."""

    state_dir: Path
    endpoint: dict[str, object]
    clock: SetClock
    enabled: bool = True
    deny: tuple[str, ...] | None = None

    def driver(self) -> HttpWorkflow:
        settings = {"enabled": self.enabled, "endpoints": {"heal": self.endpoint}}
        return HttpWorkflow(
            DriverContext(
                clock=self.clock,
                state_dir=self.state_dir,
                settings=settings,
                deny_networks=self.deny,
            )
        )

    def submit(self, name: str = "heal", deadline_s: float = 60, **params: object) -> Progress:
        return asyncio.run(
            self.driver().submit(
                name, params, NODE, operation_id=OP, timeout_s=60, deadline_s=deadline_s
            )
        )

    def poll(self, deadline_s: float = 60) -> Progress:
        return asyncio.run(self.driver().poll("heal", NODE, operation_id=OP, deadline_s=deadline_s))


def side(tmp_path: Path, there: Receiver, *, poll: bool = False, **settings: object) -> Side:
    endpoint = {"url": f"{there.url}/run", "secret": SECRET, "timeout": 30, **settings}
    if poll:
        endpoint["poll_url"] = there.url + "/jobs/{operation_id}"
    return Side(tmp_path, endpoint, SetClock())


def job(status: str, detail: str = "") -> Manner:
    return say(200, json.dumps({"status": status, "detail": detail}).encode())


def asked(there: Receiver) -> list[str]:
    return [f"{seen.method} {seen.path}" for seen in there.seen]


def test_one_request_as_documented(tmp_path: Path) -> None:
    with receiver(say(204)) as there:
        engine = side(tmp_path, there)
        assert engine.submit(zone="a").state is DONE
        assert engine.poll().state is DONE
    (seen,) = there.seen
    assert json.loads(seen.body) == {
        "operation_id": "op-1",
        "workflow": "heal",
        "timeout_s": 60,
        "node": {
            "id": "node-1",
            "name": "web-1",
            "physical_id": "server-1",
            "cluster_id": "cluster-1",
            "cluster_name": "web",
            "profile_type": "yaffle.local.process-1.0",
            "attributes": {"node_ip": "10.0.0.7"},
        },
        "params": {"zone": "a"},
    }
    assert seen.headers["Idempotency-Key"] == "op-1"
    assert verify(SECRET.encode(), seen.headers, seen.body, now_s=START_US / 1e6) == "op-1"


@pytest.mark.parametrize(
    ("manner", "state"),
    [
        pytest.param(say(200), DONE, id="200"),
        pytest.param(say(200, b"garbage"), DONE, id="200-garbage"),
        pytest.param(job("running"), RUNNING, id="200-running"),
        pytest.param(job("ok"), RUNNING, id="200-with-another-word"),
        pytest.param(say(200, b'{"status": {"state": "failed"}}'), RUNNING, id="200-with-no-word"),
        pytest.param(say(200, b'{"status": null, "id": 7}'), DONE, id="200-without-a-word"),
        pytest.param(
            say(200, b'{"status": "fai', **{"Content-Type": "application/json"}),
            RUNNING,
            id="200-with-half-a-document",
        ),
        pytest.param(job("failed"), FAILED, id="200-failed"),
        pytest.param(say(202), RUNNING, id="202"),
        pytest.param(say(301, Location="/x"), FAILED, id="301"),
        pytest.param(say(400), FAILED, id="400"),
        pytest.param(say(409), FAILED, id="409-first"),
        pytest.param(say(429), RUNNING, id="429"),
        pytest.param(say(500), FAILED, id="500"),
        pytest.param(say(501), FAILED, id="501"),
        *(pytest.param(say(n), RUNNING, id=f"{n}-of-a-gateway") for n in (502, 503, 504)),
        pytest.param(say(503, b'{"status": "failed"}'), FAILED, id="503-failed"),
        pytest.param(reset, RUNNING, id="reset"),
        pytest.param(raw(b"nonsense\r\n"), RUNNING, id="not-http"),
        pytest.param(raw(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"), RUNNING, id="cut"),
        pytest.param(say(200, b"[" * 60_000), DONE, id="deep-json"),
        pytest.param(say(200, b" " * 9_000_000), DONE, id="huge"),
    ],
)
def test_what_each_answer_to_the_post_means(
    tmp_path: Path, manner: Manner, state: ProgressState
) -> None:
    with receiver(manner) as there:
        progress = side(tmp_path, there).submit()
    assert progress.state is state, progress.detail
    assert asked(there) == ["POST /run"]


def test_accepted_work_is_asked_for_at_its_location_by_a_successor(tmp_path: Path) -> None:
    manners = [say(202, Location="/jobs/7"), job("running"), say(503), job("done", "moved")]
    with receiver(*manners) as there:
        engine = side(tmp_path, there)
        assert engine.submit().state is RUNNING
        assert [engine.poll().state for _ in range(3)] == [RUNNING, RUNNING, DONE]
        assert engine.poll() == Progress(state=DONE, detail="200: moved")
        assert engine.submit().state is DONE
    assert asked(there) == ["POST /run", *["GET /jobs/7"] * 3]
    for seen in there.seen:
        assert verify(SECRET.encode(), seen.headers, seen.body, now_s=START_US / 1e6) == "op-1"


def test_a_location_of_another_origin_gets_no_signed_question(tmp_path: Path) -> None:
    with receiver() as elsewhere, receiver(say(202, Location=elsewhere.url)) as there:
        engine = side(tmp_path, there)
        engine.submit()
        progress = engine.poll()
        assert (progress.state, elsewhere.seen, len(there.seen)) == (RUNNING, [], 1)
        assert "poll_url" in progress.detail


@pytest.mark.parametrize("lost", [reset, say(503), say(504)])
def test_a_lost_answer_is_repeated_to_the_byte_with_the_same_key(
    tmp_path: Path, lost: Manner
) -> None:
    with receiver(lost, say(409), say(200)) as there:
        engine = side(tmp_path, there)
        assert [engine.submit().state, engine.poll().state] == [RUNNING, RUNNING]
        assert engine.submit().state is DONE
    assert {seen.body for seen in there.seen} == {there.seen[0].body}
    assert [seen.headers["Idempotency-Key"] for seen in there.seen] == ["op-1"] * 3


def test_a_lost_answer_is_asked_for_before_it_is_repeated(tmp_path: Path) -> None:
    with receiver(reset, job("running"), say(404)) as there:
        engine = side(tmp_path, there, poll=True)
        states = [engine.submit().state, *(engine.poll().state for _ in range(3))]
    assert states == [RUNNING, RUNNING, ABSENT, ABSENT]
    # It knew and has forgotten: starting it a second time is nobody's decision but the ladder's.
    assert asked(there)[:3] == ["POST /run", "GET /jobs/op-1", "GET /jobs/op-1"]
    assert asked(there).count("POST /run") == 1


def test_a_post_that_never_arrived_is_repeated_when_the_service_says_so(tmp_path: Path) -> None:
    with receiver(reset, say(404), say(200)) as there:
        engine = side(tmp_path, there, poll=True)
        assert [engine.submit().state, engine.poll().state] == [RUNNING, DONE]
    assert asked(there) == ["POST /run", "GET /jobs/op-1", "POST /run"]


@pytest.mark.parametrize("key", ["detail", "reason"])
def test_what_the_service_says_of_its_failure_is_what_is_told(tmp_path: Path, key: str) -> None:
    told = json.dumps({"status": "failed", key: "no spare host\nleft"}).encode()
    with receiver(say(202, Location="/jobs/7"), say(200, told), say(500, told)) as there:
        engine = side(tmp_path / "asked", there)
        engine.submit()
        assert engine.poll() == Progress(state=FAILED, detail="200: no spare host left")
        again = side(tmp_path / "sent", there)
        assert again.submit() == Progress(state=FAILED, detail="500: no spare host left")
        assert (
            again.poll()
            == again.submit()
            == Progress(state=FAILED, detail="500: no spare host left")
        )
    assert asked(there) == ["POST /run", "GET /jobs/7", "POST /run"]


def test_a_plain_answer_is_told_as_it_was_said(tmp_path: Path) -> None:
    plain = {"Content-Type": "text/plain; charset=utf-8"}
    with receiver(say(500, b"disk full\n", **plain), say(500, b"<h1>Oops</h1>")) as there:
        assert side(tmp_path / "one", there).submit().detail == "500: disk full"
        assert side(tmp_path / "two", there).submit().detail == "500"


def test_a_refused_connection_ends_it_at_once_and_says_nothing_of_the_service(
    tmp_path: Path,
) -> None:
    """Nothing can have been begun, so there is nothing to wait for; whether it helps nobody said."""
    with receiver() as there:
        engine = side(tmp_path, there)
        engine.endpoint["url"] = NOBODY
        done = engine.submit()
    assert done == Progress.not_begun("nothing was begun: Connection refused")
    assert engine.poll() == done


@pytest.mark.parametrize("lost", [reset, say(503)])
@pytest.mark.parametrize("after", ["refused", "500"])
def test_what_may_have_begun_is_not_ended_by_a_later_refusal(
    tmp_path: Path, lost: Manner, after: str
) -> None:
    """The first request may have arrived: that the service fails now says nothing of that."""
    with receiver(lost, *[say(500)] * (after == "500"), say(200)) as there:
        engine = side(tmp_path, there)
        assert engine.submit().state is RUNNING
        good = engine.endpoint["url"]
        if after == "refused":
            engine.endpoint["url"] = NOBODY
        assert engine.poll().state is RUNNING
        engine.endpoint["url"] = good
        assert engine.poll().state is DONE


def test_a_service_that_does_not_deduplicate_is_never_sent_it_twice(tmp_path: Path) -> None:
    with receiver(reset, say(200)) as there:
        engine = side(tmp_path, there, deduplicates=False)
        states = [engine.submit().state, engine.poll().state, engine.submit().state]
        assert states == [RUNNING] * 3
        engine.clock.us += 61_000_000
        late = engine.poll()
        assert late.state is FAILED
        assert "outcome unknown" in late.detail
    assert len(there.seen) == 1


def test_what_was_surely_not_sent_is_sent_later_even_there(tmp_path: Path) -> None:
    with receiver(say(429), say(200)) as there:
        engine = side(tmp_path, there, deduplicates=False)
        good = engine.endpoint["url"]
        engine.endpoint["url"] = "http://no-such-host.invalid/"
        lost = engine.submit()
        assert (lost.state, lost.detail.startswith("not sent yet: ")) == (RUNNING, True), lost
        engine.endpoint["url"] = good
        assert [engine.poll().state, engine.poll().state] == [RUNNING, DONE]
    assert len(there.seen) == 2


def test_silence_is_failure_only_after_the_workflows_own_timeout(tmp_path: Path) -> None:
    with receiver() as there, receiver(say(200)) as later:
        there.manners = [there.hang]
        engine = side(tmp_path, there)
        assert engine.submit(deadline_s=0.3).state is RUNNING
        engine.clock.us += 59_000_000
        assert engine.poll(deadline_s=0.4).state is RUNNING
        engine.clock.us += 2_000_000
        # Somewhere else: what was sent before may be taken note of as late as now.
        engine.endpoint["url"] = later.url
        assert engine.poll(deadline_s=60).state is FAILED
        assert later.seen == []


def test_a_slow_drip_ends_at_the_deadline(tmp_path: Path) -> None:
    with receiver() as there:
        there.manners = [there.drip]
        progress = side(tmp_path, there, timeout=0.5).submit()
    assert progress == Progress(state=RUNNING, detail="no whole answer within 0.5 s")


def test_another_machine_without_the_record_asks_the_service(tmp_path: Path) -> None:
    with receiver(say(202), job("running"), say(404)) as there:
        side(tmp_path / "one", there, poll=True).submit()
        other = side(tmp_path / "two", there, poll=True)
        assert [other.poll().state, other.poll().state] == [RUNNING, ABSENT]
        assert side(tmp_path / "three", there).poll().state is ABSENT
    assert asked(there) == ["POST /run", "GET /jobs/op-1", "GET /jobs/op-1"]


ENGINE = """
    import asyncio, sys
    from pathlib import Path
    from tests.contract.workflows.test_http import Side
    from tests.contract.notifiers.clock import SetClock
    endpoint = {"url": sys.argv[2], "secret": "a-secret-of-the-service", "timeout": 30}
    Side(Path(sys.argv[1]), endpoint, SetClock()).submit(deadline_s=30)
"""


def test_an_engine_killed_inside_the_post_leaves_a_record_for_its_successor(
    tmp_path: Path,
) -> None:
    with receiver() as there:
        engine = side(tmp_path, there)
        begun = threading.Event()

        def kill(_handler: object, _seen: object) -> None:
            assert begun.wait(60)
            process.kill()

        there.manners = [kill, say(202, Location="/jobs/1"), job("done")]
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(ENGINE), str(tmp_path), f"{there.url}/run"],
            cwd=Path(__file__).parents[3],
        )
        begun.set()
        assert process.wait(60) == -9
        assert [engine.poll().state, engine.poll().state] == [RUNNING, DONE]
    bodies = {seen.body for seen in there.seen if seen.method == "POST"}
    assert len(bodies) == 1
    assert asked(there) == ["POST /run", "POST /run", "GET /jobs/1"]


def test_a_denied_address_gets_nothing(tmp_path: Path) -> None:
    with receiver() as there:
        engine = side(tmp_path, there)
        engine.deny = ("127.0.0.0/8",)
        progress = engine.submit()
        assert progress == Progress.not_begun(progress.detail)
        assert progress.detail.startswith("nothing was begun: address refused")
        assert engine.poll() == progress
    assert there.seen == []


def test_off_means_off(tmp_path: Path) -> None:
    with receiver() as there:
        engine = side(tmp_path, there)
        engine.enabled = False
        assert engine.submit() == Progress.not_begun(engine.submit().detail)
        assert "drivers.HTTP.enabled" in engine.submit().detail
        with pytest.raises(InvalidSpec, match=r"drivers\.HTTP\.enabled"):
            engine.driver().validate("heal", {})
    assert there.seen == []


def test_faults_of_a_policy_are_named_together(tmp_path: Path) -> None:
    with receiver() as there:
        engine = side(tmp_path, there, in_place=True)
        with pytest.raises(InvalidSpec) as error:
            engine.driver().validate("http://evil/", {"x": object()})
        assert len(error.value.problems) == 2
        engine.driver().validate("heal", {"x": [1, None, "y"]})
        unknown = engine.submit("http://evil/")
        assert unknown == Progress.not_begun(unknown.detail)
        assert (engine.driver().in_place("heal"), engine.driver().in_place("x")) == (True, False)
    assert there.seen == []


def test_damaged_and_unwritable_records_are_not_guessed_at(tmp_path: Path) -> None:
    with receiver(say(202)) as there:
        engine = side(tmp_path, there)
        engine.submit()
        (record,) = (tmp_path / "workflows" / "http").iterdir()
        assert record.stat().st_mode & 0o777 == 0o600
        record.write_bytes(b"{")
        assert engine.poll().state is RUNNING
        assert engine.submit().state is RUNNING
        blocked = Side(tmp_path / "file", engine.endpoint, SetClock())
        (tmp_path / "file").write_bytes(b"")
        # That is no word of the service: nothing stronger may follow from it.
        unwritten = blocked.submit()
        assert unwritten == Progress.not_begun(unwritten.detail)
        assert "could not be recorded" in unwritten.detail
    assert len(there.seen) == 1


def test_secrets_are_seen_by_the_service_alone(tmp_path: Path) -> None:
    said = json.dumps({"detail": f"{SECRET}, Bearer token-of-the-service"}).encode()
    plain = say(500, SECRET.encode(), **{"Content-Type": "text/plain"})
    with receiver(say(429, said), plain) as there, structlog.testing.capture_logs() as logs:
        engine = side(tmp_path, there, headers={"Authorization": "Bearer token-of-the-service"})
        told = f"{engine.submit()} {engine.poll()} {engine.driver()._settings!r} {logs}"
    told += "".join(path.read_text() for path in tmp_path.rglob("*.json"))
    assert there.seen[0].headers["Authorization"] == "Bearer token-of-the-service"
    for hidden in (SECRET, "token-of-the-service", "spec-is-not-sent"):
        assert hidden not in told


@pytest.mark.parametrize(
    ("endpoint", "named"),
    [
        ({"url": "http://h/", "secret": SECRET, "retries": 3}, "endpoints.heal.retries"),
        ({"url": "/run", "secret": SECRET}, "endpoints.heal.url"),
        ({"url": "http://h/"}, "endpoints.heal.secret"),
        ({"url": "http://h/", "secret": SECRET, "poll_url": "http://h/jobs"}, "poll_url"),
        (
            {"url": "http://h/", "secret": SECRET, "poll_url": "http://i/{operation_id}"},
            "poll_url",
        ),
    ],
)
def test_wrong_settings_are_named(tmp_path: Path, endpoint: dict[str, object], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        Side(tmp_path, endpoint, SetClock()).driver()
