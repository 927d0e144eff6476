"""The `http_json` alert driver: seed 3's own JSON, to the letter, signed, over TLS in both directions."""

from __future__ import annotations

import asyncio
import json
import ssl
from dataclasses import replace
from pathlib import Path

import pytest
from tests.contract.notifiers.clock import START_US, SetClock
from tests.contract.notifiers.receiver import Receiver, receiver, say

from yaffle.drivers.alerts.cloudevents import CloudEventsAlerts
from yaffle.drivers.alerts.http_json import HttpJsonAlerts
from yaffle.engine.runtime.clock import SystemClock
from yaffle.errors import ConfigError
from yaffle.integrations.signing import ID_HEADER, SIGNATURE_HEADER, verify
from yaffle.model.host_failure import HostFailure
from yaffle.model.operations import Delivery
from yaffle.ports.context import DriverContext
from yaffle.testing import check_alert_driver

SECRET = "a-secret-of-the-controller"
FAILURE = HostFailure(
    id="b0c1a7c6-3a5e-4a3c-9d0e-6f0d0a7c2c11",
    hostname="compute1.example.org",
    failure_s=1_800_000_000,
    generated_s=1_800_000_012,
    on_shared_storage=False,
    proof="fence_ipmilan off+status: compute1: status said off",
)


def driver(tmp_path: Path, url: str, **settings: object) -> HttpJsonAlerts:
    given = {"url": url, "timeout": 60, **settings}
    context = DriverContext(
        clock=SetClock(), state_dir=tmp_path, settings=given, section="alerts.recovery"
    )
    return HttpJsonAlerts(context)


def send(
    alerts: HttpJsonAlerts, failure: HostFailure = FAILURE, deadline_s: float = 60
) -> tuple[Delivery, str]:
    return asyncio.run(alerts.send(failure, deadline_s=deadline_s))


def test_the_json_is_that_of_the_seed(tmp_path: Path) -> None:
    with receiver(say(202)) as there:
        alerts = driver(tmp_path, there.url + "/failures")
        assert send(alerts) == (Delivery.ACCEPTED, "202 Accepted")
        assert send(alerts, replace(FAILURE, on_shared_storage=True))[0] is Delivery.ACCEPTED
    first, second = there.seen
    assert (first.method, first.path) == ("POST", "/failures")
    assert first.headers["Content-Type"] == "application/json"
    assert first.headers["Idempotency-Key"] == FAILURE.id
    # Compared as text: a number that is a float, or true as 1, would be equal as Python's objects.
    assert first.body.decode() == (
        '{"id":"b0c1a7c6-3a5e-4a3c-9d0e-6f0d0a7c2c11","event_type":"host failure","version":"1.0",'
        '"generated_time":1800000012,"payload":{"hostname":"compute1.example.org",'
        '"on_shared_storage":false,"failure_time":1800000000}}'
    )
    assert json.loads(second.body)["payload"]["on_shared_storage"] is True


def test_a_cloudevent_has_the_same_payload_and_the_failures_own_id_and_time(tmp_path: Path) -> None:
    with receiver(say(202)) as there:
        context = DriverContext(
            clock=SetClock(), state_dir=tmp_path, settings={"url": there.url, "secret": SECRET}
        )
        events = CloudEventsAlerts(context)
        for _ in range(2):
            assert asyncio.run(events.send(FAILURE, deadline_s=60))[0] is Delivery.ACCEPTED
        asyncio.run(check_alert_driver(events, clock=SystemClock()))
    first, second, *_ = there.seen
    assert first.body == second.body
    assert first.headers["Content-Type"] == "application/cloudevents+json"
    assert verify(SECRET.encode(), first.headers, first.body, now_s=START_US / 1e6) == FAILURE.id
    assert json.loads(first.body) == {
        "specversion": "1.0",
        "id": FAILURE.id,
        "source": "/yaffle/hosts",
        "type": "yaffle.host.failure",
        "subject": "compute1.example.org",
        "time": "2027-01-15T08:00:12Z",
        "datacontenttype": "application/json",
        "data": {
            "hostname": "compute1.example.org",
            "on_shared_storage": False,
            "failure_time": 1_800_000_000,
        },
    }


