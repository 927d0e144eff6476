"""Whatever somebody else's program answers is a value, or an error that says unknown; never the end."""

from __future__ import annotations

import contextlib
import importlib
import json
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.unit.garbage import GARBAGE, spoilt

import yaffle.drivers
import yaffle.integrations.openstack
from yaffle.core.health import health_json
from yaffle.drivers.detectors.lifecycle import messages
from yaffle.drivers.detectors.lifecycle.amqp import Link
from yaffle.drivers.detectors.lifecycle.messages import Heard, Ignored
from yaffle.drivers.detectors.load_balancer import haproxy, syslog_parser
from yaffle.drivers.detectors.load_balancer.pool import Failed
from yaffle.drivers.fencers.host import agent
from yaffle.drivers.profiles.heat_stack.api.documents import Stack
from yaffle.drivers.profiles.heat_stack.status import ownership_tags as heat_marks
from yaffle.drivers.profiles.local_process.record import RecordUnreadable, decode_record
from yaffle.drivers.profiles.nova_server.tracking import ownership_tags as nova_marks
from yaffle.drivers.workflows.http.answers import after_post, after_question
from yaffle.drivers.workflows.http.records import Record, Records, Stage
from yaffle.drivers.workflows.mistral.executions import Execution
from yaffle.errors import YaffleError
from yaffle.integrations import bounded_program
from yaffle.integrations.http import Answer as HttpAnswer
from yaffle.integrations.openstack import Answer, CloudUnavailable
from yaffle.integrations.openstack.faults import fault_of
from yaffle.model.ids import OperationId

URL = "http://workflows.example/begin"


def shapes() -> Iterator[type[msgspec.Struct]]:
    """Return every shape in which answers of clouds are read, of drivers to come as well."""
    for root in (yaffle.integrations.openstack, yaffle.drivers):
        for found in pkgutil.walk_packages(root.__path__, f"{root.__name__}."):
            if "__main__" in found.name or found.name.endswith((".runner", ".launcher", ".worker")):
                continue
            module = importlib.import_module(found.name)
            for kind in vars(module).values():
                if (
                    isinstance(kind, type)
                    and issubclass(kind, msgspec.Struct)
                    and kind.__module__ == found.name
                    and not getattr(kind, "__parameters__", ())
                ):
                    yield kind


SHAPES = list(shapes())


def parsed(body: bytes) -> None:
    answer = Answer(status=200, body=body, request_id="req-1")
    for kind in SHAPES:
        said = ""
        try:
            assert isinstance(answer.parsed(kind), kind)
        except CloudUnavailable as error:
            said = str(error)
        assert not said or ("cannot be read" in said and "req-1" in said and "\n" not in said)


def refused(body: bytes) -> None:
    for status in (404, 409, 500):
        assert isinstance(fault_of(status, body, "GET x", acts=True), YaffleError)


def notified(body: bytes) -> None:
    assert isinstance(messages.read(body), (Heard, Ignored))


def said_well(body: bytes) -> None:
    assert isinstance(health_json.read(body).detail, str)


def answered(body: bytes) -> None:
    for status in (200, 202, 404, 500):
        answer = HttpAnswer(status=status, headers={}, body=body, cut=False)
        assert isinstance(after_post(answer, URL, repeat=True).stage, Stage)
        after_question(answer, Stage.ACCEPTED)


def located(body: bytes) -> None:
    answer = HttpAnswer(
        status=202, headers={"location": body[:300].decode("latin-1")}, body=b"", cut=False
    )
    where = after_post(answer, URL, repeat=False).location
    assert where == "" or where.startswith("http://workflows.example/")


def tabled(body: bytes) -> None:
    text = body.decode("utf-8", "replace")
    for one in (haproxy.read_csv("# " + text, "web"), haproxy.read_csv(text, "web")):
        assert isinstance(one, Failed) or all(m.code.startswith("LB-") for m in one)
    assert haproxy.read_all(text) is not None


def logged(body: bytes) -> None:
    syslog_parser.read(body)


def ran(body: bytes) -> None:
    found = bounded_program._ran(body, ("secret",))
    assert found.exit_code is None or type(found.exit_code) is int
    if found.exit_code is None:
        assert agent.power_of(found) is agent.Power.UNKNOWN


def executed(body: bytes) -> None:
    text = body.decode("utf-8", "replace")
    for one in (text, text + "\ud800"):
        made = Execution(id="1", state=one, state_info=one, description=one, created_at=one)
        made.note()
        made.is_late(1)
        made.progress()


def streamed(body: bytes) -> None:
    """Bytes that a broker sends: after them the link is lost, or waits for more."""
    link = Link(lambda *_: None)
    link.data_received(body)
    for kind in (1, 2, 3, 8):
        link = Link(lambda *_: None)
        head = bytes([kind]) + (1).to_bytes(2, "big") + min(len(body), 60_000).to_bytes(4, "big")
        link.data_received(head + body[:60_000] + b"\xce")


def kept(body: bytes) -> None:
    with contextlib.suppress(RecordUnreadable):
        decode_record(body, place="record.json")


@dataclass(frozen=True)
class Reader:
    reads: Callable[[bytes], None]
    good: Any
    """A document that it understands, to be spoilt place by place."""


