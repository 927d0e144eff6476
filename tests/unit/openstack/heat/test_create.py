"""A stack is made beside those alone that an operator wants no proof of, under a name of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from yaffle.drivers.profiles.heat_stack.api.documents import Stack
from yaffle.drivers.profiles.heat_stack.operations.create import poll, submit
from yaffle.drivers.profiles.heat_stack.operations.operation import StackOperation
from yaffle.drivers.profiles.heat_stack.operations.termination_proofs import Proofs
from yaffle.engine.runtime.clock import SystemClock
from yaffle.integrations.openstack.sent_requests import SentRequests
from yaffle.model.ids import NodeId, OperationId
from yaffle.model.operations import Operation, Progress, ProgressState, Target

OLD = Stack(id="old", name="yaffle-n", status="DELETE_FAILED", tags=["cluster_node_id=n"])
TARGET = Target(
    node_id=NodeId("n"), name="n", physical_id="old", profile_type="os.heat.stack-1.0",
    spec={"template": {}},
)  # fmt: skip


@dataclass
class Heat:
    """A small one: it gives no name twice."""

    stacks: list[Stack] = field(default_factory=lambda: [OLD])

    def named(self, name: str) -> list[Stack]:
        return [stack for stack in self.stacks if stack.name == name]

    def tagged(self, tag: str) -> list[Stack]:
        return [stack for stack in self.stacks if tag in (stack.tags or ())]

    def show(self, ident: str) -> Stack | None:
        return next((stack for stack in self.stacks if stack.id == ident), None)

    def create(self, body: Mapping[str, Any], *, trace: str | None) -> str:
        assert not self.named(body["stack_name"])
        made = Stack(
            id="new",
            name=body["stack_name"],
            status="CREATE_IN_PROGRESS",
            tags=body["tags"].split(","),
        )
        self.stacks.append(made)
        return made.id


def asked(heat: Heat, *waived: str) -> tuple[StackOperation, Progress]:
    nothing: Any = SimpleNamespace()
    job = StackOperation(
        op=Operation(kind="CREATE", target=TARGET, waived=frozenset(waived)),
        operation_id=OperationId("11111111-2222"), heat=heat,  # type: ignore[arg-type]
        servers=nothing, reader=nothing, memory=SentRequests(), proofs=Proofs(), clock=SystemClock(),
        facts={},
    )  # fmt: skip
    return job, submit(job)


def test_no_stack_is_made_beside_one_that_may_still_run() -> None:
    for waived in ((), ("another",)):
        heat = Heat()
        _, done = asked(heat, *waived)
        assert done.state is ProgressState.FAILED
        assert "an older copy of this node may still run: old" in done.detail
        assert heat.stacks == [OLD]


def test_with_consent_one_is_made_and_found_again() -> None:
    heat = Heat()
    job, done = asked(heat, "old")
    assert (done.state, done.physical_id) == (ProgressState.RUNNING, "new")
    assert heat.stacks[1].name == "yaffle-n-11111111"
    assert poll(job).physical_id == "new"
