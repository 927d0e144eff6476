"""A stack whose servers Nova does not show in full, keeps locked, or has on a host that may be dead."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from yaffle.core.health.backend_status_codes import classify
from yaffle.drivers.profiles.heat_stack.api.documents import Event as Happened
from yaffle.drivers.profiles.heat_stack.api.documents import Link, Resource, Stack
from yaffle.drivers.profiles.heat_stack.operations import delete, update
from yaffle.drivers.profiles.heat_stack.operations.operation import StackOperation, of_error
from yaffle.drivers.profiles.heat_stack.operations.termination_proofs import Proofs
from yaffle.drivers.profiles.heat_stack.status.member_cache import Roster
from yaffle.drivers.profiles.heat_stack.status.member_status import reading_of
from yaffle.drivers.profiles.heat_stack.status.reading import Reader
from yaffle.engine.runtime.clock import SystemClock
from yaffle.errors import Forbidden, NotFound, YaffleError
from yaffle.integrations.openstack.sent_requests import SentRequests
from yaffle.integrations.openstack.servers.documents import Action, Event, Listed, Service
from yaffle.model.ids import NodeId, OperationId
from yaffle.model.operations import Hindrance, Operation, Progress, ProgressState, Target

DONE, FAILED, RUNNING = ProgressState.DONE, ProgressState.FAILED, ProgressState.RUNNING
IDENT = "5e5e5e5e-0000-4000-8000-000000000000"
TARGET = Target(
    node_id=NodeId("n"), name="n", physical_id="k", profile_type="os.heat.stack-1.0", spec={}
)
SERVER = Listed(id=IDENT, status="ACTIVE", power_state=1)
OFF = replace(SERVER, status="SHUTOFF", power_state=4)


@dataclass
class Cloud:
    """A Heat with one stack, and a Nova with its only server."""

    status: str = "CREATE_COMPLETE"
    server: Listed | None = SERVER
    record: list[Action] | YaffleError = field(default_factory=list)
    hosts: dict[str, Service] | None = None
    asked: list[str] = field(default_factory=list)

    client = SimpleNamespace(project_id="p", user_id="us", left_s=lambda: 9.0)

    @property
    def stack(self) -> Stack:
        return Stack(id="k", name="k", status=self.status)

    # --- Heat ----------------------------------------------------------------------------------

    def resources(self, stack: Stack) -> list[Resource]:
        made = {"name": "a", "type": "OS::Nova::Server", "status": "CREATE_COMPLETE"}
        links = [Link(rel="stack", href="http://heat/stacks/k/k")]
        return [Resource(**made, physical_id=IDENT, links=links)]

    def nested_in(self, ident: str) -> list[Stack]:
        return []

    def events(self, stack: Stack) -> list[Happened]:
        return [Happened(physical_id=IDENT)]

    def delete(self, stack: Stack, *, trace: str | None) -> None:
        self.asked.append("delete")

    def mark(self, *_: object, **__: object) -> None:
        self.asked.append("mark")

    def update(self, *_: object, **__: object) -> None:
        self.asked.append("update")

    # --- Nova ----------------------------------------------------------------------------------

    def history(self, ident: str) -> list[Action]:
        if isinstance(self.record, YaffleError):
            raise self.record
        return self.record

    def act(self, ident: str, request_id: str) -> Action | None:
        found = self.history(ident)
        return next((act for act in found if act.request_id == request_id), None)

    def services(self) -> dict[str, Service] | None:
        return self.hosts

    # --- both ----------------------------------------------------------------------------------

    def show(self, ident: str) -> Any:
        return self.stack if ident == "k" else self.server

    def do(self, step: Callable[[StackOperation], Progress], kind: str) -> Progress:
        this, clock = self, SystemClock()
        reader = Reader(
            this, this, this, Roster(), now_s=clock.monotonic_s, again_s=60.0  # type: ignore[arg-type]
        )  # fmt: skip
        job = StackOperation(
            op=Operation(kind=kind, target=TARGET), operation_id=OperationId("o"),
            heat=this, servers=this, reader=reader,  # type: ignore[arg-type]
            memory=SentRequests(), proofs=Proofs(), clock=clock, facts={},
        )  # fmt: skip
        try:
            return step(job)
        except YaffleError as error:
            return of_error(error)


def act(action: str, *events: tuple[str, str], hidden: bool = False) -> Action:
    told = [Event(event=name, result=result, host="h1") for name, result in events]
    return Action(action=action, request_id=f"r-{action}", events=None if hidden else told)


ENDED = act("delete", ("compute_terminate_instance", "Success"))


@pytest.mark.parametrize(
    ("record", "server", "state"),
    [
        pytest.param([ENDED, act("create")], None, DONE, id="its host has ended it"),
        pytest.param(NotFound("none (HTTP 404)"), None, DONE, id="it was no server"),
        pytest.param(Forbidden("not you (HTTP 403)"), None, FAILED, id="not shown to us"),
        pytest.param([], None, FAILED, id="a record without a beginning"),
        pytest.param(
            [act("delete", hidden=True), act("create", hidden=True)], None, FAILED, id="no events"
        ),
        pytest.param([act("create")], SERVER, DONE, id="it is retained"),
        pytest.param(
            [act("create")], replace(SERVER, status="UNKNOWN"), RUNNING, id="its cell is away"
        ),
    ],
)
def test_what_proves_the_end_of_a_deleted_stack(
    record: list[Action] | YaffleError, server: Listed | None, state: ProgressState
) -> None:
    cloud = Cloud(status="DELETE_COMPLETE", server=server, record=record)
    done = cloud.do(delete.poll, "DELETE")
    assert done.state is state, done


LOCKED = replace(OFF, locked=True, locked_reason="audit")


@pytest.mark.parametrize(
    ("step", "kind"), [(delete.submit, "DELETE"), (update.submit, "STACK_UPDATE")]
)
def test_a_locked_server_of_a_stack_is_neither_deleted_nor_replaced(
    step: Callable[[StackOperation], Progress], kind: str
) -> None:
    cloud = Cloud(server=LOCKED)
    done = cloud.do(step, kind)
    assert (done.state, done.hindrance) == (FAILED, Hindrance.BARRED), done
    assert f"openstack server unlock {IDENT}" in done.detail
    assert cloud.asked == []
    free = Cloud(server=OFF)
    assert free.do(step, kind).state is RUNNING
    assert free.asked[-1] in {"delete", "update"}


def test_its_failure_is_told_with_the_lock_and_counts_as_none() -> None:
    def code(server: Listed) -> str:
        cloud = Cloud(server=server)
        reader = Reader(cloud, cloud, cloud, Roster(), now_s=lambda: 1.0, again_s=60.0)  # type: ignore[arg-type]
        return classify(reading_of(cloud.stack, reader.members(cloud.stack), TARGET))[0]

    assert code(LOCKED) == "ST-LOCKED"
    assert code(OFF) == "ST-DOWN"
    assert code(replace(SERVER, locked=True)) == "ST-UP"


def test_no_stack_is_deleted_while_a_lock_in_it_is_not_told() -> None:
    cloud = Cloud(server=replace(SERVER, status="UNKNOWN"))
    done = cloud.do(delete.submit, "DELETE")
    assert (done.state, done.hindrance) == (RUNNING, Hindrance.UNASKED), done
    assert cloud.asked == []


UP = Service(id="1", host="h1", state="up", status="disabled")


@pytest.mark.parametrize(
    ("word", "service", "replaced"),
    [
        pytest.param("UP", None, True, id="up"),
        pytest.param("UNKNOWN", replace(UP, state="down"), False, id="down"),
        pytest.param("MAINTENANCE", replace(UP, state="down"), False, id="closed, and down since"),
        pytest.param("MAINTENANCE", UP, True, id="merely closed"),
        pytest.param("MAINTENANCE", None, False, id="closed, and no more is shown"),
        pytest.param("DOWN", replace(UP, forced_down=True), True, id="forced down"),
    ],
)
def test_a_server_on_a_host_that_may_be_dead_is_not_replaced(
    word: str, service: Service | None, replaced: bool
) -> None:
    hosts = None if service is None else {"h1": service}
    cloud = Cloud(server=replace(OFF, host="h1", host_status=word), hosts=hosts)
    done = cloud.do(update.submit, "STACK_UPDATE")
    assert (cloud.asked == ["mark", "update"]) is replaced, done
