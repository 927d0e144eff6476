"""Who brought a stack into its state: a user, ourselves, nobody, or nobody can tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from yaffle.drivers.profiles.heat_stack.action_attribution import ASKED_MAX, cause
from yaffle.drivers.profiles.heat_stack.api.documents import Event, Resource, Stack
from yaffle.drivers.profiles.heat_stack.status.members import Member, Seen, judge, seen_of
from yaffle.errors import DependencyError, Forbidden, NotFound
from yaffle.integrations.openstack import CloudUnavailable
from yaffle.integrations.openstack.servers.documents import Action, Listed
from yaffle.model.ids import NodeId
from yaffle.model.operations import Actor, Cause, Target

ALICE, US = "alice", "yaffle"
BEGAN = "2026-11-21T06:50:38Z"
BEFORE, AFTER = "2026-11-21T06:50:37.9", "2026-11-21T06:50:38.100000"
NODE = Target(
    node_id=NodeId("n"), name="n", physical_id="s", profile_type="os.heat.stack-1.0", spec={}
)


def ident(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012}"


def act(name: str, user: str | None, at: str = AFTER) -> Action:
    return Action(action=name, user_id=user, request_id="req-1", start_time=at)


@dataclass
class Cloud:
    """Heat, Nova and what a reading found, as far as a cause is asked of them."""

    status: str = "DELETE_COMPLETE"
    acts_of: dict[str, list[Action] | None] = field(default_factory=dict)
    servers: dict[str, Listed] = field(default_factory=dict)
    found: list[Member] = field(default_factory=list)
    known: bool = True
    fault: Exception | None = None
    client: object = field(default_factory=lambda: SimpleNamespace(user_id=US))

    def show(self, ident: str) -> object:
        if ident != "s":
            return self.servers.get(ident)
        return self._stack() if self.known else None

    def _stack(self) -> Stack:
        return Stack(id="s", name="s", status=self.status, updated=BEGAN)

    def nested_in(self, _: str) -> list[Stack]:
        return []

    def events(self, _: Stack) -> list[Event]:
        if self.fault is not None:
            raise self.fault
        return [Event(physical_id=ident) for ident in self.acts_of]

    def acts(self, ident: str) -> list[Action] | None:
        return self.acts_of[ident]

    def members(self, _: Stack) -> Sequence[Member]:
        return self.found

    def member(self, number: int, status: str = "SHUTOFF", heats: str = "CREATE_COMPLETE") -> None:
        """Add a member that is a server; an empty status: Nova has it no more."""
        resource = Resource(
            name=f"m{number}", type="OS::Nova::Server", status=heats, physical_id=ident(number)
        )
        seen = Seen(up=False, words="gone")
        if status:
            server = self.servers[ident(number)] = Listed(id=ident(number), status=status)
            seen = seen_of(server)
        self.found.append(judge(resource, seen))


def told(cloud: Cloud) -> Cause:
    return cause(cloud, cloud, cloud, NODE)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("acts", "who"),
    [
        pytest.param([[act("delete", ALICE)]], Actor.USER, id="a user"),
        pytest.param([[act("delete", US)]], Actor.UNKNOWN, id="us, or a person as us"),
        pytest.param([[act("delete", None)]], Actor.UNKNOWN, id="nova itself"),
        pytest.param([], Actor.UNKNOWN, id="no server"),
        pytest.param([None], Actor.UNKNOWN, id="nova knows nothing of it"),
        pytest.param([[act("delete", ALICE, BEFORE)]], Actor.UNKNOWN, id="replaced before"),
        pytest.param([[act("stop", ALICE)]], Actor.UNKNOWN, id="retained, and stopped since"),
        pytest.param(
            [[act("delete", US, BEFORE)], [act("lock", US), act("delete", ALICE)]],
            Actor.USER,
            id="one that we had replaced, one that went with it",
        ),
    ],
)
@pytest.mark.parametrize("status", ["DELETE_COMPLETE", "DELETE_FAILED"])
def test_who_deleted_it(acts: list[list[Action] | None], who: Actor, status: str) -> None:
    cloud = Cloud(status=status, acts_of={ident(n): one for n, one in enumerate(acts)})
    assert told(cloud).actor is who


def test_a_stack_that_heat_has_forgotten_tells_nothing() -> None:
    assert told(Cloud(known=False)).actor is Actor.UNKNOWN


STOPPED, FELL = [act("stop", ALICE)], [act("stop", None)]


@pytest.mark.parametrize(
    ("members", "who"),
    [
        pytest.param([("SHUTOFF", STOPPED)], Actor.USER, id="stopped"),
        pytest.param([("", [act("delete", ALICE)])], Actor.USER, id="deleted by hand"),
        pytest.param([("", [act("delete", US)])], Actor.UNKNOWN, id="deleted as us"),
        pytest.param([("SHUTOFF", FELL)], Actor.NOBODY, id="off by itself"),
        pytest.param([("SHUTOFF", None)], Actor.UNKNOWN, id="no record"),
        pytest.param([("SHUTOFF", STOPPED), ("SHUTOFF", FELL)], Actor.NOBODY, id="one by itself"),
        pytest.param([("SHUTOFF", STOPPED), ("SHUTOFF", None)], Actor.UNKNOWN, id="one in doubt"),
        pytest.param([("SHUTOFF", STOPPED)] * (ASKED_MAX + 1), Actor.UNKNOWN, id="too many"),
        pytest.param([("ACTIVE", STOPPED)], Actor.NOBODY, id="none any more"),
    ],
)
def test_who_brought_its_members_down(
    members: list[tuple[str, list[Action] | None]], who: Actor
) -> None:
    cloud = Cloud(status="UPDATE_COMPLETE")
    for number, (status, acts) in enumerate(members):
        cloud.member(number, status)
        cloud.acts_of[ident(number)] = acts
        if status == "ACTIVE":
            cloud.found.clear()
    assert told(cloud).actor is who


def test_a_member_that_somebody_has_marked_is_to_be_replaced() -> None:
    cloud = Cloud(status="CREATE_COMPLETE", acts_of={ident(0): STOPPED})
    cloud.member(0, heats="CHECK_FAILED")
    assert told(cloud).actor is Actor.NOBODY


@pytest.mark.parametrize(
    ("acts", "who"),
    [
        pytest.param(None, Actor.UNASKED, id="none is known to have failed"),
        pytest.param(STOPPED, Actor.UNASKED, id="one was stopped by a user"),
        pytest.param(FELL, Actor.NOBODY, id="one went off by itself"),
    ],
)
def test_a_member_that_could_not_be_asked_about_leaves_it_open(
    acts: list[Action] | None, who: Actor
) -> None:
    cloud = Cloud(status="CREATE_COMPLETE")
    if acts is not None:
        cloud.member(0)
        cloud.acts_of[ident(0)] = acts
    resource = Resource(
        name="m1", type="OS::Nova::Server", status="CREATE_COMPLETE", physical_id=ident(1)
    )
    cloud.found.append(judge(resource, Seen(up=None, words="server: HTTP 500", asked=False)))
    assert told(cloud).actor is who


@pytest.mark.parametrize(
    ("status", "acts", "keeps"),
    [
        pytest.param("SHUTOFF", STOPPED, True, id="stopped, to be had again"),
        pytest.param("", [act("delete", ALICE)], False, id="deleted by hand"),
    ],
)
def test_whether_who_wished_it_wants_the_member_again(
    status: str, acts: list[Action], keeps: bool
) -> None:
    cloud = Cloud(status="CREATE_COMPLETE", acts_of={ident(0): acts})
    cloud.member(0, status)
    assert told(cloud).keeps is keeps


def test_a_stack_that_was_never_completed_is_nobodys_wish() -> None:
    assert told(Cloud(status="CREATE_FAILED")).actor is Actor.NOBODY


def test_what_may_not_be_read_is_unknown_and_what_is_changing_is_asked_again() -> None:
    assert told(Cloud(fault=Forbidden("not you"))).actor is Actor.UNKNOWN
    for fault in (NotFound("it went"), CloudUnavailable("503", sent=False)):
        with pytest.raises(DependencyError):
            told(Cloud(fault=fault))
