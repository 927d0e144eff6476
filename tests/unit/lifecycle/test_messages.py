"""Recorded notifications of real services, byte for byte as they lay in the queue, and bad ones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from yaffle.drivers.detectors.lifecycle.events import EVENTS, Subject
from yaffle.drivers.detectors.lifecycle.messages import BODY_MAX, Heard, Ignored, read

SAMPLES = Path(__file__).parent / "samples" / "notifications.jsonl"
SECRET = "gAAAA-a-token"


def samples() -> Iterator[tuple[str, str, bytes]]:
    """Yield event type, exchange and body of each."""
    for line in SAMPLES.read_text().splitlines():
        sample = json.loads(line)
        inner = json.loads(sample["body"]["oslo.message"])
        yield inner["event_type"], sample["exchange"], json.dumps(sample["body"]).encode()


def sample(event: str, number: int = 0) -> bytes:
    return [body for name, _, body in samples() if name == event][number]


def heard(event: str, number: int = 0) -> Heard:
    told = read(sample(event, number))
    assert isinstance(told, Heard), told
    return told


@pytest.mark.parametrize(
    ("event", "word", "subject"),
    [
        # Seed 1, "Listening to Event Notifications", in Nova's both spellings.
        ("compute.instance.pause.end", "PAUSE", Subject.SERVER),
        ("compute.instance.power_off.end", "POWER_OFF", Subject.SERVER),
        ("compute.instance.rebuild.error", "REBUILD", Subject.SERVER),
        ("compute.instance.shutdown.end", "SHUTDOWN", Subject.SERVER),
        ("compute.instance.soft_delete.end", "SOFT_DELETE", Subject.SERVER),
        ("compute.instance.delete.end", "DELETE", Subject.SERVER),
        ("compute.instance.suspend.end", "SUSPEND", Subject.SERVER),
        ("instance.pause.end", "PAUSE", Subject.SERVER_OBJECT),
        ("instance.power_off.end", "POWER_OFF", Subject.SERVER_OBJECT),
        ("instance.rebuild.error", "REBUILD", Subject.SERVER_OBJECT),
        ("instance.shutdown.end", "SHUTDOWN", Subject.SERVER_OBJECT),
        ("instance.soft_delete.end", "SOFT_DELETE", Subject.SERVER_OBJECT),
        ("instance.delete.end", "DELETE", Subject.SERVER_OBJECT),
        ("instance.suspend.end", "SUSPEND", Subject.SERVER_OBJECT),
        ("compute.instance.power_on.end", "", Subject.SERVER),
        ("instance.unpause.end", "", Subject.SERVER_OBJECT),
        ("instance.restore.end", "", Subject.SERVER_OBJECT),
        ("service.update", "", Subject.SERVICE),
        ("reboot_instance", "", Subject.CALL),
        ("stop_instance", "", Subject.CALL),
        ("orchestration.stack.delete.end", "DELETE", Subject.STACK),
        ("orchestration.stack.suspend.end", "SUSPEND", Subject.STACK),
        ("orchestration.stack.update.error", "", Subject.STACK),
    ],
)
def test_a_recorded_event_says_what_happened_to_whom(
    event: str, word: str, subject: Subject
) -> None:
    row = EVENTS[event]
    assert (row.word, row.subject) == (word, subject)
    told = heard(event)
    assert (told.event, told.word, told.subject) == (event, word, subject)
    if subject is Subject.SERVICE:
        assert (told.ident, told.host) == ("", "cmp1")
    else:
        assert len(told.ident) == 36
    assert told.publisher.startswith(row.senders)
    assert told.sent_at.startswith("2026-11-")


def test_a_versioned_event_says_who_asked() -> None:
    told = heard("instance.pause.end")
    assert told.state == "paused"
    assert told.host == "cmp1"
    assert len(told.node_id) == 36, "our mark in the server's metadata"
    assert told.request_id.startswith("req-")
    assert len(told.user) == len(told.project) == 32


def test_every_recorded_event_is_read_or_of_a_type_that_is_nobodys_news() -> None:
    for event, _, body in samples():
        told = read(body)
        if event in EVENTS:
            assert isinstance(told, Heard) or told is Ignored.STEP, event
        else:
            assert told is Ignored.UNKNOWN, event


def test_an_update_inside_a_task_is_a_step_and_its_end_is_not() -> None:
    for event in ("compute.instance.update", "instance.update"):
        told = [read(body) for name, _, body in samples() if name == event]
        assert Ignored.STEP in told
        assert any(isinstance(one, Heard) for one in told)


def changed(event: str, **changes: object) -> bytes:
    body = json.loads(sample(event))
    inner = json.loads(body["oslo.message"])
    return json.dumps({**body, "oslo.message": json.dumps({**inner, **changes})}).encode()


def test_a_message_without_the_wrapping_is_read_as_well() -> None:
    inner = json.loads(sample("instance.pause.end"))["oslo.message"].encode()
    assert read(inner) == heard("instance.pause.end")


def test_a_stack_may_be_named_by_its_full_identity() -> None:
    payload = {"stack_identity": "arn:openstack:heat::p:stacks/name/the-id", "state": None}
    told = read(changed("orchestration.stack.delete.end", payload=payload))
    assert isinstance(told, Heard)
    assert told.ident == "the-id"


def test_a_stack_tells_who_asked_and_whose_copy_it_is() -> None:
    payload = {
        "stack_identity": "the-id",
        "user_id": "a name",
        "user_identity": "a-user",
        "tenant_id": "a-project",
        "tags": ["x=y", "cluster_node_id=the-node"],
    }
    told = read(changed("orchestration.stack.delete.end", payload=payload))
    assert isinstance(told, Heard)
    assert (told.node_id, told.user, told.project) == ("the-node", "a-user", "a-project")
    told = read(changed("orchestration.stack.delete.end", payload=payload | {"tags": None}))
    assert isinstance(told, Heard)
    assert told.node_id == ""


def test_metadata_of_old_times_is_a_list() -> None:
    payload = {"instance_id": "x", "metadata": [{"key": "a"}]}
    told = read(changed("compute.instance.pause.end", payload=payload))
    assert isinstance(told, Heard)
    assert (told.ident, told.node_id) == ("x", "")


@pytest.mark.parametrize(
    ("event", "publisher"),
    [
        ("compute.instance.pause.end", "nova-compute:cmp1"),
        ("instance.pause.end", "compute.cmp1"),
        ("orchestration.stack.delete.end", "compute.cmp1"),
        ("service.update", "anybody"),
        ("service.update", ""),
    ],
)
def test_a_publisher_that_does_not_send_such_is_a_stranger(event: str, publisher: str) -> None:
    assert read(changed(event, publisher_id=publisher)) is Ignored.STRANGER


def test_another_service_than_compute_is_nobodys_news() -> None:
    body = json.loads(json.loads(sample("service.update"))["oslo.message"])
    body["payload"]["nova_object.data"]["binary"] = "nova-scheduler"
    assert read(changed("service.update", payload=body["payload"])) is Ignored.UNKNOWN


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x00",
        b"null",
        b"[]",
        b"{}",
        b'{"oslo.message": 7}',
        b'{"oslo.message": "{"}',
        b'{"oslo.message": "\\ud800"}',
        b'{"event_type": "instance.pause.end", "publisher_id": "nova-compute:x"}',
        b'{"event_type": "instance.pause.end", "publisher_id": "nova-compute:x", "payload": []}',
        b'{"event_type": "stop_instance", "publisher_id": "compute.x", "payload": {"args": 1}}',
        b"[" * 1_000_000,
        b'{"payload":' * 100_000,
        b'{"event_type": "' + b"x" * BODY_MAX + b'"}',
    ],
    ids=range(14),
)
def test_what_cannot_be_read_is_a_value(body: bytes) -> None:
    assert read(body) is Ignored.POISON


def test_words_are_short_and_printable() -> None:
    payload = {"instance_id": "x", "state": "a\nb\x1b[31m" + "y" * 10_000, "host": "h"}
    told = read(changed("compute.instance.pause.end", payload=payload))
    assert isinstance(told, Heard)
    assert told.state.isprintable()
    assert len(told.state) <= 200


def test_no_token_is_kept() -> None:
    body = json.loads(json.loads(sample("stop_instance"))["oslo.message"])
    body["payload"]["args"]["instance"]["auth_token"] = SECRET
    told = read(changed("stop_instance", payload=body["payload"], _context_auth_token=SECRET))
    assert isinstance(told, Heard)
    assert SECRET not in str(told)