def test_with_a_secret_it_is_signed_and_without_it_is_not(tmp_path: Path) -> None:
    with receiver(say(200)) as there:
        send(driver(tmp_path, there.url, secret=SECRET))
        send(driver(tmp_path, there.url))
    signed, plain = there.seen
    assert verify(SECRET.encode(), signed.headers, signed.body, now_s=START_US / 1e6) == FAILURE.id
    assert not {ID_HEADER, SIGNATURE_HEADER} & plain.headers.keys()
    assert signed.body == plain.body


@pytest.mark.parametrize(
    ("status", "delivery"),
    [
        (200, Delivery.ACCEPTED),
        (202, Delivery.ACCEPTED),
        (400, Delivery.REFUSED),
        (401, Delivery.REFUSED),
        (404, Delivery.REFUSED),
        (301, Delivery.REFUSED),
        (408, Delivery.RETRY),
        (429, Delivery.RETRY),
        (500, Delivery.RETRY),
        (503, Delivery.RETRY),
    ],
)
def test_what_each_answer_means(tmp_path: Path, status: int, delivery: Delivery) -> None:
    with receiver(say(status)) as there:
        got, said = send(driver(tmp_path, there.url))
    assert (got, said.startswith(str(status))) == (delivery, True)


@pytest.mark.parametrize("manner", [Receiver.hang, Receiver.drip])
def test_a_controller_that_does_not_answer_is_asked_again(tmp_path: Path, manner: object) -> None:
    with receiver() as there:
        there.manners = [manner.__get__(there)]  # type: ignore[attr-defined]
        got, said = send(driver(tmp_path, there.url), deadline_s=0.4)
    assert (got, said) == (Delivery.RETRY, "no whole answer within 0.4 s")


def test_the_controller_may_ask_for_our_certificate(
    tmp_path: Path, certificate: tuple[Path, Path]
) -> None:
    cert, key = map(str, certificate)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(cert, key)
    tls.load_verify_locations(cert)
    tls.verify_mode = ssl.CERT_REQUIRED
    # In TLS 1.3 a client learns too late that it was turned away.
    tls.maximum_version = ssl.TLSVersion.TLSv1_2
    with receiver(wrap=lambda sock: tls.wrap_socket(sock, server_side=True)) as there:
        url = f"https://localhost:{there.port}/"
        ours = {"client_cert": cert, "client_key": key}
        assert send(driver(tmp_path, url, ca_file=cert, **ours))[0] is Delivery.ACCEPTED
        assert send(driver(tmp_path, url, ca_file=cert))[0] is Delivery.RETRY
        assert send(driver(tmp_path, url, **ours))[0] is Delivery.RETRY, "its authority is unknown"
    assert len(there.seen) == 1


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({}, "alerts.recovery.url"),
        ({"url": "ftp://h/"}, "alerts.recovery.url"),
        ({"url": "http://h/", "sekret": SECRET}, "alerts.recovery.sekret"),
        ({"url": "http://h/", "secret": "short"}, "alerts.recovery.secret"),
        ({"url": "http://h/", "client_cert": "/x"}, "alerts.recovery.client_key"),
        ({"url": "http://h/", "client_key": "/x"}, "alerts.recovery.client_cert"),
        (
            {"url": "http://h/", "client_cert": "/x", "client_key": "/y"},
            "alerts.recovery.client_cert = /x: it cannot be used",
        ),
        ({"url": "http://h/", "ca_file": "/nowhere"}, "ca_file"),
    ],
)
def test_wrong_settings_are_named(tmp_path: Path, settings: dict[str, object], named: str) -> None:
    context = DriverContext(
        clock=SetClock(), state_dir=tmp_path, settings=settings, section="alerts.recovery"
    )
    with pytest.raises(ConfigError) as error:
        HttpJsonAlerts(context)
    assert named in str(error.value)


def test_secrets_reach_neither_line_nor_repr(tmp_path: Path) -> None:
    with receiver(say(400, SECRET.encode())) as there:
        alerts = driver(tmp_path, f"{there.url}/hidden-path", secret=SECRET)
        told = f"{send(alerts)} {alerts.post.settings!r}"
    assert SECRET not in told
    assert "hidden-path" not in told
