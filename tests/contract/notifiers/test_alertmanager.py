"""A failed host is shown by a real Alertmanager until somebody has taken it over."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.contract.notifiers.masakari import failure, host
from tests.contract.notifiers.receiver import receiver, say
from tests.functional.cli.support import Server, wait_for
from tests.servers.alertmanager import Alertmanager, alertmanager

from yaffle.drivers.alerts.alertmanager import LONGEST_S, NAME, AlertmanagerAlerts
from yaffle.engine.runtime.clock import SystemClock
from yaffle.model.operations import Delivery
from yaffle.ports.context import DriverContext
from yaffle.testing import check_alert_driver

SETTINGS = """
[hosts]
on_shared_storage = true

[alerts.recovery]
type = "http_json"
url = "http://127.0.0.1:{port}/"
responsible = true

[alerts.pager]
type = "alertmanager"
url = "{pager}"
"""


@pytest.fixture(scope="module")
def pager() -> Iterator[Alertmanager]:
    with alertmanager() as running:
        yield running


def at(url: str) -> AlertmanagerAlerts:
    return AlertmanagerAlerts(
        DriverContext(clock=SystemClock(), state_dir=Path(), settings={"url": url})
    )


def test_the_kit_finds_nothing(pager: Alertmanager) -> None:
    asyncio.run(check_alert_driver(at(pager.url), clock=SystemClock()))


def of(pager: Alertmanager, name: str) -> list[dict[str, object]]:
    return [one for one in pager.firing() if one["labels"]["host"] == name]


def now_s() -> int:
    return SystemClock().now_us() // 1_000_000


def test_it_fires_once_however_often_it_is_told_and_ends_when_it_is_settled(
    pager: Alertmanager,
) -> None:
    what = failure(host(), generated_s=now_s())
    ours = at(pager.url)
    for _ in range(3):
        delivery, said = asyncio.run(ours.send(what, deadline_s=30))
        assert delivery is Delivery.ACCEPTED, said
    (shown,) = of(pager, what.hostname)
    assert shown["labels"] == {
        "alertname": NAME,
        "severity": "critical",
        "host": what.hostname,
        "failure": what.id,
    }
    assert what.proof in str(shown["annotations"])
    for _ in range(2):
        delivery, said = asyncio.run(ours.resolve(what, deadline_s=30))
        assert delivery is Delivery.ACCEPTED, said
    wait_for(lambda: not of(pager, what.hostname), within_s=30)


def test_two_failures_of_a_host_are_two(pager: Alertmanager) -> None:
    name = host()
    first, second = (failure(name, generated_s=now_s() - ago) for ago in (600, 0))
    for one in (first, second):
        asyncio.run(at(pager.url).send(one, deadline_s=30))
    assert len(of(pager, name)) == 2
    asyncio.run(at(pager.url).resolve(first, deadline_s=30))
    wait_for(lambda: len(of(pager, name)) == 1, within_s=30)


def test_what_it_refuses_is_told(pager: Alertmanager) -> None:
    delivery, said = asyncio.run(at(f"{pager.root}/nowhere").send(failure(host()), deadline_s=30))
    assert delivery is Delivery.REFUSED, said


def test_it_does_not_fire_for_ever() -> None:
    assert LONGEST_S < 366 * 86_400


def test_it_ends_when_the_responsible_controller_has_accepted(
    pager: Alertmanager, tmp_path: Path
) -> None:
    name, config = host(), tmp_path / "yaffle.toml"
    with receiver(say(503), say(503), say(202)) as controller:
        config.write_text(SETTINGS.format(port=controller.port, pager=pager.url))
        server = Server(tmp_path / "state", flags=("--config", str(config)))
        server.start()
        try:
            server.ok("host", "mark", name, "--proof", "power cut")
            wait_for(lambda: of(pager, name), within_s=60)
            wait_for(lambda: len(controller.seen) >= 3, within_s=120)
            wait_for(lambda: not of(pager, name), within_s=60)
        finally:
            assert server.stop() == 0
