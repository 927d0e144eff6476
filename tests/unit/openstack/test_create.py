"""A request that Nova has kept in its queue may still make a server: there is one in the end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from yaffle.drivers.profiles.nova_server.api.documents import Server
from yaffle.drivers.profiles.nova_server.operations.create import poll, submit
from yaffle.drivers.profiles.nova_server.tracking.operation import SETTLE_S, ServerOperation
from yaffle.errors import BadRequest
from yaffle.integrations.openstack.faults import CloudUnavailable
from yaffle.integrations.openstack.sent_requests import SentRequests
from yaffle.integrations.openstack.servers.documents import Listed
from yaffle.integrations.openstack.servers.server_cache import Snapshot, gathered
from yaffle.integrations.openstack.servers.stuck_tasks import Bounds, Tasks
from yaffle.model.ids import ClusterId, NodeId, OperationId
from yaffle.model.operations import Operation, Progress, ProgressState, Target

ABSENT, DONE = ProgressState.ABSENT, ProgressState.DONE
RUNNING = ProgressState.RUNNING


@dataclass
class Nova:
    """A small one whose API hangs when it is asked for the first server: that lies in its queue."""

    about_to_hang: bool = True
    hangs: bool = False
    queue: list[Mapping[str, Any]] = field(default_factory=list)
    servers: dict[str, Server] = field(default_factory=dict)

    def create(self, body: Mapping[str, Any], **_: object) -> str:
        if self.about_to_hang:
            self.about_to_hang, self.hangs = False, True
            self.queue.append(body)
            raise CloudUnavailable("no answer", sent=True)
        ident = f"server-{len(self.servers)}"
        metadata = body["server"]["metadata"]
        self.servers[ident] = Server(
            id=ident, status="ACTIVE", power_state=1, created=ident, metadata=metadata
        )
        return ident

    def thaw(self) -> None:
        self.hangs = False

    def arrive(self) -> None:
        """Take what lies in the queue."""
        for body in self.queue:
            self.create(body)
        self.queue.clear()

    def show(self, ident: str) -> Server | None:
        return self.servers.get(ident)

    def delete(self, ident: str, **_: object) -> None:
        del self.servers[ident]

    def flavor_id(self, given: str) -> str:
        return given

    @property
    def client(self) -> Any:
        return type("Client", (), {"project_id": "p"})


class Census:
    """The list of that Nova's servers."""

    def take(self, nova: Nova, *, full: bool, after_s: float) -> Snapshot:
        if nova.hangs:
            raise CloudUnavailable("no list", sent=False)
        known = {
            i: msgspec.convert(msgspec.to_builtins(s), Listed) for i, s in nova.servers.items()
        }
        return gathered(known, "")


@dataclass
class Clock:
    """Time that the test lets pass."""

    at_s: float = 1000.0

    def monotonic_s(self) -> float:
        return self.at_s

    def now_us(self) -> int:
        return int(self.at_s * 1_000_000)


def job(nova: Nova, clock: Clock) -> ServerOperation:
    target = Target(
        node_id=NodeId("n"), cluster_id=ClusterId("c"), name="web", index=0, physical_id="",
        profile_type="os.nova.server", spec={"flavor": "small"}, attributes={},
    )  # fmt: skip
    return ServerOperation(
        op=Operation(kind="CREATE", target=target, params={}),
        operation_id=OperationId("11111111-2222-3333-4444-555555555555"),
        nova=nova, census=Census(), memory=SentRequests(), tasks=Tasks(clock, Bounds()), clock=clock,
        facts={},
    )  # type: ignore[arg-type] # fmt: skip


def asked(work: Any, made: ServerOperation) -> Progress | None:
    """Return the answer; None where Nova gave none."""
    try:
        found: Progress = work(made)
    except CloudUnavailable:
        return None
    return found


def test_what_nova_does_not_find_is_named_and_looked_up_anew() -> None:
    class Refusing(Nova):
        def create(self, body: Mapping[str, Any], **_: object) -> str:
            raise BadRequest("POST compute /servers: Can not find requested image (HTTP 400)")

    made = job(Refusing(), Clock())
    with pytest.raises(BadRequest, match=r"find requested image .*; asked for flavor small$"):
        submit(made)
    looked: list[str] = []
    made.memory.names.of("flavor p", "small", 1000.0, lambda name: looked.append(name) or name)  # type: ignore[func-returns-value]
    assert looked == ["small"], "that name may be another's by now"


def test_its_time_to_appear_begins_when_nova_answers_again() -> None:
    nova, clock = Nova(), Clock()
    made = job(nova, clock)
    assert asked(submit, made) is None
    for _ in range(30):
        clock.at_s += 10
        assert asked(poll, made) is None
    nova.thaw()
    clock.at_s += 1
    assert poll(made).state is RUNNING, "it may lie in the queue"
    nova.arrive()
    assert poll(made).state is DONE
    assert len(nova.servers) == 1


def test_nothing_came_of_it_when_nova_has_answered_for_long_enough() -> None:
    nova, clock = Nova(), Clock()
    made = job(nova, clock)
    assert asked(submit, made) is None
    nova.thaw()
    clock.at_s += SETTLE_S + 1
    assert poll(made).state is ABSENT


def test_a_late_one_beside_the_second_is_removed_and_the_oldest_stays() -> None:
    nova, clock = Nova(), Clock()
    made = job(nova, clock)
    assert asked(submit, made) is None
    late = nova.queue.pop()
    nova.thaw()
    clock.at_s += SETTLE_S + 1
    assert submit(made).state is RUNNING
    nova.queue.append(late)
    nova.arrive()
    done = poll(made)
    assert (done.state, done.physical_id) == (DONE, "server-0")
    assert list(nova.servers) == ["server-0"]
