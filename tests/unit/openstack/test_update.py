"""An update asks for each change once, in order, whoever goes on with it and whatever is lost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product

import pytest
from tests.unit.openstack.small_cloud import ALICE, SERVER, US, SmallCloud
from tests.unit.openstack.standing import BOUNDS, Clock

from yaffle.core.health.backend_status_codes import classify
from yaffle.drivers.profiles.nova_server.api.nova import Nova
from yaffle.drivers.profiles.nova_server.operations import update
from yaffle.drivers.profiles.nova_server.operations.network_update import changeable
from yaffle.drivers.profiles.nova_server.operations.resize_table import (
    ROWS,
    Move,
    Seen,
    Stage,
    row_of,
)
from yaffle.drivers.profiles.nova_server.schema import SCHEMA
from yaffle.drivers.profiles.nova_server.spec import validate
from yaffle.drivers.profiles.nova_server.status.reading import read
from yaffle.drivers.profiles.nova_server.tracking.operation import (
    SETTLE_S,
    ServerOperation,
    of_error,
)
from yaffle.errors import YaffleError
from yaffle.integrations.openstack.sent_requests import SentRequests
from yaffle.integrations.openstack.servers.stuck_tasks import Tasks
from yaffle.model.ids import NodeId, OperationId
from yaffle.model.operations import Operation, Progress, ProgressState, Reading, Target
from yaffle.model.properties import updatable

ABSENT, DONE, FAILED = ProgressState.ABSENT, ProgressState.DONE, ProgressState.FAILED
RUNNING = ProgressState.RUNNING
OLD: Mapping[str, object] = {"flavor": "tiny", "image": "i-1", "networks": "none"}
OTHER = "01c3e056-5dd3-4277-8976-32b076612bcb"
FIRST = "7c0e5b6e-5dd3-4277-8976-32b076612bcb"
ADVICE = f"a person has to confirm or revert it (openstack server resize confirm|revert {SERVER})"


class World:
    """One node that is given another profile; every call may come from another engine."""

    def __init__(self, cloud: SmallCloud, old: Mapping[str, object], **new: object) -> None:
        self.cloud, self.clock, self.memory = cloud, Clock(), SentRequests()
        self.operation = "o"
        self.old = validate({**OLD, **old})
        self.new = validate({**self.old, **new})
        self.in_doubt: list[str] = []

    @property
    def target(self) -> Target:
        return Target(
            node_id=NodeId("n"), name="web", physical_id=SERVER,
            profile_type="os.nova.server-1.0", spec=self.new,
        )  # fmt: skip

    def call(self, step: Callable[[ServerOperation], Progress]) -> Progress:
        tasks = Tasks(self.clock, BOUNDS)  # type: ignore[arg-type]
        op = Operation(
            kind="UPDATE", target=self.target, params={"old": self.old, "in_doubt": self.in_doubt}
        )
        job = ServerOperation(
            op=op, operation_id=OperationId(self.operation), nova=Nova(self.cloud),  # type: ignore[arg-type]
            census=None, memory=self.memory, tasks=tasks, clock=self.clock, facts={},  # type: ignore[arg-type]
        )  # fmt: skip
        try:
            return step(job)
        except YaffleError as error:
            return of_error(error)

    def read(self) -> Reading:
        tasks = Tasks(self.clock, BOUNDS)  # type: ignore[arg-type]
        (found,) = read(Nova(self.cloud), None, tasks, [self.target], all_projects=False)  # type: ignore[arg-type]
        return found

    def to_its_end(self, *, forgetful: bool = False, looks: int = 40) -> Progress:
        """Go on as the engine does; `forgetful`: each call is made by an engine of its own."""
        done = self.call(update.submit)
        for _ in range(looks):
            if done.state in (DONE, FAILED):
                return done
            self.clock.at_s += 1
            if forgetful:
                self.memory = SentRequests()
            # Twice: nothing is done twice because somebody looks before anything has moved.
            for _ in range(2):
                done = self.call(update.poll)
                if done.state is ABSENT:
                    done = self.call(update.submit)
            self.cloud.tick()
        return done


def counted(cloud: SmallCloud) -> dict[str, int]:
    """Return how often each act was recorded."""
    names = [act["action"] for act in cloud.acts]
    return {name: names.count(name) for name in names}


# --- the table -----------------------------------------------------------------------------------

EVERY = [
    Seen(status=s, idle=i, fits=f, told=t, resize=r, confirm=c, revert=v)
    for s, i, f, t, r, c, v in product(
        ("ACTIVE", "SHUTOFF", "VERIFY_RESIZE", "ERROR", "RESIZE"),
        (True, False), (True, False), (True, False), Stage, Stage, Stage,
    )
]  # fmt: skip


def test_every_way_for_a_resize_to_be_has_a_row_and_every_row_is_one() -> None:
    used = [row_of(seen) for seen in EVERY]
    assert all(row in used for row in ROWS)


def test_only_what_is_ours_and_as_asked_for_is_confirmed_once() -> None:
    for seen in EVERY:
        if row_of(seen).move is Move.CONFIRM:
            assert (seen.status, seen.idle, seen.fits) == ("VERIFY_RESIZE", True, True)
            assert seen.resize is not Stage.NONE
            assert seen.confirm is seen.revert is Stage.NONE


def test_a_resize_is_asked_for_only_where_none_was() -> None:
    for seen in EVERY:
        if row_of(seen).move is Move.ASK:
            assert seen.resize is Stage.NONE
            assert not seen.fits
            assert seen.idle
            # What is to be begun there is a confirmation, always.
            assert seen.status != "VERIFY_RESIZE"


def test_nobody_goes_back_to_the_old_disk() -> None:
    assert {move.name for move in Move} == {"ASK", "WAIT", "CONFIRM", "DONE", "FAILED"}


def test_nothing_is_a_failure_while_something_is_done() -> None:
    busy = [row_of(seen).move for seen in EVERY if not seen.idle]
    assert set(busy) == {Move.WAIT}


def test_a_failure_has_a_reason_or_its_act_is_over() -> None:
    for seen in EVERY:
        if seen.status == "ERROR" and row_of(seen).move is Move.FAILED:
            assert seen.told or not seen.open


# --- the flavor ----------------------------------------------------------------------------------


@pytest.mark.parametrize("forgetful", [False, True], ids=["one engine", "an engine for each call"])
@pytest.mark.parametrize("status", ["ACTIVE", "SHUTOFF"])
def test_a_flavor_is_asked_for_and_confirmed_once(status: str, forgetful: bool) -> None:
    cloud = SmallCloud(status=status)
    done = World(cloud, {}, flavor="small", metadata={"role": "db"}).to_its_end(forgetful=forgetful)
    assert done.state is DONE, done.detail
    assert (cloud.status, cloud.size) == (status, "f-small")
    assert counted(cloud) == {"resize": 1, "confirmResize": 1}
    assert cloud.metadata["role"] == "db"
    assert done.attributes is not None
    assert done.attributes["flavor"] == "small"


@pytest.mark.parametrize("lost", ["mark", "resize", "confirmResize", "rename"])
def test_an_answer_that_is_lost_is_not_asked_for_again(lost: str) -> None:
    cloud = SmallCloud(loses={lost})
    world = World(cloud, {}, flavor="small")
    assert world.to_its_end().state is DONE
    assert counted(cloud) == {"resize": 1, "confirmResize": 1}
    assert not cloud.loses


@pytest.mark.parametrize("forgetful", [False, True], ids=["one engine", "an engine for each call"])
def test_no_health_check_takes_a_resize_for_a_failure(forgetful: bool) -> None:
    cloud = SmallCloud()
    world = World(cloud, {}, flavor="small")
    seen = [world.read()]
    world.call(update.submit)
    while cloud.status != "ACTIVE" or cloud.left:
        world.memory = SentRequests() if forgetful else world.memory
        seen.append(world.read())
        cloud.tick()
        seen.append(world.read())
        if world.call(update.poll).state is ABSENT:
            world.call(update.submit)
    assert {"RESIZE", "VERIFY_RESIZE"} <= {s.backend_status for s in seen}
    assert {classify(s)[0] for s in seen} == {"ST-UP", "ST-UNCLEAR"}


def test_whoever_takes_over_does_not_resize_again() -> None:
    """Neither what is under way, nor what has failed and was put back."""
    cloud = SmallCloud()
    world = World(cloud, {}, flavor="huge")
    world.call(update.submit)
    for _ in range(2):
        world.memory = SentRequests()
        world.clock.at_s += 60
        assert world.call(update.submit).state is RUNNING
    cloud.tick()
    for step in (update.poll, update.submit):
        world.memory = SentRequests()
        done = world.call(step)
        assert done.state is FAILED
        assert "left it with the old flavor" in done.detail
        assert "No valid host was found" in done.detail
    assert counted(cloud) == {"resize": 1}
    assert cloud.status == "ACTIVE"


def test_an_engine_that_dies_between_mark_and_request_leaves_it_to_the_next() -> None:
    cloud = SmallCloud(forbids={"resize"})
    world = World(cloud, {}, flavor="small")
    assert world.call(update.submit).state is FAILED
    cloud.forbids, world.memory = set(), SentRequests()
    assert world.call(update.poll).state is RUNNING, "it may be on its way"
    world.clock.at_s += 30
    assert world.call(update.poll).state is ABSENT, "a poll begins nothing"
    assert world.to_its_end().state is DONE
    assert counted(cloud)["resize"] == 1


def test_a_resize_of_somebody_elses_is_not_confirmed() -> None:
    cloud = SmallCloud()
    cloud.by(ALICE, "resize", flavorRef="f-small")
    cloud.tick()
    world = World(cloud, {}, flavor="small")
    for _ in range(3):
        done = world.call(update.submit)
        assert done.state is FAILED
        assert "this update has not asked for" in done.detail
        assert ADVICE in done.detail
    assert cloud.status == "VERIFY_RESIZE"
    assert cloud.asked == []


def test_after_our_mark_somebody_elses_resize_is_theirs() -> None:
    cloud = SmallCloud(forbids={"resize"})
    world = World(cloud, {}, flavor="small")
    world.call(update.submit)
    cloud.forbids = set()
    cloud.by(ALICE, "resize", flavorRef="f-small")
    cloud.tick()
    world.clock.at_s += 60
    assert world.call(update.poll).state is FAILED
    assert "confirmResize" not in counted(cloud)


@pytest.mark.parametrize("by_hand", [False, True], ids=["left by us", "by its customer's hand"])
def test_what_an_operation_left_unconfirmed_the_next_one_leaves_to_a_person(by_hand: bool) -> None:
    """Under a trust a customer's acts bear the same user as ours: an old mark does not tell them."""
    cloud = SmallCloud(forbids={"resize"} if by_hand else set())
    world = World(cloud, {}, flavor="small")
    world.call(update.submit)
    cloud.forbids = set()
    if by_hand:
        cloud.by(US, "resize", flavorRef="f-small")
    cloud.tick()
    world.operation = "o-2"
    for forgets in (False, True):
        done = world.to_its_end(forgetful=forgets)
        assert done.state is FAILED
        assert ADVICE in done.detail
    assert counted(cloud) == {"resize": 1}


