"""What Nova's records prove of the old copies on a host that servers were moved off, and what not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from yaffle.drivers.profiles.nova_server.status.evacuation_cleanup import admit, vacated
from yaffle.integrations.openstack.servers.documents import (
    Action,
    Event,
    Listed,
    Migration,
    MigrationPage,
    Service,
)
from yaffle.model.ids import NodeId
from yaffle.model.operations import OldCopy, Target

HOST = "cmp2"


class Told:
    """A Nova that tells what it is given."""

    def __init__(
        self,
        *,
        service: Service | None = None,
        moves: Sequence[Migration] | None = (),
        server: Listed | None = None,
        acts: Sequence[Action] = (),
        admin: bool = True,
    ) -> None:
        self._service, self._moves, self._server = service, moves, server
        self._acts, self._admin = list(acts), admin
        self.said: list[bool] = []

    def services(self) -> Any:
        given = {} if self._service is None else {self._service.host: self._service}
        return given if self._admin else None

    def evacuations(self, host: str) -> Any:
        assert host == HOST
        return self._moves

    def show(self, ident: str) -> Any:
        return self._server

    def acts(self, ident: str) -> Any:
        return self._acts

    def act(self, ident: str, request: str) -> Any:
        return None

    def force_down(self, service: Service, *, down: bool = True) -> None:
        self.said.append(down)


def service(state: str = "down", *, forced: bool = True) -> Service:
    return Service(
        id="1", host=HOST, state=state, status="enabled", forced_down=forced, updated_at="12:00"
    )


def move(number: int, status: str, server: str = "s") -> Migration:
    return Migration(id=number, uuid=f"m{number}", status=status, instance_uuid=server)


def on(host: str) -> Listed:
    return Listed(id="s", status="ACTIVE", host=host)


def deleted(host: str | None, result: str = "Success") -> list[Action]:
    event = Event(event="compute_terminate_instance", result=result, host=host)
    return [Action(action="delete", request_id="r", events=[event])]


def ask(nova: Any) -> Any:
    target = Target(
        node_id=NodeId("n"),
        name="web-1",
        physical_id="s",
        profile_type="os.nova.server-1.0",
        spec={},
    )
    return vacated(nova, HOST, [target])


@pytest.mark.parametrize(
    ("nova", "left"),
    [
        pytest.param(Told(moves=[move(1, "done")]), OldCopy.LEFT, id="moved"),
        pytest.param(Told(moves=[move(1, "accepted")]), OldCopy.LEFT, id="asked for"),
        pytest.param(Told(moves=[move(1, "a new word")]), OldCopy.LEFT, id="not understood"),
        pytest.param(Told(moves=[move(1, "completed")]), OldCopy.GONE, id="removed"),
        pytest.param(
            Told(moves=[move(2, "done"), move(1, "completed")]), OldCopy.LEFT, id="moved again"
        ),
        pytest.param(
            Told(moves=[move(2, "failed"), move(1, "completed")]), OldCopy.GONE, id="failed since"
        ),
        pytest.param(
            Told(moves=[move(1, "failed")], server=on(HOST)), OldCopy.PRESENT, id="never left"
        ),
        pytest.param(Told(server=on("cmp1")), OldCopy.UNTOLD, id="elsewhere, and no record"),
        pytest.param(Told(moves=[move(1, "completed", "x")]), OldCopy.UNTOLD, id="another's"),
        pytest.param(Told(), OldCopy.UNTOLD, id="forgotten altogether"),
        pytest.param(Told(acts=deleted(HOST)), OldCopy.GONE, id="the host ended it"),
        pytest.param(Told(acts=deleted("cmp1")), OldCopy.UNTOLD, id="another host ended it"),
        pytest.param(Told(acts=deleted(None)), OldCopy.UNTOLD, id="nobody says who"),
        pytest.param(Told(acts=deleted(HOST, "Error")), OldCopy.UNTOLD, id="the host failed to"),
        pytest.param(
            Told(acts=[Action(action="delete", request_id="r")]), OldCopy.UNTOLD, id="not shown"
        ),
    ],
)
def test_what_is_left_there(nova: Told, left: OldCopy) -> None:
    nova._service = service()
    assert ask(nova).copies == {"s": left}


@pytest.mark.parametrize(
    ("given", "up", "barred"),
    [
        pytest.param(service(), False, True, id="forced down"),
        pytest.param(service("up", forced=True), False, True, id="forced down, and reports"),
        pytest.param(service("up", forced=False), True, False, id="up"),
        pytest.param(service("down", forced=False), False, False, id="silent"),
        pytest.param(None, False, False, id="no such service"),
    ],
)
def test_how_the_host_is(given: Service | None, up: bool, barred: bool) -> None:
    found = ask(Told(service=given))
    assert (found.up, found.barred) == (up, barred)
    assert found.admit == "openstack compute service set --up cmp2 nova-compute"


@pytest.mark.parametrize(
    "nova",
    [
        pytest.param(Told(admin=False), id="no services"),
        pytest.param(Told(service=service(), moves=None), id="no moves"),
    ],
)
def test_who_may_not_see_knows_nothing(nova: Told) -> None:
    found = ask(nova)
    assert (found.up, dict(found.copies)) == (None, {})


def test_a_host_is_let_in_once() -> None:
    nova: Any = Told(service=service())
    assert "forced down no more" in admit(nova, HOST)
    assert nova.said == [False]
    nova = Told(service=service("up", forced=False))
    assert (admit(nova, HOST), nova.said) == ("", [])


def test_a_list_of_moves_goes_on_where_nova_says_so() -> None:
    import msgspec

    page = msgspec.json.decode(
        b'{"migrations": [{"id": 1, "uuid": "m", "status": "done", "instance_uuid": "s",'
        b' "host": null}], "migrations_links": [{"rel": "next", "href": "x"}]}',
        type=MigrationPage,
    )
    assert page.more
    assert page.migrations[0].status == "done"
