"""The `masakari` alert driver against a real Masakari: a failure is one notification, or is said."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.contract.notifiers.masakari import NOW_S, at, failure, host, send
from tests.servers.masakari import Masakari, masakari
from tests.waiting import wait_for

from yaffle.drivers.alerts.masakari import MasakariAlerts
from yaffle.engine.runtime.clock import SystemClock
from yaffle.model.operations import Delivery
from yaffle.testing import check_alert_driver

# Its packages are installed for the first test that needs it.
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def theirs() -> Iterator[Masakari]:
    with masakari() as server:
        yield server


def driver(theirs: Masakari, tmp_path: Path, **settings: object) -> MasakariAlerts:
    clouds = theirs.clouds(tmp_path / "clouds.yaml")
    return at(clouds, **settings)


def held(theirs: Masakari, since: int = 0) -> list[tuple[str, str, object]]:
    return [(n["type"], n["generated_time"], n["payload"]) for n in theirs.notifications()[since:]]


def test_a_failure_becomes_the_notification_that_its_monitors_send(
    theirs: Masakari, tmp_path: Path
) -> None:
    name, since = host(), len(theirs.notifications())
    theirs.register(name)
    assert send(driver(theirs, tmp_path), failure(name)) == (Delivery.ACCEPTED, "202 Accepted")
    payload = {"event": "STOPPED", "host_status": "NORMAL", "cluster_status": "OFFLINE"}
    assert held(theirs, since) == [("COMPUTE_HOST", "2026-09-21T14:13:20.000000", payload)]


def test_a_repeat_is_accepted_and_is_no_second_notification(
    theirs: Masakari, tmp_path: Path
) -> None:
    name, since = host(), len(theirs.notifications())
    theirs.register(name)
    ours, same = driver(theirs, tmp_path), failure(name)
    send(ours, same)
    (known,) = theirs.notifications()[since:]
    for _ in range(2):
        got, said = send(ours, same)
        assert got is Delivery.ACCEPTED
        assert known["notification_uuid"] in said
    assert len(theirs.notifications()) == since + 1


def test_a_failure_behind_one_that_a_wrong_clock_stamped_ahead_is_not_taken_for_told(
    theirs: Masakari, tmp_path: Path
) -> None:
    name = host()
    theirs.register(name)
    ours = driver(theirs, tmp_path)
    send(ours, failure(name, generated_s=NOW_S + 10**9))
    got, said = send(ours, failure(name))
    assert got is Delivery.REFUSED, said
    assert "duplicate of another failure" in said
    assert "2058" in said


def test_that_the_host_was_back_at_that_time_is_no_failure_told(
    theirs: Masakari, tmp_path: Path
) -> None:
    name = host()
    theirs.register(name)
    theirs.notify(name, "2026-09-21T14:13:00Z", event="STARTED", cluster_status="ONLINE")
    ours = driver(theirs, tmp_path)
    send(ours, failure(name, generated_s=NOW_S + 10**9))
    got, said = send(ours, failure(name))
    assert got is Delivery.REFUSED, said


def test_a_later_failure_of_the_same_host_is_one_of_its_own(
    theirs: Masakari, tmp_path: Path
) -> None:
    name, since = host(), len(theirs.notifications())
    theirs.register(name)
    ours = driver(theirs, tmp_path)
    for generated_s in (NOW_S, NOW_S + 181):
        assert send(ours, failure(name, generated_s=generated_s))[0] is Delivery.ACCEPTED
    assert len(theirs.notifications()) == since + 2


def test_a_host_may_be_called_what_an_answer_says(theirs: Masakari, tmp_path: Path) -> None:
    name = f"under-maintenance.is-duplicate.{host()}"
    theirs.register(name)
    ours = driver(theirs, tmp_path)
    send(ours, failure(name, generated_s=NOW_S + 10**9))
    assert send(ours, failure(name))[0] is Delivery.REFUSED, "it stands behind another one"


def test_a_host_under_maintenance_is_done_and_said(theirs: Masakari, tmp_path: Path) -> None:
    name, since = host(), len(theirs.notifications())
    theirs.register(name, on_maintenance=True)
    got, said = send(driver(theirs, tmp_path), failure(name))
    assert (got, "Masakari recovers nothing there" in said) == (Delivery.ACCEPTED, True)
    assert len(theirs.notifications()) == since


def test_a_host_that_is_not_registered_yet_is_offered_until_it_is(
    theirs: Masakari, tmp_path: Path
) -> None:
    name = host()
    ours, same = driver(theirs, tmp_path), failure(name)
    got, said = send(ours, same)
    assert (got, "could not be found" in said) == (Delivery.REFUSED, True)
    theirs.register(name)
    assert send(ours, same)[0] is Delivery.ACCEPTED


def test_a_host_may_have_another_name_there(theirs: Masakari, tmp_path: Path) -> None:
    name, short = host(), f"cmp-{uuid.uuid4().hex[:8]}"
    theirs.register(short)
    ours = driver(theirs, tmp_path, names={name: short})
    assert send(ours, failure(name))[0] is Delivery.ACCEPTED
    assert send(ours, failure(host()))[0] is Delivery.REFUSED


def test_it_keeps_the_promises_of_the_port(theirs: Masakari, tmp_path: Path) -> None:
    theirs.register("compute1.example.org")
    asyncio.run(check_alert_driver(driver(theirs, tmp_path), clock=SystemClock()))


def test_one_that_is_away_frozen_or_restarted_is_asked_again(tmp_path: Path) -> None:
    with masakari() as theirs:
        name = host()
        theirs.register(name)
        ours, same = driver(theirs, tmp_path), failure(name)
        theirs.kill()
        assert send(ours, same)[0] is Delivery.RETRY
        theirs.start()
        theirs.freeze()
        got, said = send(ours, same, deadline_s=2)
        assert got is Delivery.RETRY, said
        theirs.thaw()
        # It had been heard, and nobody was told so. (Two at the same moment it takes for two itself.)
        wait_for(theirs.notifications)
        assert send(ours, same)[0] is Delivery.ACCEPTED
        assert len(theirs.notifications()) == 1
