"""A small Nova that has lost a message: its server's task stands, and what may be done about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from yaffle.drivers.profiles.nova_server.api.documents import Server
from yaffle.drivers.profiles.nova_server.status.reading import read
from yaffle.drivers.profiles.nova_server.tracking.operation import ServerOperation, of_error
from yaffle.drivers.profiles.nova_server.tracking.verbs import OVERRULED
from yaffle.errors import Conflict, Forbidden, NotFound, YaffleError
from yaffle.integrations.openstack.sent_requests import SentRequests
from yaffle.integrations.openstack.servers.documents import Action, Event, Service
from yaffle.integrations.openstack.servers.server_cache import Snapshot, gathered
from yaffle.integrations.openstack.servers.stuck_tasks import Bounds, Tasks
from yaffle.model.ids import NodeId, OperationId
from yaffle.model.operations import Operation, Progress, Reading, Target

US = "yaffle"
BOUNDS = Bounds(quick_s=60.0, long_s=600.0)


@dataclass
class Nova:
    """A small one that lost a message: it does what its big sister does while the task stands."""

    server: Server | None
    admin: bool = True
    record: list[Action] | None = field(
        default_factory=lambda: [Action(action="create", request_id="r-0", events=[])]
    )
    """Of what was done to the server; None where `untold` is raised instead."""
    untold: YaffleError = field(default_factory=lambda: NotFound("no such instance (HTTP 404)"))
    asked: list[str] = field(default_factory=list)
    project_id: str = "p"
    user_id: str = US
    loses: bool = False
    """Also the next messages."""
    hosts: dict[str, Service] | None = None

    @property
    def client(self) -> Any:
        return self

    def left_s(self) -> float:
        return 10.0

    def show(self, ident: str) -> Server | None:
        return self.server

    def history(self, ident: str) -> list[Action]:
        if self.record is None:
            raise self.untold
        return self.record

    def acts(self, ident: str) -> list[Action] | None:
        return self.record

    def act(self, ident: str, request_id: str) -> Action | None:
        return next((a for a in self.record or () if a.request_id == request_id), None)

    def services(self) -> dict[str, Service] | None:
        return self.hosts

    def force_down(self, service: Service) -> None:
        self.asked.append("force down")
        if not self.admin:
            raise Forbidden("Policy doesn't allow os_compute_api:os-services:update (HTTP 403)")
        # It stamps what an administrator changes as it does what reports.
        stamp = f"{service.updated_at}, forced down"
        self.hosts = {service.host: replace(service, forced_down=True, updated_at=stamp)}

    def mark(self, ident: str, metadata: Mapping[str, str]) -> None:
        assert self.server is not None
        self.asked.append("mark")
        self.server = replace(
            self.server, metadata=dict(metadata), updated=f"{self.server.updated}, marked"
        )

    def delete(self, ident: str, *, force: bool, trace: str | None = None) -> Any:
        assert self.server is not None
        self.asked.append("forceDelete" if force else "delete")
        if self.server.task_state in ("deleting", "soft-deleting"):
            # "Instance is already in deleting state, ignoring this request"; and stamped anew.
            self.server = replace(self.server, task_state="deleting", updated="again")
        elif self.loses:
            self.server = replace(self.server, task_state="deleting")
        else:
            ended = Event(event="compute_terminate_instance", result="Success", host="cmp1")
            service = (self.hosts or {}).get(self.server.host or "")
            forced = service is not None and service.forced_down
            nowhere = forced or self.server.host_status == ""
            events = [] if nowhere else [ended]
            assert self.record is not None
            self.record.insert(0, Action(action="delete", request_id="r-d", events=events))
            self.server = None
        return type("Answer", (), {"request_id": "r-d"})

    def flavor_id(self, given: str) -> str:
        return given

    def image_id(self, given: str) -> str:
        return given

    def create(self, body: Mapping[str, Any], **_: object) -> str:
        self.asked.append("create")
        return "new"

    def do(self, ident: str, body: Mapping[str, Any], **_: object) -> Any:
        assert self.server is not None
        (what,) = body
        self.asked.append(what)
        hard = body == {"reboot": {"type": "HARD"}}
        if hard and self.server.task_state in OVERRULED:
            assert self.record is not None
            act = Action(action="reboot", request_id="r-2", user_id=US, events=[])
            self.record.insert(0, act)
            return type("Answer", (), {"request_id": "r-2"})
        if self.server.task_state is not None:
            raise Conflict(f"Cannot '{what}' while it is in task_state {self.server.task_state}")
        self.server = replace(self.server, status="ACTIVE", power_state=1)
        return type("Answer", (), {"request_id": "r-1"})

    def reset_state(self, ident: str, state: str) -> None:
        if self.server is None:
            raise NotFound("Instance s could not be found (HTTP 404)")
        self.asked.append(f"reset {state}")
        if not self.admin:
            raise Forbidden("Policy doesn't allow it (HTTP 403)")
        self.server = replace(self.server, status=state.upper(), task_state=None)


@dataclass
class Clock:
    at_s: float = 1000.0

    def monotonic_s(self) -> float:
        return self.at_s

    def now_us(self) -> int:
        return int(self.at_s * 1_000_000)


def of(task: str | None, status: str = "ACTIVE", power: int = 1) -> Server:
    return Server(id="s", status=status, task_state=task, power_state=power, updated="T1")


class Census:
    """A list that lacks the server: what is known of it is asked for by its id."""

    def take(self, nova: Nova, **_: object) -> Snapshot:
        return gathered({}, "")


class World:
    """One driver and one node of it."""

    def __init__(self, nova: Nova) -> None:
        self.nova, self.clock, self.memory = nova, Clock(), SentRequests()
        self.tasks = Tasks(self.clock, BOUNDS)  # type: ignore[arg-type]
        self.target = Target(
            node_id=NodeId("n"), name="web", physical_id="s", profile_type="os.nova.server-1.0",
            spec={},
        )  # fmt: skip

    def read(self) -> Reading:
        found = read(self.nova, None, self.tasks, [self.target], all_projects=False)  # type: ignore[arg-type]
        return found[0]

    def stands(self, seconds: float) -> Reading:
        """Look every 10 s for so long."""
        for _ in range(int(seconds / 10)):
            self.read()
            self.clock.at_s += 10
        return self.read()

    def taken_over(self) -> None:
        """Another engine goes on, which knows what the server bears."""
        self.memory = SentRequests()

    def do(self, step: Callable[[ServerOperation], Progress], kind: str, **words: Any) -> Progress:
        job = ServerOperation(
            op=Operation(kind=kind, target=self.target, **words),
            operation_id=OperationId(f"o {kind}" if words else "o"),
            nova=self.nova, census=Census(), memory=self.memory, tasks=self.tasks,  # type: ignore[arg-type]
            clock=self.clock, facts={},  # type: ignore[arg-type]
        )  # fmt: skip
        try:
            return step(job)
        except YaffleError as error:
            return of_error(error)