SERVER = {
    "id": "s", "name": "n", "status": "ACTIVE", "updated": "2026-01-01T00:00:00Z", "metadata": {"a": "b"},
    "created": "2026-01-01T00:00:00Z", "tenant_id": "p", "OS-EXT-STS:task_state": None,
    "addresses": {"net": [{"addr": "10.0.0.1", "version": 4}]}, "image": {"id": "i"},
    "flavor": {"id": "1"},
}  # fmt: skip
CLOUDS = {
    "server": SERVER, "servers": [SERVER], "servers_links": [{"rel": "next", "href": "x"}],
    "stacks": [{"id": "s", "stack_name": "n", "stack_status": "CREATE_COMPLETE", "tags": ["a"]}],
    "members": [{"id": "m", "operating_status": "ONLINE", "provisioning_status": "ACTIVE"}],
    "pools": [{"id": "p", "name": "web", "members": [{"id": "m"}]}],
    "id": "e", "state": "RUNNING", "trust": {"id": "t"}, "token": {"roles": [{"id": "r"}]},
}  # fmt: skip
NEWS = {
    "event_type": "compute.instance.power_off.end", "publisher_id": "compute.h", "timestamp": "t",
    "payload": {"instance_id": "i", "host": "h", "state": "stopped",
    "metadata": {"cluster_node_id": "n"}},
}  # fmt: skip
HEALTH = {
    "status": "pass",
    "checks": {"db": [{"status": "fail", "output": "x", "componentId": "c"}]},
}
READERS: Mapping[str, Reader] = {
    "a cloud's answer": Reader(parsed, CLOUDS),
    "a cloud's refusal": Reader(refused, {"error": {"message": "m", "code": 1, "title": "t"}}),
    "a notification": Reader(notified, NEWS),
    "a notification in another": Reader(notified, {"oslo.version": "2.0",
    "oslo.message": json.dumps(NEWS)}),
    "a health document": Reader(said_well, HEALTH),
    "a workflow service's answer": Reader(answered, {"status": "done", "detail": "d"}),
    "where a workflow is": Reader(located, "/jobs/1"),
    "HAProxy's table": Reader(tabled, {"pxname": "web"}),
    "HAProxy's log": Reader(logged, "Server web/web-1 is DOWN, reason: x"),
    "a fence agent's run": Reader(ran, {"exit": 2, "out": "Status: OFF", "err": "", "fault": ""}),
    "Mistral's execution": Reader(
        executed, {"yaffle_operation": "o", "node": "n", "cluster": "c", "timeout_s": 1.0}
    ),
    "a broker's bytes": Reader(streamed, {"a": 1}),
    "a record of a process": Reader(kept, {"node": "n"}),
}  # fmt: skip


@pytest.mark.parametrize("garbage", GARBAGE)
@pytest.mark.parametrize("reader", READERS)
def test_garbage_is_told_and_ends_nothing(reader: str, garbage: str) -> None:
    READERS[reader].reads(GARBAGE[garbage])


@pytest.mark.parametrize("reader", READERS)
def test_an_answer_that_is_wrong_in_one_place_is_told_and_ends_nothing(reader: str) -> None:
    for body in spoilt(READERS[reader].good):
        READERS[reader].reads(body)


def test_every_shape_of_an_answer_is_tried() -> None:
    assert {kind.__name__ for kind in SHAPES} >= {
        "ServerPage", "StackPage", "_Members", "_Pools", "Execution", "Services", "Actions",
    }  # fmt: skip


# --- rows of HAProxy's table --------------------------------------------------------------------

HEAD = "# pxname,svname,status,type,check_status,last_chk,\n"


def row(*, server: str = "a", status: str = "UP", last: str = "") -> str:
    return f"web,{server},{status},2,L7OK,{last},\n"


@pytest.mark.parametrize("mark", ["\u2028", "\x0b", "\x0c", "\x1c", "\x85", "\x00"])
def test_what_one_node_says_spoils_no_other_ones_row(mark: str) -> None:
    found = haproxy.read_csv(HEAD + row(last=f"not{mark}found") + row(server="b"), "web")
    assert not isinstance(found, Failed)
    assert [(one.name, one.code) for one in found] == [("a", "LB-UP"), ("b", "LB-UP")]


def test_of_two_columns_of_one_name_neither_counts() -> None:
    head = HEAD.replace("check_status", "status")
    assert isinstance(haproxy.read_csv(head + row(), "web"), Failed)


# --- what anybody may have written on a thing ---------------------------------------------------


@pytest.mark.parametrize("when", ["²", "9" * 5000, "-1", "1e3", "", "\u0661"])
def test_a_mark_that_somebody_has_spoilt_is_none(when: str) -> None:
    words = {nova_marks.OPERATION: "op", nova_marks.NOTE: f"REBOOT {when} - -"}
    assert nova_marks.mark_of(words) is None
    tags = [f"{heat_marks.OPERATION}=op", f"{heat_marks.NOTE}=REBOOT {when} -"]
    assert heat_marks.mark_of(Stack(id="s", name="n", status="X", tags=tags)) is None


@pytest.mark.parametrize("garbage", GARBAGE)
def test_a_record_that_is_damaged_is_told(garbage: str, tmp_path: Path) -> None:
    records = Records(root=tmp_path)
    record = Record(operation_id="op", name="n", body="{}", until_us=1)
    assert records.create(record)
    (path,) = tmp_path.glob("*.json")
    path.write_bytes(GARBAGE[garbage])
    with pytest.raises(OSError, match="is damaged"):
        records.find(OperationId("op"))
    records.prune()
