"""A copy that came late is told with where it is reached, or not at all."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from yaffle.drivers.profiles.nova_server.api.documents import Address, Server
from yaffle.drivers.profiles.nova_server.inventory.adoption import FOLLOWED_MAX, followed
from yaffle.drivers.profiles.nova_server.status.reading import read, stands_on
from yaffle.engine.runtime.clock import SystemClock
from yaffle.integrations.openstack.faults import CloudUnavailable
from yaffle.integrations.openstack.servers.documents import Listed
from yaffle.integrations.openstack.servers.stuck_tasks import Bounds, Tasks
from yaffle.model.ids import NodeId
from yaffle.model.operations import Reading, Target

WHERE = {"cloud": "lab"}


@dataclass
class Nova:
    """Knows one server, and may be away."""

    away: bool = False
    asked: list[str] = field(default_factory=list)

    def show(self, ident: str) -> Server | None:
        self.asked.append(ident)
        if self.away:
            raise CloudUnavailable("no answer", sent=True)
        if ident != "new":
            return None
        port = Address(addr="192.0.2.7", version=4, kind="fixed")
        return Server(
            id="new", status="ACTIVE", power_state=1, host="cmp2", addresses={"n": [port]}
        )


def target(number: int = 0) -> Target:
    return Target(
        node_id=NodeId(f"n{number}"), name="web", physical_id="old",
        profile_type="os.nova.server-1.0", spec={},
    )  # fmt: skip


def seen(ident: str, *, exists: bool = True) -> Reading:
    return Reading(exists=exists, up=exists, backend_status="", detail="", physical_id=ident)


def test_another_copy_is_told_with_its_own_address_and_host() -> None:
    (told,) = followed(Nova(), [target()], [seen("new")], WHERE)  # type: ignore[arg-type]
    assert told.physical_id == "new"
    facts = dict(told.attributes or {})
    assert (facts["node_ip"], facts["host"], facts["cloud"]) == ("192.0.2.7", "cmp2", "lab")


def test_what_is_as_it_is_known_costs_no_question() -> None:
    nova = Nova()
    readings = [seen("old"), seen("", exists=True), seen("new", exists=False)]
    assert followed(nova, [target()] * 3, readings, WHERE) == readings  # type: ignore[arg-type]
    assert nova.asked == []


def test_without_its_facts_it_is_not_spoken_of() -> None:
    for nova, ident in ((Nova(away=True), "new"), (Nova(), "vanished meanwhile")):
        (told,) = followed(nova, [target()], [seen(ident)], WHERE)  # type: ignore[arg-type]
        assert told.physical_id == "old"
        assert told.attributes is None


def test_no_more_are_asked_for_than_one_reading_has_time_for() -> None:
    nova, many = Nova(), FOLLOWED_MAX + 5
    told = followed(nova, [target(n) for n in range(many)], [seen("new")] * many, WHERE)  # type: ignore[arg-type]
    assert len(nova.asked) == FOLLOWED_MAX
    assert [r.physical_id for r in told] == ["new"] * FOLLOWED_MAX + ["old"] * 5


def test_the_host_of_the_copy_that_we_know_is_told_as_it_was_read() -> None:
    nova, one = Nova(), replace(seen("old"), attributes={"host": "cmp2", **WHERE})
    (told,) = followed(nova, [target()], [one], WHERE)  # type: ignore[arg-type]
    assert told is one
    assert nova.asked == []


def test_the_host_of_a_server_is_read_with_its_cloud() -> None:
    nova = Nova()
    nova.client = nova  # type: ignore[attr-defined]
    nova.left_s = lambda: 10.0  # type: ignore[attr-defined]
    tasks = Tasks(SystemClock(), Bounds())
    same = replace(target(), physical_id="new")
    (told,) = read(nova, None, tasks, [same], all_projects=True, where=WHERE)  # type: ignore[arg-type]
    assert told.attributes == {"host": "cmp2", **WHERE}


def test_where_a_server_stands_is_told_to_those_who_may_see_it() -> None:
    assert stands_on(Listed(id="s", status="ACTIVE", zone="az1"), WHERE) is None
    placed = Listed(id="s", status="ACTIVE", host="cmp2", zone="az1")
    assert stands_on(placed, WHERE) == {"host": "cmp2", "availability_zone": "az1", **WHERE}
