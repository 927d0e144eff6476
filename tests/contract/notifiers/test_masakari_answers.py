"""What the `masakari` alert driver makes of answers that a real Masakari gives seldom, or never."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.contract.notifiers.masakari import NOW_S, at, failure, host, send
from tests.contract.notifiers.receiver import Receiver, receiver, say

from yaffle.drivers.alerts.masakari import MasakariAlerts
from yaffle.engine.runtime.clock import SystemClock
from yaffle.errors import ConfigError
from yaffle.model.operations import Delivery
from yaffle.ports.context import DriverContext

DUPLICATE = b'{"conflictingRequest": {"code": 409, "message": "Notification is duplicate."}}'
UNKNOWN = b'{"badRequest": {"code": 400, "message": "Host with name h could not be found."}}'


def led_to(there: Receiver, tmp_path: Path) -> MasakariAlerts:
    """Return the driver for a receiver in place of Masakari."""
    clouds = tmp_path / "clouds.yaml"
    cloud = {"auth_type": "admin_token", "auth": {"endpoint": there.url, "token": "t"}}
    clouds.write_text(json.dumps({"clouds": {"lab": cloud}}))
    return at(clouds)


def test_what_is_sent_is_the_same_at_every_attempt(tmp_path: Path) -> None:
    with receiver(say(202, b"{}")) as there:
        ours, same = led_to(there, tmp_path), failure(host())
        for _ in range(2):
            assert send(ours, same)[0] is Delivery.ACCEPTED
    first, second = [json.loads(seen.body)["notification"] for seen in there.seen]
    assert first == second
    assert first == {
        "type": "COMPUTE_HOST",
        "hostname": same.hostname,
        "generated_time": "2026-09-21T14:13:20Z",
        "payload": {"event": "STOPPED", "host_status": "NORMAL", "cluster_status": "OFFLINE"},
    }
    assert same.generated_s == NOW_S


@pytest.mark.parametrize("status", [400, 403, 413, 422])
def test_what_it_will_not_take_as_things_are_is_refused(tmp_path: Path, status: int) -> None:
    with receiver(say(status, UNKNOWN)) as there:
        got, said = send(led_to(there, tmp_path), failure(host()))
    assert (got, "could not be found" in said) == (Delivery.REFUSED, True)


@pytest.mark.parametrize("status", [401, 429, 500, 502, 503])
def test_what_says_nothing_of_the_failure_is_tried_again(tmp_path: Path, status: int) -> None:
    with receiver(say(status)) as there:
        got, said = send(led_to(there, tmp_path), failure(host()))
    assert got is Delivery.RETRY, said


def test_another_notification_at_that_time_is_not_the_failure(tmp_path: Path) -> None:
    name = host()
    back = {
        "notification_uuid": "n1",
        "generated_time": "2026-09-21T14:13:00.000000",
        "status": "finished",
        "payload": {"event": "STARTED", "host_status": "NORMAL", "cluster_status": "ONLINE"},
    }
    answers = (
        {"segments": [{"uuid": "s1", "name": "all"}]},
        {"hosts": [{"uuid": "h1", "name": name}]},
        {"notifications": [back]},
    )
    told = [say(200, json.dumps(answer).encode()) for answer in answers]
    with receiver(say(409, DUPLICATE), *told) as there:
        got, said = send(led_to(there, tmp_path), failure(name))
    assert (got, "none is listed" in said) == (Delivery.REFUSED, True)


def test_a_duplicate_that_cannot_be_looked_up_is_not_taken_for_told(tmp_path: Path) -> None:
    with receiver(say(409, DUPLICATE), say(503)) as there:
        got, said = send(led_to(there, tmp_path), failure(host()))
    assert got is Delivery.RETRY, said


@pytest.mark.parametrize(
    ("settings", "named"),
    [({}, "alerts.m.cloud"), ({"cloud": "x", "nmaes": {}}, "alerts.m.nmaes")],
)
def test_wrong_settings_are_named(settings: dict[str, object], named: str) -> None:
    context = DriverContext(
        clock=SystemClock(), state_dir=Path(), settings=settings, section="alerts.m"
    )
    with pytest.raises(ConfigError) as error:
        MasakariAlerts(context)
    assert named in str(error.value)
