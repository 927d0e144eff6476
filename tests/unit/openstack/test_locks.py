"""A locked server is left alone: by every reading of its failure, and by every act, whoever we are."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace
from tests.unit.openstack.standing import Nova, World, of

from yaffle.core.health.backend_status_codes import classify
from yaffle.core.health.check_codes import judge
from yaffle.drivers.profiles.nova_server.api.documents import Server
from yaffle.drivers.profiles.nova_server.operations import (
    create,
    delete,
    evacuate,
    inplace,
    rebuild,
)
from yaffle.drivers.profiles.nova_server.tracking.operation import ServerOperation
from yaffle.integrations.openstack.servers.documents import Service
from yaffle.model.health import Outcome
from yaffle.model.operations import Hindrance, PoweredOff, Progress, ProgressState

FAILED = ProgressState.FAILED
OFF, ERROR = of(None, "SHUTOFF", 4), of(None, "ERROR", 0)
DEAD = Service(id="1", host="cmp1", state="down", status="enabled")


def locked(server: Server) -> Server:
    return replace(server, locked=True, locked_reason="audit", image={"id": "i-1"})


@pytest.mark.parametrize("server", [OFF, ERROR, of(None, "PAUSED", 3), of(None, "ACTIVE", 0)])
def test_its_failure_is_told_with_the_lock_and_counts_as_none(server: Server) -> None:
    reading = World(Nova(locked(server))).read()
    code, detail, _ = classify(reading)
    assert code == "ST-LOCKED"
    assert judge(code) is Outcome.WARN
    assert "is locked (audit)" in detail
    assert "openstack server unlock s" in detail
    assert classify(World(Nova(server)).read())[0] != code, "and not without the lock"


def test_one_that_runs_is_up_whether_or_not_it_is_locked() -> None:
    assert classify(World(Nova(locked(of(None)))).read())[0] == "ST-UP"


@pytest.mark.parametrize(
    ("step", "kind"),
    [
        pytest.param(inplace.submit, "START", id="start"),
        pytest.param(inplace.submit, "REBOOT", id="reboot"),
        pytest.param(inplace.submit, "UNPAUSE", id="unpause"),
        pytest.param(inplace.submit, "RESTORE", id="restore"),
        pytest.param(rebuild.submit, "REBUILD", id="rebuild"),
        pytest.param(evacuate.submit, "EVACUATE", id="evacuate"),
        pytest.param(delete.submit, "DELETE", id="delete"),
        pytest.param(delete.submit, "KILL", id="fence"),
    ],
)
def test_nothing_is_asked_of_nova_for_it(
    step: Callable[[ServerOperation], Progress], kind: str
) -> None:
    nova = Nova(replace(locked(ERROR), host="cmp1"), hosts={"cmp1": DEAD})
    done = World(nova).do(step, kind)
    assert (done.state, done.hindrance) == (FAILED, Hindrance.BARRED)
    assert "openstack server unlock s" in done.detail
    assert nova.asked == [], "neither marked, nor forced down, nor acted upon"


def test_it_is_not_deleted_on_a_host_that_is_off_or_lost() -> None:
    for off in (PoweredOff(host="cmp1", reported="12:00"), None):
        server = replace(locked(ERROR), host="cmp1", host_status="DOWN")
        nova = Nova(server, hosts={"cmp1": replace(DEAD, updated_at="12:00")})
        done = World(nova).do(delete.submit, "DELETE", off=off)
        assert done.hindrance is Hindrance.BARRED, "a lost host may be waived, and a lock may not"
        assert nova.asked == []


def test_no_copy_is_made_beside_it_though_no_proof_is_wanted_of_it() -> None:
    nova = Nova(locked(ERROR))
    done = World(nova).do(create.submit, "CREATE", waived=frozenset({"s"}))
    assert (done.state, done.hindrance) == (FAILED, Hindrance.BARRED)
    assert nova.asked == []


def test_it_can_be_unlocked() -> None:
    nova = Nova(locked(of(None)))
    assert World(nova).do(inplace.submit, "UNLOCK").state is not FAILED
    assert "unlock" in nova.asked