def test_a_flavor_that_it_has_is_not_asked_for() -> None:
    cloud = SmallCloud()
    assert World(cloud, {}, flavor="f-tiny").to_its_end().state is DONE
    assert cloud.acts == []


@pytest.mark.parametrize("forgetful", [False, True], ids=["one engine", "an engine for each call"])
@pytest.mark.parametrize("how", ["breaks", "forbids"])
def test_what_cannot_be_confirmed_is_left_to_a_person(how: str, forgetful: bool) -> None:
    """Going back would lose all that the guest has written since."""
    cloud = SmallCloud(**{how: {"confirmResize"}})  # type: ignore[arg-type]
    world = World(cloud, {}, flavor="small")
    for _ in range(2):
        done = world.to_its_end(forgetful=forgetful)
        assert done.state is FAILED
        assert "resized, and not confirmed" in done.detail
        assert ADVICE in done.detail
        cloud.tick()
    assert (cloud.status, cloud.size) == ("VERIFY_RESIZE", "f-small")
    assert "revertResize" not in cloud.asked


def test_a_poll_confirms_nothing() -> None:
    """A stop keeps every submit back: with it the old disk is kept."""
    cloud = SmallCloud()
    world = World(cloud, {}, flavor="small")
    world.call(update.submit)
    cloud.tick()
    for forgets in (False, True):
        world.memory = SentRequests() if forgets else world.memory
        world.clock.at_s += 60
        found = world.call(update.poll)
        assert found.state is ABSENT
        assert "to be confirmed" in found.detail
    assert cloud.asked == ["mark", "resize"]
    assert world.call(update.submit).state is RUNNING
    assert cloud.asked[2:] == ["confirmResize"]


