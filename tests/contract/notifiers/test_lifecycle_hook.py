"""The lifecycle hook's notifier: the message names the address, and the answer decides the rest."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from tests.contract.notifiers.clock import START_US, SetClock
from tests.contract.notifiers.receiver import receiver, say

from yaffle.drivers.notifiers.lifecycle_hook import LifecycleHookNotifier
from yaffle.errors import ConfigError
from yaffle.model.operations import Delivery
from yaffle.ports.context import DriverContext
from yaffle.ports.notifier import Message

TOLD = {"lifecycle_action_token": "a1", "node_id": "n1", "lifecycle_transition_type": "termination"}


def driver(tmp_path: Path, deny: tuple[str, ...] | None = None, **settings: object):
    return LifecycleHookNotifier(
        DriverContext(clock=SetClock(), state_dir=tmp_path, settings=settings, deny_networks=deny)
    )


def send(of: LifecycleHookNotifier, body: dict[str, object]) -> tuple[Delivery, str]:
    message = Message(
        id="m-1", topic="node.termination", at_us=START_US, body=body, attempt=1, sequence=1
    )
    return asyncio.run(of.send(message, deadline_s=60))


def test_the_receiver_is_told_the_token(tmp_path: Path) -> None:
    with receiver(say(204)) as there:
        said = send(driver(tmp_path), {"url": there.url + "/hook", "message": TOLD})
        assert said[0] is Delivery.ACCEPTED
        request = there.seen[0]
        assert json.loads(request.body) == TOLD
        assert request.headers["Idempotency-Key"] == "m-1"


@pytest.mark.parametrize(
    ("status", "becomes"),
    [
        pytest.param(503, Delivery.RETRY, id="later"),
        pytest.param(429, Delivery.RETRY, id="too-many"),
        pytest.param(404, Delivery.REFUSED, id="never"),
        pytest.param(302, Delivery.REFUSED, id="elsewhere"),
    ],
)
def test_what_the_answer_means(tmp_path: Path, status: int, becomes: Delivery) -> None:
    with receiver(say(status)) as there:
        assert send(driver(tmp_path), {"url": there.url, "message": TOLD})[0] is becomes


def test_denied_addresses_are_not_spoken_to(tmp_path: Path) -> None:
    with receiver(say(204)) as there:
        said = send(driver(tmp_path, deny=("127.0.0.0/8",)), {"url": there.url, "message": TOLD})
        assert said[0] is Delivery.RETRY
        assert not there.seen


def test_a_message_without_an_address_is_refused(tmp_path: Path) -> None:
    assert send(driver(tmp_path), {"message": TOLD})[0] is Delivery.REFUSED


def test_it_has_no_settings(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="secret"):
        driver(tmp_path, secret="x")
