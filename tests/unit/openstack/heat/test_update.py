"""How far an update is, by what its stack bears: read the same by who has sent it and by a successor."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from yaffle.drivers.profiles.heat_stack.api.documents import Stack
from yaffle.drivers.profiles.heat_stack.operations.operation import SETTLE_S, StackOperation
from yaffle.drivers.profiles.heat_stack.operations.termination_proofs import Proofs
from yaffle.drivers.profiles.heat_stack.operations.update import follow
from yaffle.drivers.profiles.heat_stack.status.ownership_tags import Mark, tags_for
from yaffle.engine.runtime.clock import SystemClock
from yaffle.integrations.openstack.sent_requests import Sent, SentRequests
from yaffle.model.ids import NodeId, OperationId
from yaffle.model.operations import Operation, ProgressState, Target

CLOCK = SystemClock()
OURS = OperationId("op-1")
TARGET = Target(
    node_id=NodeId("n"), name="n", physical_id="s", profile_type="os.heat.stack-1.0", spec={}
)
HEAT = SimpleNamespace(
    resources=lambda _: [], client=SimpleNamespace(project_id="p", left_s=lambda: 9.0)
)
OLD, NEW = "2026-01-01T00:00:00Z", "2026-01-01T00:00:09Z"
RUNNING, DONE = ProgressState.RUNNING, ProgressState.DONE
FAILED, ABSENT = ProgressState.FAILED, ProgressState.ABSENT


def job(sent: Sent | None = None) -> StackOperation:
    memory = SentRequests()
    if sent is not None:
        memory.note(OURS, sent)
    return StackOperation(
        op=Operation(kind="STACK_UPDATE", target=TARGET),
        operation_id=OURS,
        heat=HEAT,  # type: ignore[arg-type]
        servers=HEAT,  # type: ignore[arg-type]
        reader=HEAT,  # type: ignore[arg-type]
        memory=memory,
        proofs=Proofs(),
        clock=CLOCK,
        facts={},
    )


def stack(status: str, updated: str, by: str, *, age_s: float = 1.0) -> Stack:
    """Return a stack as operation `by` left it, which was begun when its last change was OLD."""
    at_us = CLOCK.now_us() - int(age_s * 1_000_000)
    mark = Mark(operation_id=by, kind="STACK_UPDATE", at_us=at_us, before=OLD)
    tags = tags_for(TARGET, mark).split(",")
    return Stack(id="s", name="s", status=status, updated=updated, tags=tags)


@pytest.mark.parametrize(
    ("status", "updated", "by", "state"),
    [
        pytest.param("UPDATE_IN_PROGRESS", NEW, "op-1", RUNNING, id="under way"),
        pytest.param("UPDATE_COMPLETE", NEW, "op-1", DONE, id="over"),
        pytest.param("UPDATE_FAILED", NEW, "op-1", FAILED, id="failed"),
        pytest.param("ROLLBACK_COMPLETE", NEW, "op-1", FAILED, id="taken back"),
        pytest.param("ROLLBACK_IN_PROGRESS", NEW, "op-1", RUNNING, id="being taken back"),
        # The tag may be read before the status that was stored with it.
        pytest.param("CREATE_COMPLETE", OLD, "op-1", RUNNING, id="not to be seen yet"),
        pytest.param("UPDATE_COMPLETE", NEW, "op-2", ABSENT, id="somebody else's"),
    ],
)
def test_how_far_an_update_is(status: str, updated: str, by: str, state: ProgressState) -> None:
    assert follow(job(), stack(status, updated, by)).state is state


def test_what_got_no_answer_is_waited_for_and_then_sent_again() -> None:
    now_s = CLOCK.monotonic_s()
    plain = stack("CREATE_COMPLETE", OLD, "op-0")
    assert follow(job(Sent(at_s=now_s)), plain).state is RUNNING
    assert follow(job(Sent(at_s=now_s - SETTLE_S)), plain).state is ABSENT
    assert follow(job(Sent(at_s=now_s, refused=True)), plain).state is ABSENT


def test_an_update_begun_in_the_second_of_the_one_before_it_is_believed_later() -> None:
    late = SETTLE_S + 1.0
    assert follow(job(), stack("UPDATE_COMPLETE", OLD, "op-1")).state is RUNNING
    assert follow(job(), stack("UPDATE_COMPLETE", OLD, "op-1", age_s=late)).state is DONE
    assert follow(job(), stack("CREATE_COMPLETE", OLD, "op-1", age_s=late)).state is ABSENT