def test_a_revert_of_somebody_elses_is_waited_for_and_told() -> None:
    cloud = SmallCloud()
    world = World(cloud, {}, flavor="small")
    world.call(update.submit)
    cloud.tick()
    cloud.by(ALICE, "revertResize")
    for step in (update.poll, update.submit):
        assert world.call(step).state is RUNNING
    cloud.tick()
    done = world.to_its_end()
    assert done.state is FAILED
    assert "the resize was reverted" in done.detail
    assert counted(cloud) == {"resize": 1, "revertResize": 1}


@pytest.mark.parametrize("forgetful", [False, True], ids=["one engine", "an engine for each call"])
def test_what_nova_does_not_tell_for_a_while_is_not_somebody_elses(forgetful: bool) -> None:
    cloud = SmallCloud()
    world = World(cloud, {}, flavor="small")
    world.call(update.submit)
    cloud.tick()
    world.memory = SentRequests() if forgetful else world.memory
    world.clock.at_s += 60
    cloud.hides_acts = True
    for step in (update.poll, update.submit):
        found = world.call(step)
        assert found.state is RUNNING
        assert "does not tell" in found.detail
    cloud.hides_acts = False
    assert world.to_its_end(forgetful=forgetful).state is DONE
    assert counted(cloud) == {"resize": 1, "confirmResize": 1}


