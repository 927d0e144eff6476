"""What is done about a task that moves no more: a deletion is finished, all else is forgotten."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace
from tests.unit.openstack.standing import US, Nova, World, of

from yaffle.core.health.backend_status_codes import classify
from yaffle.drivers.profiles.nova_server.api.documents import Server
from yaffle.drivers.profiles.nova_server.operations import delete, inplace
from yaffle.drivers.profiles.nova_server.tracking.operation import ServerOperation
from yaffle.integrations.openstack.servers.action_attribution import traced
from yaffle.integrations.openstack.servers.documents import Action, Event
from yaffle.integrations.openstack.servers.stuck_tasks import AT_DELETION
from yaffle.model.operations import Actor, Progress, ProgressState

ABSENT, DONE, FAILED = ProgressState.ABSENT, ProgressState.DONE, ProgressState.FAILED
RUNNING = ProgressState.RUNNING
ALICE = "alice"
THEN = "yaffle, but another process of it"


@pytest.mark.parametrize("task", ["deleting", "soft-deleting"])
@pytest.mark.parametrize("kind", ["KILL", "DELETE"])
@pytest.mark.parametrize("step", [delete.submit, delete.poll])
def test_a_deletion_that_stands_still_is_begun_anew(
    task: str, kind: str, step: Callable[[ServerOperation], Progress]
) -> None:
    world = World(Nova(of(task)))
    assert world.do(step, kind).state is RUNNING
    assert classify(world.stands(50))[0] == "ST-UNCLEAR"
    assert world.do(step, kind).state is RUNNING
    assert world.nova.asked == [], "it moves, as far as anybody can know"
    seen = world.stands(60)
    assert classify(seen)[0] == "ST-STUCK"
    assert f"Nova's task {task} has not moved for more than 1 min" in seen.detail
    if step is delete.poll:
        # Whoever polls has not asked yet whether it may still begin anything.
        assert world.do(step, kind).state is ABSENT
        assert world.nova.asked == []
    begun = world.do(delete.submit, kind)
    assert begun.state is RUNNING
    assert world.nova.asked == ["reset error", "forceDelete" if kind == "KILL" else "delete"]
    ended = world.do(delete.poll, kind)
    assert ended.state is DONE
    assert "compute_terminate_instance succeeded on cmp1" in ended.detail


@pytest.mark.parametrize("kind", ["KILL", "DELETE"])
def test_what_nova_keeps_for_a_while_is_deleted_for_good_by_a_submit_only(kind: str) -> None:
    world = World(Nova(of(None, "SOFT_DELETED", power=4)))
    assert world.do(delete.poll, kind).state is ABSENT
    assert world.nova.asked == [], (
        "whoever polls has not asked yet whether it may still begin anything"
    )
    assert world.do(delete.submit, kind).state is RUNNING
    assert world.nova.asked == ["forceDelete"]
    assert world.do(delete.poll, kind).state is DONE


def test_who_may_not_reset_it_says_what_to_do_and_deletes_nothing() -> None:
    world = World(Nova(of("deleting"), admin=False))
    world.stands(70)
    refused = world.do(delete.submit, "KILL")
    assert refused.state is FAILED
    for word in ("has not moved", "role admin", "server set --state error s", "HTTP 403"):
        assert word in refused.detail
    assert world.nova.asked == ["reset error"]
    # An administrator has done what was said.
    world.nova.server = of(None, "ERROR")
    assert classify(world.read())[0] == "ST-DOWN"
    assert world.do(delete.submit, "KILL").state is RUNNING
    assert world.do(delete.poll, "KILL").state is DONE


@pytest.mark.parametrize("status", ["ACTIVE", "ERROR"])
def test_a_deletion_that_is_lost_again_has_its_time_again(status: str) -> None:
    world = World(Nova(of("deleting", status), loses=True))
    world.stands(70)
    for _ in range(18):
        # As an engine does: what is polled as ABSENT is submitted.
        if world.do(delete.poll, "KILL").state is ABSENT:
            world.do(delete.submit, "KILL")
        world.clock.at_s += 10
    assert world.nova.asked == ["reset error", "forceDelete"] * 3


def test_a_server_that_goes_just_then_is_gone() -> None:
    nova = Nova(of("deleting"))
    world = World(nova)
    world.stands(70)
    seen, last = nova.server, nova.show
    ended = Event(event="compute_terminate_instance", result="Success", host="cmp1")
    record = [Action(action="delete", request_id="r", events=[ended])]

    def show(ident: str) -> Server | None:
        nova.server, nova.record = None, list(record)
        nova.show = last  # type: ignore[method-assign]
        return seen

    nova.show = show  # type: ignore[method-assign]
    assert world.do(delete.submit, "KILL").state is DONE


@pytest.mark.parametrize("kind", ["KILL", "DELETE"])
def test_a_host_that_wipes_a_disk_is_left_alone_and_said(kind: str) -> None:
    wipes = Event(event="compute_terminate_instance", host="cmp1")
    record = [Action(action="delete", request_id="r", events=[wipes])]
    world = World(Nova(of("deleting"), record=record))
    seen = world.stands(70)
    assert classify(seen)[0] == "ST-UNCLEAR"
    assert "cmp1 has begun it (compute_terminate_instance) and not ended" in seen.detail
    for step in (delete.poll, delete.submit):
        told = world.do(step, kind)
        assert told.state is RUNNING
        assert "cmp1 has begun it" in told.detail
    assert world.nova.asked == []
    # The host has died over it, and come back without a word: its own is not believed for ever.
    assert classify(world.stands(AT_DELETION * 60))[0] == "ST-STUCK"
    world.do(delete.submit, kind)
    assert world.nova.asked[0] == "reset error"


@pytest.mark.parametrize("task", ["resize_migrating", "rebuilding", "deleting"])
@pytest.mark.parametrize(
    "record",
    [
        pytest.param(None, id="no acts"),
        pytest.param([Action(action="resize", request_id=None)], id="not one of them"),
        pytest.param([Action(action="resize", request_id="r", events=None)], id="no events"),
    ],
)
def test_what_nova_does_not_tell_is_never_nobody(task: str, record: list[Action] | None) -> None:
    world = World(Nova(of(task), record=record))
    for seconds in (700, 25 * 600):
        seen = world.stands(seconds)
        assert classify(seen)[0] == "ST-UNCLEAR"
        assert "Nova does not tell who is at it" in seen.detail
        if task == "deleting":
            told = world.do(delete.submit, "KILL")
        else:
            told = world.do(inplace.submit, "START")
        assert told.state is RUNNING
        assert "Nova does not tell who is at it" in told.detail
    assert not any(a.startswith(("reset", "force")) for a in world.nova.asked)


def test_a_lost_host_is_no_stuck_task() -> None:
    lost = replace(of("deleting"), host="cmp1", host_status="DOWN")
    world = World(Nova(lost))
    assert classify(world.stands(5000))[0] == "ST-UNCLEAR"
    world.do(delete.submit, "KILL")
    assert world.nova.asked == []


@pytest.mark.parametrize(
    ("power", "reset"),
    [pytest.param(1, "active", id="ran"), pytest.param(4, "error", id="was off")],
)
def test_what_stands_in_the_way_of_a_cure_is_forgotten(power: int, reset: str) -> None:
    world = World(Nova(of("powering-off", power=power)))
    assert "later" in world.do(inplace.submit, "START").detail
    world.stands(70)
    assert world.do(inplace.submit, "START").state is RUNNING
    assert [a for a in world.nova.asked if a.startswith("reset")] == [f"reset {reset}"]
    again = world.do(inplace.submit, "START")
    assert again.state is (DONE if power == 1 else RUNNING)


def test_a_cure_that_may_not_reset_leaves_it_to_the_next_rung() -> None:
    world = World(Nova(of("powering-off"), admin=False))
    world.stands(70)
    refused = world.do(inplace.submit, "START")
    assert refused.state is FAILED
    assert "role admin" in refused.detail
    assert world.read().stuck, "what we have written on it made its task look like a new one"


def test_a_deletion_is_never_undone_to_heal() -> None:
    world = World(Nova(of("deleting")))
    world.stands(5000)
    for kind in ("START", "REBOOT", "UNPAUSE"):
        refused = world.do(inplace.submit, kind)
        assert refused.state is FAILED
        assert "not healed" in refused.detail
    assert not any(a.startswith("reset") for a in world.nova.asked)


def test_what_a_host_is_at_is_left_alone_and_said() -> None:
    begun = Action(
        action="rebuild", request_id="r", events=[Event(event="compute_rebuild", host="cmp1")]
    )
    world = World(Nova(of("rebuilding", "REBUILD"), record=[begun]))
    seen = world.stands(700)
    assert classify(seen)[0] == "ST-UNCLEAR"
    assert "cmp1 has begun it (compute_rebuild) and not ended" in seen.detail
    assert world.do(inplace.submit, "REBOOT").state is RUNNING
    assert not any(a.startswith("reset") for a in world.nova.asked)
    # The same without a host that has ever begun: nobody works on it.
    world.nova.record = [Action(action="rebuild", request_id="r", events=[])]
    assert classify(world.read())[0] == "ST-STUCK"
    assert world.do(inplace.submit, "REBOOT").state is RUNNING
    assert "reset active" in world.nova.asked


def test_an_error_is_an_error_whatever_is_tried_on_it() -> None:
    world = World(Nova(of("deleting", "ERROR")))
    assert classify(world.stands(5000))[0] == "ST-DOWN"
    assert world.do(delete.submit, "KILL").state is RUNNING
    assert world.nova.asked == ["reset error", "forceDelete"]


@pytest.mark.parametrize(
    ("task", "status"),
    [
        ("rebooting", "REBOOT"),
        ("rebooting_hard", "HARD_REBOOT"),
        ("pausing", "ACTIVE"),
        ("resuming", "SUSPENDED"),
    ],
)
def test_a_reboot_that_nova_accepts_all_the_same_is_marked_and_not_done_twice(
    task: str, status: str
) -> None:
    world = World(Nova(of(task, status)))
    world.stands(700)
    assert "accepted" in world.do(inplace.submit, "REBOOT").detail
    assert world.nova.asked == ["mark", "reboot"]
    world.taken_over()
    for step in (inplace.poll, inplace.submit):
        assert world.do(step, "REBOOT").state is RUNNING
    assert world.nova.asked == ["mark", "reboot"]


def test_a_reboot_that_nova_refuses_leaves_no_mark() -> None:
    world = World(Nova(of("powering-off"), admin=False))
    world.stands(70)
    assert world.do(inplace.submit, "REBOOT").state is FAILED
    assert world.nova.asked == ["reboot", "reset active"]
    assert world.read().stuck


@pytest.mark.parametrize(
    ("status", "task"),
    [("SHELVED_OFFLOADED", "unshelving"), ("SHELVED", "shelving_offloading")],
)
def test_what_was_put_away_keeps_its_way_back(status: str, task: str) -> None:
    world = World(Nova(of(task, status, power=4)))
    assert classify(world.stands(700))[0] == "ST-STUCK"
    for kind in ("START", "REBOOT"):
        refused = world.do(inplace.submit, kind)
        assert refused.state is FAILED
        assert "for a person to choose" in refused.detail
    assert not any(a.startswith("reset") for a in world.nova.asked)


@pytest.mark.parametrize(
    ("task", "record", "who"),
    [
        pytest.param("deleting", [("delete", ALICE)], Actor.USER, id="a user's own deletion"),
        pytest.param("deleting", [("delete", US)], Actor.OURSELVES, id="a fence of ours"),
        pytest.param("deleting", [("delete", THEN)], Actor.UNKNOWN, id="a fence before our start"),
        pytest.param("deleting", [("create", ALICE)], Actor.UNKNOWN, id="nobody wrote it down"),
        pytest.param(
            "deleting",
            [("resetState", ALICE), ("delete", ALICE)],
            Actor.USER,
            id="a user's, reset and asked for again without a record",
        ),
        pytest.param("powering-off", [("stop", ALICE)], Actor.USER, id="a user's own stop"),
        pytest.param("powering-off", [("reboot", ALICE)], Actor.NOBODY, id="a stop of nobody's"),
        pytest.param("rebooting", [("reboot", ALICE)], Actor.NOBODY, id="it was to run afterwards"),
        pytest.param("rebuilding", [("rebuild", ALICE)], Actor.NOBODY, id="rebuilt, to run"),
    ],
)
def test_whose_will_it_was(task: str, record: list[tuple[str, str]], who: Actor) -> None:
    acts = [Action(action=name, user_id=user, request_id=name) for name, user in record]
    us, known = (US, True) if all(user != THEN for _, user in record) else (THEN, False)
    assert traced(of(task), acts, us=us, ours=lambda _: known).actor is who
