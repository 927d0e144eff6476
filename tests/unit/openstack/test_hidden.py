"""What Nova does not show is no proof, and nobody's wish: nothing is given up for it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace as of_target

import pytest
from msgspec.structs import replace
from tests.unit.openstack.standing import Nova, World, of

from yaffle.drivers.profiles.nova_server import diagnostics
from yaffle.drivers.profiles.nova_server.operations import delete, evacuate, inplace, rebuild
from yaffle.drivers.profiles.nova_server.status.hypervisors import host_of
from yaffle.drivers.profiles.nova_server.tracking.operation import ServerOperation
from yaffle.drivers.profiles.nova_server.tracking.stuck_tasks import UNTOLD, at_work
from yaffle.errors import Forbidden, NotFound, YaffleError
from yaffle.integrations.openstack.client import Answer
from yaffle.integrations.openstack.servers.documents import Action, Service
from yaffle.integrations.openstack.servers.queries import Servers
from yaffle.integrations.openstack.servers.stuck_tasks import Stuck
from yaffle.model.operations import Hindrance, PoweredOff, Progress, ProgressState

DONE, FAILED, RUNNING = ProgressState.DONE, ProgressState.FAILED, ProgressState.RUNNING


@pytest.mark.parametrize("kind", ["DELETE", "KILL"])
@pytest.mark.parametrize(
    ("why", "state"),
    [
        pytest.param(Forbidden("not you (HTTP 403)"), FAILED, id="not shown to us"),
        pytest.param(NotFound("no such instance (HTTP 404)"), DONE, id="no record is left"),
    ],
)
def test_a_record_that_is_not_shown_proves_no_end(
    kind: str, why: YaffleError, state: ProgressState
) -> None:
    ended = World(Nova(None, record=None, untold=why)).do(delete.poll, kind)
    assert ended.state is state, ended
    assert ("does not tell what is done" in ended.detail) is (state is FAILED)


def test_acts_whose_events_are_not_shown_prove_no_end() -> None:
    acts = [Action(action="delete", request_id="r-1"), Action(action="create", request_id="r-0")]
    ended = World(Nova(None, record=acts)).do(delete.poll, "DELETE")
    assert ended.state is FAILED
    assert "what its host did is not shown to us" in ended.detail


UP = Service(id="1", host="cmp1", state="up", status="disabled")
DOWN = Service(id="1", host="cmp1", state="down", status="disabled")
FORCED = Service(id="1", host="cmp1", state="down", status="enabled", forced_down=True)


@pytest.mark.parametrize(
    ("word", "service", "asked"),
    [
        pytest.param("UP", None, True, id="it is up"),
        pytest.param(None, None, True, id="no host is shown to us"),
        pytest.param("UNKNOWN", DOWN, False, id="it is down"),
        pytest.param("MAINTENANCE", DOWN, False, id="it is down, and was closed before"),
        pytest.param("MAINTENANCE", UP, True, id="it is merely closed"),
        pytest.param("DOWN", FORCED, True, id="it is forced down"),
        pytest.param("DOWN", None, False, id="whether it is forced down is not shown"),
        pytest.param("UNKNOWN", None, False, id="nothing else of it is shown"),
        pytest.param("MAINTENANCE", None, False, id="it is closed, and no more is shown"),
    ],
)
def test_what_may_be_on_a_dead_host_is_not_forgotten(
    word: str | None, service: Service | None, asked: bool
) -> None:
    server = replace(of(None), host="cmp1", host_status=word)
    world = World(Nova(server, hosts=None if service is None else {"cmp1": service}))
    done = world.do(delete.submit, "DELETE")
    assert (world.nova.asked == ["delete"]) is asked, done
    assert ("fence the host" in done.detail) is not asked


ACTS = [
    pytest.param(delete.submit, "DELETE", id="delete"),
    pytest.param(delete.submit, "KILL", id="fence"),
    pytest.param(rebuild.submit, "REBUILD", id="rebuild"),
    pytest.param(inplace.submit, "REBOOT", id="reboot"),
    pytest.param(evacuate.submit, "EVACUATE", id="evacuate"),
]


@pytest.mark.parametrize("lost", [True, False], ids=["it was lost", "else"])
@pytest.mark.parametrize("word", ["UP", None], ids=["told", "not told"])
@pytest.mark.parametrize(("step", "kind"), ACTS[:4])
def test_nothing_is_done_for_the_loss_of_a_host_that_is_back(
    step: Callable[[ServerOperation], Progress], kind: str, word: str | None, lost: bool
) -> None:
    """While the host is away nothing arrives there: what is accepted was asked for one that is back."""
    services = {"cmp1": replace(UP, status="enabled")} if word is None else None
    image = {"image": "i-1"} if kind == "REBUILD" else {}
    world = World(Nova(replace(of(None), host="cmp1", host_status=word), hosts=services))
    world.target = of_target(world.target, host_lost=lost)
    done = world.do(step, kind, params=image)
    if lost:
        assert (done.state, done.hindrance) == (FAILED, Hindrance.OVER), done
        assert "its host cmp1, which was lost, is up again" in done.detail
    assert bool(world.nova.asked) is not lost


@pytest.mark.parametrize("kind", ["DELETE", "KILL"])
def test_what_was_lost_with_a_host_that_is_forced_down_is_given_up(kind: str) -> None:
    server = replace(of(None), host="cmp1", host_status="DOWN")
    world = World(Nova(server, hosts={"cmp1": FORCED}))
    world.target = of_target(world.target, host_lost=True)
    assert world.do(delete.submit, kind).state is RUNNING
    assert world.nova.asked == ["forceDelete" if kind == "KILL" else "delete"]


@pytest.mark.parametrize("lost", [True, False], ids=["seen lost", "else"])
@pytest.mark.parametrize(
    ("word", "service"),
    [
        pytest.param("DOWN", DOWN, id="down"),
        pytest.param("DOWN", FORCED, id="forced down"),
        pytest.param("UNKNOWN", None, id="not told"),
    ],
)
@pytest.mark.parametrize(
    ("step", "kind"),
    [
        pytest.param(rebuild.submit, "REBUILD", id="rebuild"),
        pytest.param(inplace.submit, "REBOOT", id="reboot"),
        pytest.param(inplace.submit, "SUSPEND", id="suspend"),
    ],
)
def test_nothing_waits_in_nova_for_a_host_that_is_away(
    step: Callable[[ServerOperation], Progress],
    kind: str,
    word: str,
    service: Service | None,
    lost: bool,
) -> None:
    """It would be done to what is well, once that host is back: a rebuild would wipe a disk."""
    hosts = {} if service is None else {"cmp1": service}
    world = World(Nova(replace(of(None), host="cmp1", host_status=word), hosts=hosts))
    world.target = of_target(world.target, host_lost=lost)
    done = world.do(step, kind, params={"image": "i-1"} if kind == "REBUILD" else {})
    assert (done.state, done.hindrance) == (FAILED, Hindrance.NONE), done
    assert "Nova would keep the request" in done.detail
    assert world.nova.asked == []


def test_a_server_is_locked_wherever_its_host_is() -> None:
    world = World(Nova(replace(of(None), host="cmp1", host_status="DOWN"), hosts={"cmp1": DOWN}))
    assert world.do(inplace.submit, "LOCK").state is RUNNING
    assert "lock" in world.nova.asked


class Returning(Nova):
    """A Nova whose host comes back between two questions about it."""

    def services(self) -> dict[str, Service] | None:
        found, self.hosts = self.hosts, {"cmp1": UP}
        return found


def test_a_host_that_comes_back_between_two_questions_is_back() -> None:
    world = World(
        Returning(replace(of(None), host="cmp1", host_status="DOWN"), hosts={"cmp1": DOWN})
    )
    world.target = of_target(world.target, host_lost=True)
    done = world.do(delete.submit, "KILL")
    assert done.hindrance is Hindrance.OVER, done
    assert world.nova.asked == []


@pytest.mark.parametrize(("step", "kind"), ACTS)
def test_nothing_is_done_to_a_server_whose_cell_is_away(
    step: Callable[[ServerOperation], Progress], kind: str
) -> None:
    """Neither its lock nor whose it is stands in what Nova says of it then."""
    world = World(Nova(of(None, "UNKNOWN")))
    done = world.do(step, kind, params={"image": "i-1"} if kind == "REBUILD" else {})
    assert (done.state, done.hindrance) == (RUNNING, Hindrance.UNASKED), done
    assert world.nova.asked == []


def test_a_cell_that_is_away_hides_its_own_hosts_and_no_others() -> None:
    """Nova tells of a host there its name, and nothing else."""
    away = {"binary": "nova-compute", "host": "cmp9", "status": "UNKNOWN"}
    known = {
        "id": "1",
        "binary": "nova-compute",
        "host": "cmp1",
        "state": "up",
        "status": "enabled",
    }
    body = json.dumps({"services": [away, known]}).encode()

    class Client:
        def get(self, *_: object, **__: object) -> Answer:
            return Answer(status=200, body=body, request_id="r-1")

    services = Servers(Client()).services()  # type: ignore[arg-type]
    assert services is not None
    assert [(host, one.up) for host, one in services.items()] == [("cmp1", True)]
    there = host_of(replace(of(None), host="cmp9", host_status="UNKNOWN"), services)
    assert there.up is None


def test_a_record_that_lacks_the_creation_does_not_say_that_nobody_is_at_it() -> None:
    stuck = Stuck(why="", may_work=True, patient=True)
    for acts in ([], [Action(action="lock", request_id="r-1", events=[])]):
        assert at_work(Nova(None, record=acts), "s", stuck) == UNTOLD  # type: ignore[arg-type]


def test_a_host_of_which_no_report_is_told_is_not_silent() -> None:
    server = replace(of(None), host="cmp1", host_status="DOWN")
    world = World(Nova(server, hosts={"cmp1": replace(DOWN, updated_at=None)}))
    for _ in range(3):
        done = world.do(delete.submit, "DELETE", off=PoweredOff(host="cmp1"))
        assert done.state is FAILED
        assert "does not tell us whether host cmp1, which was switched off, reports" in done.detail
        world.clock.at_s += 60
    assert world.nova.asked == []


def test_the_evidence_says_that_the_acts_are_not_shown() -> None:
    world = World(Nova(of(None), record=None, untold=Forbidden("not you (HTTP 403)")))
    world.nova.console = lambda *_: ""  # type: ignore[attr-defined]
    told = diagnostics.capture(world.nova, world.target)  # type: ignore[arg-type]
    assert "acts: not readable: not you" in told