def test_a_host_that_fails_says_why() -> None:
    cloud = SmallCloud(breaks={"resize"})
    done = World(cloud, {}, flavor="small").to_its_end()
    assert done.state is FAILED
    assert "no room" in done.detail


def test_what_went_wrong_before_is_not_why_it_goes_wrong_now() -> None:
    """Nova shows the old fault of a server that has just failed again, and no task."""
    before = {"message": "no room", "code": 500, "created": "2025-12-31T23:59:59Z"}
    cloud = SmallCloud(errs={"confirmResize"}, fault=before)
    world = World(cloud, {}, flavor="small")
    world.call(update.submit)
    cloud.tick()
    world.call(update.submit)
    cloud.tick()
    assert cloud.status == "ERROR"
    for _ in range(2):
        early = world.call(update.poll)
        assert early.state is RUNNING
        assert "has not said why yet" in early.detail
        world.clock.at_s += 1
    cloud.tick()
    done = world.call(update.poll)
    assert done.state is FAILED
    assert "disk is busy" in done.detail
    assert "no room" not in done.detail


def test_a_reason_that_never_comes_is_not_waited_for() -> None:
    """The host has died before it could say why: the act never ends."""
    cloud = SmallCloud(errs={"confirmResize"})
    world = World(cloud, {}, flavor="small")
    world.call(update.submit)
    cloud.tick()
    world.call(update.submit)
    cloud.tick()
    looks = 0
    while (done := world.call(update.poll)).state is RUNNING and looks < SETTLE_S:
        looks += 1
        world.clock.at_s += 2
    assert done.state is FAILED
    assert looks == SETTLE_S / 2


def test_a_resize_that_could_not_be_followed_is_not_begun() -> None:
    cloud = SmallCloud(hides_acts=True)
    done = World(cloud, {}, flavor="small").to_its_end()
    assert done.state is FAILED
    assert "os-instance-actions" in done.detail
    assert cloud.asked == []


# --- several changes -----------------------------------------------------------------------------


