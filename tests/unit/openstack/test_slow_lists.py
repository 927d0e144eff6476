"""A list that takes longer than a call may is waited for over several calls: one server, never two."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from yaffle.drivers.profiles.nova_server.api.documents import Server
from yaffle.drivers.profiles.nova_server.operations import create, delete
from yaffle.drivers.profiles.nova_server.tracking.operation import ServerOperation, of_error
from yaffle.errors import YaffleError
from yaffle.integrations.openstack.faults import CloudBusy, CloudUnavailable
from yaffle.integrations.openstack.sent_requests import TRYING_S, SentRequests
from yaffle.integrations.openstack.servers.documents import Action, Event, Listed, ServerPage
from yaffle.integrations.openstack.servers.server_cache import LATE_S, ServerCache
from yaffle.integrations.openstack.servers.stuck_tasks import Bounds, Tasks
from yaffle.model.ids import ClusterId, NodeId, OperationId
from yaffle.model.operations import Operation, Progress, ProgressState, Target

CALL_S, SHARE, LOOK_S = 4.0, 0.9, 10.0
"""What a call of the engine has, how much of it is for requests, and what a look has."""
FAILED, DONE = ProgressState.FAILED, ProgressState.DONE


@dataclass
class Nova:
    """A small one whose whole list takes `full_s`, and says how it was when it was asked for."""

    full_s: float
    now_s: float = 100.0
    until_s: float = 0.0
    servers: dict[str, Server] = field(default_factory=dict)
    queue: list[tuple[float, Mapping[str, Any]]] = field(default_factory=list)
    """Requests that nobody was told of, and when they appear."""
    appears_s: float = 0.0
    """The first request gets no answer, and its server appears so much later."""
    posts: int = 0
    lists: int = 0
    project_id: str = "p"
    beside: Callable[[], object] = lambda: None
    """What goes on while a list is made."""

    def monotonic_s(self) -> float:
        return self.now_s

    def now_us(self) -> int:
        return int(self.now_s * 1_000_000)

    @property
    def client(self) -> Nova:
        return self

    def left_s(self) -> float:
        return self.until_s - self.now_s

    @contextmanager
    def patient(self, left_s: float) -> Iterator[None]:
        until_s, self.until_s = self.until_s, max(self.until_s, self.now_s + left_s)
        try:
            yield
        finally:
            self.until_s = until_s

    def page(self, *, marker: str, since: str) -> ServerPage:
        self.arrive()
        seen = [msgspec.convert(msgspec.to_builtins(s), Listed) for s in self.servers.values()]
        self.lists += not since
        takes_s, left_s = 0.5 if since else self.full_s, self.left_s()
        until_s = self.now_s + min(takes_s, max(0.0, left_s))
        while self.now_s < until_s:
            self.now_s = min(until_s, self.now_s + 1.0)
            self.beside()
        if takes_s > left_s:
            raise CloudUnavailable("no answer in time", sent=False)
        return ServerPage(servers=seen)

    def create(self, body: Mapping[str, Any], **_: object) -> str:
        if self.left_s() < 0.3:
            raise CloudBusy("too late to send it")
        self.posts += 1
        if self.appears_s:
            self.queue.append((self.now_s + self.appears_s, body))
            self.appears_s = 0.0
            raise CloudUnavailable("no answer", sent=True)
        return self.add(body["server"]["metadata"])

    def arrive(self) -> None:
        for at_s, body in list(self.queue):
            if at_s <= self.now_s:
                self.queue.remove((at_s, body))
                self.add(body["server"]["metadata"])

    def add(self, metadata: Mapping[str, str]) -> str:
        ident = f"server-{len(self.servers)}"
        self.servers[ident] = Server(
            id=ident, status="ACTIVE", power_state=1, created=ident,
            updated="2026-01-01T00:02:00Z", metadata=dict(metadata),
        )  # fmt: skip
        return ident

    def show(self, ident: str) -> Server | None:
        return self.servers.get(ident)

    def delete(self, ident: str, **_: object) -> Any:
        del self.servers[ident]
        return type("Answer", (), {"request_id": "r"})

    def acts(self, ident: str) -> list[Action]:
        ended = Event(event="compute_terminate_instance", result="Success", host="cmp1")
        return [Action(action="delete", request_id="r", events=[ended])]

    history = acts

    def act(self, ident: str, request_id: str) -> Action:
        return self.acts(ident)[0]

    def flavor_id(self, given: str) -> str:
        return given


class Engine:
    """Submits and polls as the real one does; what comes after its patience it does not hear."""

    def __init__(self, nova: Nova, kind: str = "CREATE", *, looks: bool = False) -> None:
        self.nova, self.looks, self.memory = nova, looks, SentRequests()
        self.census = ServerCache(nova)  # type: ignore[arg-type]
        self.tasks = Tasks(nova, Bounds())  # type: ignore[arg-type]
        target = Target(
            node_id=NodeId("n"), cluster_id=ClusterId("c"), name="web", physical_id="",
            profile_type="os.nova.server-1.0", spec={"flavor": "small"}, attributes={},
        )  # fmt: skip
        self.op = Operation(kind=kind, target=target, params={})
        steps = create if kind == "CREATE" else delete
        self.submit, self.poll = steps.submit, steps.poll
        # Calls while an earlier one is on its way: all that they come to in the profile.
        nova.beside = lambda: self.memory.trying(self.job().operation_id, nova.now_s)

    def job(self) -> ServerOperation:
        return ServerOperation(
            op=self.op, operation_id=OperationId("11111111-2222-3333-4444-555555555555"),
            nova=self.nova, census=self.census, memory=self.memory, tasks=self.tasks,
            clock=self.nova, facts={},
        )  # type: ignore[arg-type] # fmt: skip

    def call(self, work: Callable[[ServerOperation], Progress]) -> Progress | None:
        began_s = self.nova.now_s
        self.nova.until_s = began_s + CALL_S * SHARE
        try:
            found = work(self.job())
        except YaffleError as error:
            found = of_error(error)
        return found if self.nova.now_s <= began_s + CALL_S else None

    def look(self) -> None:
        """Read the list as a detector does, beside it."""
        self.nova.until_s = self.nova.now_s + LOOK_S * SHARE
        try:
            self.census.take(self.nova, nodes=("n", "m"))  # type: ignore[arg-type]
        except YaffleError:
            return

    def carry_out(self, within_s: float) -> Progress | None:
        until_s, step = self.nova.now_s + within_s, self.submit
        while self.nova.now_s < until_s:
            found = self.call(step)
            if found is not None and found.state in (DONE, FAILED):
                return found
            absent = found is not None and found.state is ProgressState.ABSENT
            step = self.submit if absent else self.poll
            if self.looks:
                self.look()
            self.nova.now_s += 2.0
        return None


@pytest.mark.parametrize("looks", [False, True], ids=["alone", "beside looks"])
@pytest.mark.parametrize("full_s", [1.0, 5.0, 15.0])
def test_a_server_is_asked_for_once(full_s: float, looks: bool) -> None:
    nova = Nova(full_s)
    done = Engine(nova, looks=looks).carry_out(within_s=180.0)
    assert done is not None
    assert (done.state, nova.posts) == (DONE, 1)


@pytest.mark.parametrize("appears_s", [3.0, 12.0])
@pytest.mark.parametrize("full_s", [1.0, 5.0, 15.0])
def test_one_that_got_no_answer_is_found_and_not_asked_for_again(
    full_s: float, appears_s: float
) -> None:
    nova = Nova(full_s, appears_s=appears_s)
    done = Engine(nova).carry_out(within_s=300.0)
    assert done is not None
    assert (done.state, nova.posts, list(nova.servers)) == (DONE, 1, ["server-0"])


def test_a_list_from_before_the_first_try_proves_nothing() -> None:
    nova = Nova(5.0)
    engine = Engine(nova)
    engine.look()
    nova.now_s += 1.0
    nova.add({"cluster_node_id": "n"})
    done = engine.carry_out(within_s=60.0)
    assert done is not None
    assert (done.state, nova.posts) == (FAILED, 0)
    assert "older copy" in done.detail


@pytest.mark.parametrize("away_s", [TRYING_S + 1.0, LATE_S + 1.0])
def test_who_has_not_tried_for_a_while_begins_anew(away_s: float) -> None:
    """Another engine may have made one meanwhile."""
    nova = Nova(5.0)
    engine = Engine(nova)
    while engine.census._swept is None:
        engine.call(engine.poll)
    nova.add(engine.job().mark().written() | {"cluster_node_id": "n"})
    nova.now_s += away_s
    done = engine.carry_out(within_s=60.0)
    assert done is not None
    assert (done.state, nova.posts) == (DONE, 0)


@pytest.mark.parametrize("full_s", [1.0, 5.0, 15.0])
def test_what_bears_the_mark_is_deleted(full_s: float) -> None:
    nova = Nova(full_s)
    nova.add({"cluster_node_id": "n"})
    nova.add({"cluster_node_id": "m"})
    engine = Engine(nova, "DELETE")
    done = engine.carry_out(within_s=180.0)
    assert done is not None
    assert (done.state, list(nova.servers)) == (DONE, ["server-1"]), done
