"""`POST /yaffle/v1/host-failures`: seed 3's own JSON, by whoever shares a secret with us, once each."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.functional.api.live import Live, running, settings_for

from yaffle import wiring
from yaffle.drivers.alerts.http_json import HttpJsonAlerts
from yaffle.engine.runtime.clock import SystemClock
from yaffle.errors import ConfigError
from yaffle.integrations.signing import sign
from yaffle.model.host_failure import HostFailure
from yaffle.model.operations import Delivery
from yaffle.ports.context import DriverContext

PLACE = "/yaffle/v1/host-failures"
NEW, OLD, OTHER = (word * 20 for word in ("n", "o", "x"))


def secret(folder: Path, name: str, value: str) -> str:
    file = folder / name
    file.write_text(value + "\n")
    file.chmod(0o600)
    return str(file)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    folder = tmp_path_factory.mktemp("senders")
    senders = {
        "rack": {"secret_file": secret(folder, "rack", OTHER)},
        "alerter": {
            "secret_file": secret(folder, "new", NEW),
            "old_secret_file": secret(folder, "old", OLD),
        },
    }
    with running(folder / "state", host_senders=senders) as live:
        yield live


def document(**values: Any) -> dict[str, Any]:
    now_s = int(time.time())
    payload = {"hostname": "cmp1.example.org", "on_shared_storage": True, "failure_time": now_s}
    return {
        "id": str(uuid.uuid4()),
        "event_type": "host failure",
        "version": "1.0",
        "generated_time": now_s,
        "payload": {**payload, **values.pop("payload", {})},
        **values,
    }


def post(
    server: Live, what: dict[str, Any], key: str = NEW, *, ago_s: float = 0, signed: str = ""
) -> httpx.Response:
    body = json.dumps(what).encode()
    headers = sign(
        key.encode(),
        message_id=signed or str(what["id"]),
        timestamp_s=int(time.time() - ago_s),
        body=body,
    )
    with server.client() as client:
        return client.post(
            PLACE, content=body, headers={**headers, "Content-Type": "application/json"}
        )


def listed(server: Live, host: str) -> list[Any]:
    found: list[Any] = server.call("GET", f"/host-notifications?host={host}")["notifications"]
    return found


def test_a_failure_is_taken_in_once_whoever_repeats_it(server: Live) -> None:
    what = document(payload={"hostname": "cmp2.example.org"})
    assert post(server, what).status_code == 202
    # Its sender has got no answer, and has another secret by now.
    assert post(server, what, OLD).status_code == 200
    (told,) = listed(server, "cmp2.example.org")
    assert (told["id"], told["sender"], told["origin"]) == (what["id"], "alerter", "host-failures")
    assert (told["event"], told["status"]) == ("STOPPED", "new")
    assert told["generated_us"] == what["payload"]["failure_time"] * 1_000_000


def test_an_id_stands_for_one_failure(server: Live) -> None:
    what = document()
    assert post(server, what).status_code == 202
    for changed in ({"hostname": "cmp3"}, {"failure_time": 5}):
        other = {**what, "payload": {**what["payload"], **changed}}
        answer = post(server, other)
        assert answer.status_code == 409
        assert what["id"] in answer.text


def test_each_sender_has_a_name(server: Live) -> None:
    what = document(payload={"hostname": "cmp4"})
    assert post(server, what, OTHER).status_code == 202
    assert listed(server, "cmp4")[0]["sender"] == "rack"


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"key": "wrong" * 5}, "does not match"),
        ({"ago_s": 3600}, "away from now"),
        ({"ago_s": -3600}, "away from now"),
    ],
)
def test_whoever_has_no_secret_tells_nothing(server: Live, how: Any, why: str) -> None:
    what = document(payload={"hostname": "cmp5"})
    answer = post(server, what, **how)
    assert answer.status_code == 403
    assert why in answer.text
    with server.client() as client:
        unsigned = client.post(PLACE, json=what)
    assert unsigned.status_code == 403
    assert "[host_senders.NAME]" in unsigned.text, "what an operator does about it is told"
    assert listed(server, "cmp5") == []


def test_what_was_signed_is_what_is_told(server: Live) -> None:
    answer = post(server, document(payload={"hostname": "cmp6"}), signed=str(uuid.uuid4()))
    assert answer.status_code == 400
    assert "is not what was signed" in answer.text
    assert listed(server, "cmp6") == []


@pytest.mark.parametrize(
    ("changed", "place"),
    [
        ({"event_type": "host is back"}, "event_type"),
        ({"version": "2.0"}, "version"),
        ({"id": "17"}, "id"),
        ({"more": 1}, "more"),
        ({"payload": {"hostname": ""}}, "payload.hostname"),
        ({"payload": {"hostname": "a b"}}, "payload.hostname"),
        ({"payload": {"on_shared_storage": "perhaps"}}, "payload.on_shared_storage"),
        ({"payload": {"failure_time": "soon"}}, "payload.failure_time"),
        ({"payload": {"failure_time": 2 * 10**9}}, "failure_time"),
    ],
)
def test_bad_json_is_told_with_its_place(server: Live, changed: Any, place: str) -> None:
    answer = post(server, document(**changed))
    assert answer.status_code == 400
    assert place in answer.json()["error"]["message"]


def test_our_own_alerter_tells_us(server: Live, tmp_path: Path) -> None:
    settings = {
        "url": f"http://{server.address}{PLACE}",
        "secret_file": secret(tmp_path, "secret", NEW),
    }
    context = DriverContext(
        clock=SystemClock(), state_dir=tmp_path, settings=settings, allow_networks=("127.0.0.0/8",)
    )
    alerts = HttpJsonAlerts(context)
    now_s = int(time.time())
    failure = HostFailure(
        id=str(uuid.uuid4()),
        hostname="cmp7.example.org",
        failure_s=now_s - 30,
        generated_s=now_s,
        on_shared_storage=False,
        proof="read back: off",
    )
    for _ in range(2):
        delivery, said = asyncio.run(alerts.send(failure, deadline_s=30))
        assert delivery is Delivery.ACCEPTED, said
    assert [one["id"] for one in listed(server, "cmp7.example.org")] == [failure.id]


def test_where_no_sender_is_known_nobody_tells_anything(tmp_path: Path) -> None:
    with running(tmp_path / "state") as live:
        answer = post(live, document())
        assert answer.status_code == 403
        assert "nobody may tell of failed hosts here" in answer.text


@pytest.mark.parametrize("value", ["short", ""])
def test_a_secret_that_is_none_starts_nothing(tmp_path: Path, value: str) -> None:
    senders = {"rack": {"secret_file": secret(tmp_path, "rack", value)}}
    settings = settings_for(tmp_path / "state", host_senders=senders)
    with pytest.raises(ConfigError, match=r"host_senders\.rack\.secret_file"):
        wiring.check(settings)