@pytest.mark.parametrize("forgetful", [False, True], ids=["one engine", "an engine for each call"])
def test_several_changes_are_made_in_order(forgetful: bool) -> None:
    cloud = SmallCloud()
    cloud.plug("n-a", port="p-a")
    world = World(
        cloud, {"networks": [{"network": "a"}]},
        flavor="small", image=OTHER, name="other", networks=[{"network": "b"}],
    )  # fmt: skip
    done = world.to_its_end(forgetful=forgetful)
    assert done.state is DONE, done.detail
    assert [act["action"] for act in reversed(cloud.acts)] == [
        "attach_interface", "detach_interface", "resize", "confirmResize", "rebuild",
    ]  # fmt: skip
    assert (cloud.name, cloud.image, cloud.size) == ("other", OTHER, "f-small")
    assert {port["net_id"] for port in cloud.ports.values()} == {"n-b"}


def test_no_disk_is_given_up_for_a_flavor_that_is_not_had() -> None:
    cloud = SmallCloud()
    done = World(cloud, {}, flavor="huge", image=OTHER).to_its_end()
    assert done.state is FAILED
    assert "rebuild" not in counted(cloud)


def test_a_poll_begins_no_step() -> None:
    cloud = SmallCloud()
    world = World(cloud, {}, flavor="small", image=OTHER)
    for _ in ("resize", "confirmResize"):
        world.call(update.submit)
        cloud.tick()
    assert cloud.status == "ACTIVE"
    for _ in range(3):
        assert world.call(update.poll).state is ABSENT
    assert "rebuild" not in counted(cloud)


# --- networks ------------------------------------------------------------------------------------

A, B = {"network": "a"}, {"network": "b"}
BEFORE = {"p-0", "p-1", "p-9", "p-x"}
"""Ports that were there before; what Nova has made besides is known by its network."""


@pytest.mark.parametrize("forgetful", [False, True], ids=["one engine", "an engine for each call"])
@pytest.mark.parametrize(
    ("old", "new", "asked", "ports"),
    [
        pytest.param([A], [A, B], ["attach"], {"p-0", "n-b"}, id="one more"),
        pytest.param([A, B], [B], ["detach"], {"p-1"}, id="one less"),
        pytest.param([A], [B], ["attach", "detach"], {"n-b"}, id="another: never without"),
        pytest.param([A, B], [B, A], [], {"p-0", "p-1"}, id="another order"),
        pytest.param([A], "none", ["detach"], set(), id="none"),
        pytest.param("none", [A, {"port": "p-9"}], ["attach"] * 2, {"n-a", "p-9"}, id="from none"),
        pytest.param(
            [A], [{**A, "fixed_ip": "10.0.0.9"}], ["attach", "detach"], {"n-a"}, id="an address"
        ),
        pytest.param([A], [{**A, "fixed_ip": "10.0.0.1"}], [], {"p-0"}, id="the address it has"),
        pytest.param([A], [{"network": "n-a"}], [], {"p-0"}, id="by its id"),
        pytest.param([A, A], [A], ["detach"], {"p-0"}, id="one of two"),
    ],
)
def test_networks_are_attached_then_detached(
    old: object, new: object, asked: list[str], ports: set[str], forgetful: bool
) -> None:
    cloud = SmallCloud()
    for place, item in enumerate(old if isinstance(old, list) else ()):
        cloud.plug(f"n-{item['network']}", port=f"p-{place}")
    # Somebody else's, on a network that no profile names.
    cloud.plug("n-x", port="p-x")
    done = World(cloud, {"networks": old}, networks=new).to_its_end(forgetful=forgetful)
    assert done.state is DONE, done.detail
    words = [act["action"].removesuffix("_interface") for act in reversed(cloud.acts)]
    assert words == asked
    left = {p if p in BEFORE else has["net_id"] for p, has in cloud.ports.items()}
    assert left == {*ports, "p-x"}


def test_which_of_two_alike_is_the_profiles_is_not_guessed() -> None:
    cloud = SmallCloud()
    cloud.plug("n-a", port="p-0")
    cloud.plug("n-a", port="p-1")
    done = World(cloud, {"networks": [A]}, networks="none").to_its_end()
    assert done.state is FAILED
    assert "p-0, p-1" in done.detail
    assert len(cloud.ports) == 2


@pytest.mark.parametrize("lost", ["attach_interface", "detach_interface p-0"])
def test_a_lost_answer_attaches_and_detaches_nothing_twice(lost: str) -> None:
    cloud = SmallCloud(loses={lost})
    cloud.plug("n-a", port="p-0")
    world = World(cloud, {"networks": [A]}, networks=[B])
    assert world.to_its_end().state is DONE
    assert not cloud.loses
    assert counted(cloud) == {"attach_interface": 1, "detach_interface": 1}
    assert len(cloud.ports) == 1


def test_networks_that_could_not_be_followed_are_not_begun() -> None:
    cloud = SmallCloud(hides_acts=True)
    done = World(cloud, {}, networks=[A]).to_its_end()
    assert done.state is FAILED
    assert "os-instance-actions" in done.detail
    assert cloud.asked == []


def test_what_may_be_going_on_untold_is_not_attached_again() -> None:
    cloud = SmallCloud(loses={"attach_interface"})
    world = World(cloud, {}, networks=[A])
    world.call(update.submit)
    world.memory = SentRequests()
    world.clock.at_s += 60
    cloud.hides_acts = True
    for step in (update.poll, update.submit):
        assert world.call(step).state is RUNNING
    cloud.hides_acts = False
    assert world.to_its_end().state is DONE
    assert counted(cloud) == {"attach_interface": 1}


def test_what_a_guest_does_not_let_go_is_told_and_nothing_else_is_done() -> None:
    cloud = SmallCloud(breaks={"detach_interface"})
    cloud.plug("n-a", port="p-0")
    done = World(cloud, {"networks": [A]}, networks="none", flavor="small").to_its_end()
    assert done.state is FAILED
    assert "the guest does not let go" in done.detail
    assert "resize" not in counted(cloud)


def test_a_network_that_is_not_there_changes_nothing() -> None:
    cloud = SmallCloud()
    done = World(cloud, {}, networks=[{"network": "z"}]).to_its_end()
    assert done.state is FAILED
    assert "no network 'z'" in done.detail
    assert cloud.asked == []


# --- what can be changed where it is -------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "in_place"),
    [
        ({"flavor": "f"}, True),
        ({"networks": [{"network": "a"}]}, True),
        ({"networks": "auto"}, False),
        ({"image": "i", "name": "n", "metadata": {"a": "b"}}, True),
        ({"flavor": "f", "key_name": "k"}, False),
        ({"user_data": "x"}, False),
    ],
)
def test_what_a_server_that_is_there_can_be_given(
    change: Mapping[str, object], in_place: bool
) -> None:
    old = validate(OLD)
    assert updatable(SCHEMA, old, validate({**old, **change})) is in_place


def test_what_auto_meant_is_not_guessed() -> None:
    assert changeable("auto", "auto")
    assert not changeable("auto", [A])
    assert not changeable([A], "auto")


def test_the_small_cloud_refuses_what_nova_refuses() -> None:
    cloud = SmallCloud(status="VERIFY_RESIZE")
    world = World(cloud, {}, metadata={"a": "b"})
    done = world.to_its_end()
    assert done.state is FAILED
    assert "update metadata" in done.detail


@pytest.mark.parametrize(
    ("has", "rebuilds", "state"),
    [
        pytest.param(FIRST, 0, DONE, id="it never came so far"),
        pytest.param(OTHER, 1, DONE, id="it did"),
        pytest.param("", 0, FAILED, id="of its volume that is not told"),
    ],
)
def test_a_disk_is_not_given_up_only_to_be_sure_of_its_image(
    has: str, rebuilds: int, state: ProgressState
) -> None:
    """An update to another image has failed somewhere, and the node is given its old profile again."""
    cloud = SmallCloud(image=has)
    world = World(cloud, {"image": OTHER}, image=FIRST)
    world.in_doubt = ["image"]
    assert world.to_its_end().state is state
    assert counted(cloud).get("rebuild", 0) == rebuilds
