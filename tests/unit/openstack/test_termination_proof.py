"""When the guest of a server that Nova has forgotten has ended: every record that matters."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.unit.openstack.standing import Nova, World, of

from yaffle.drivers.profiles.nova_server.operations import delete
from yaffle.integrations.openstack.servers.documents import Action, Event, Fault, Listed
from yaffle.integrations.openstack.servers.termination_proof import GIVEN_UP, given_up, proof
from yaffle.model.operations import ProgressState


def record(action: str, *events: tuple[str, str | None], hidden: bool = False) -> Action:
    told = [Event(event=name, result=result, host="h1") for name, result in events]
    return Action(action=action, request_id="r", events=None if hidden else told)


BUILT = record("create", ("compute__do_build_and_run_instance", "Success"))
ENDED = ("compute_terminate_instance", "Success")
SOFT = ("compute_soft_delete_instance", "Success")


@pytest.mark.parametrize(
    ("listed", "proved"),
    [
        pytest.param([record("delete", ENDED), BUILT], True, id="its host ended it"),
        pytest.param([record("delete"), BUILT], False, id="nova forgot it without its host"),
        pytest.param([BUILT], False, id="forgotten, and nobody says how"),
        pytest.param([record("delete", (ENDED[0], None)), BUILT], None, id="not ended yet"),
        pytest.param([record("delete", (ENDED[0], "Error")), BUILT], False, id="host failed"),
        pytest.param([record("delete"), record("create")], True, id="never built"),
        pytest.param([record("delete"), record("shelveOffload"), BUILT], True, id="shelved"),
        pytest.param([record("delete", hidden=True)], False, id="not shown to us"),
        pytest.param([], False, id="a record without a beginning"),
        pytest.param(
            [record("delete"), record("create", ("compute__do_build_and_run_instance", "Error"))],
            False,
            id="a host failed while building it, perhaps at its records",
        ),
        pytest.param(
            [record("delete", (ENDED[0], "Error")), record("create")], False, id="a host was asked"
        ),
        pytest.param(
            [record("delete"), record("create", ("compute__do_build_and_run_instance", None))],
            False,
            id="its host died while building it",
        ),
        pytest.param(
            [
                record("delete"),
                record("rebuild", hidden=True),
                record("create", ("compute__do_build_and_run_instance", "Error")),
            ],
            False,
            id="not built, then rebuilt",
        ),
        pytest.param([record("delete", SOFT), BUILT], True, id="switched off to be deleted"),
        pytest.param(
            [record("delete"), record("restore"), record("delete", SOFT), BUILT],
            False,
            id="deleted softly, restored, then forgotten",
        ),
        pytest.param(
            [record("delete"), record("unshelve"), record("shelveOffload"), BUILT],
            False,
            id="shelved, and unshelved",
        ),
    ],
)
def test_what_a_deletion_proves(listed: list[Action], proved: bool | None) -> None:
    assert proof(listed)[0] is proved


PREPPING, RETRIES, *_ = GIVEN_UP
ABORTED = Fault(message=f"Build of instance s aborted: {PREPPING}")
ERROR = Listed(id="s", status="ERROR", host_status="", fault=ABORTED)
SPAWN = "Build of instance s aborted: Unable to create the domain"
"""The fault of what its host may not have been able to remove again."""


@pytest.mark.parametrize(
    "why",
    [
        "VolumeLimitExceeded: Maximum number of volumes allowed (1) exceeded for quota 'volumes'.",
        "VolumeSizeExceedsAvailableQuota: Requested volume or snapshot exceeds allowed quota.",
        "Resource conflict: duplicate connectors detected on volume v (HTTP 409)",
        "Volume v did not finish being created even after we waited 3 seconds or 2 attempts.",
        "Failed to allocate the network(s), not rescheduling.",
        "Failed to allocate the network(s) with error No fixed IP addresses available for network",
    ],
)
def test_what_fails_for_its_volumes_or_networks_has_left_no_guest(why: str) -> None:
    """As Nova 34 words it with a real Cinder and a real Neutron."""
    fault = Fault(message=f"Build of instance s aborted: {why}")
    found = given_up(replace(ERROR, fault=fault))
    assert found
    assert proof([record("delete"), BUILT], given_up=found)[0] is True
    assert proof([record("delete"), BUILDS], given_up=found)[0] is False


@pytest.mark.parametrize(
    ("server", "found"),
    [
        pytest.param(ERROR, PREPPING, id="before a guest was begun"),
        pytest.param(
            replace(ERROR, fault=Fault(message=f"{RETRIES}. Exhausted all hosts")),
            RETRIES,
            id="every host has tried it in vain",
        ),
        pytest.param(replace(ERROR, status="BUILD"), "", id="it is still being built"),
        pytest.param(replace(ERROR, host="h1", host_status="UP"), "", id="a host has it"),
        pytest.param(
            replace(ERROR, host_status=None), PREPPING, id="told also who may not see hosts"
        ),
        pytest.param(replace(ERROR, launched_at="2026-11-21"), "", id="it once ran"),
        pytest.param(replace(ERROR, fault=Fault(message=SPAWN)), "", id="a guest was begun"),
        pytest.param(replace(ERROR, fault=None), "", id="nobody says why"),
    ],
)
def test_what_nova_has_given_up(server: Listed, found: str) -> None:
    assert given_up(server) == found


BUILDS = record("create", ("compute__do_build_and_run_instance", None))


@pytest.mark.parametrize(
    ("fault", "listed", "proved"),
    [
        pytest.param(PREPPING, [record("delete"), BUILT], True, id="nothing else was done to it"),
        pytest.param(PREPPING, [record("delete"), BUILDS], False, id="a host is building it"),
        pytest.param(
            RETRIES, [record("delete"), BUILDS], True, id="of several tries one end is on record"
        ),
        pytest.param(
            PREPPING, [record("delete"), record("rebuild"), BUILT], False, id="and then rebuilt"
        ),
        pytest.param(PREPPING, [BUILT], True, id="its deletion is on no record"),
        pytest.param(
            PREPPING, [record("delete", (ENDED[0], "Error")), BUILT], False, id="a host was asked"
        ),
        pytest.param("", [record("delete"), BUILT], False, id="nobody knows that it was given up"),
    ],
)
def test_what_the_deletion_of_what_was_given_up_proves(
    fault: str, listed: list[Action], proved: bool
) -> None:
    assert proof(listed, given_up=fault)[0] is proved


def aborted(host_status: str | None) -> Nova:
    """A Nova with a server whose build was given up; its host's event says Success all the same."""
    built = replace(BUILT, request_id="r-c")
    server = replace(of(None, "ERROR", power=0), host_status=host_status, fault=ABORTED)
    return Nova(server, record=[built])


@pytest.mark.parametrize("kind", ["KILL", "DELETE"])
def test_what_was_given_up_is_deleted_without_a_host(kind: str) -> None:
    world = World(aborted(""))
    assert world.do(delete.submit, kind).state is ProgressState.RUNNING
    ended = world.do(delete.poll, kind)
    assert ended.state is ProgressState.DONE
    assert "no host had ever built it" in ended.detail


def test_who_has_not_seen_it_given_up_takes_nothing_for_a_proof() -> None:
    world = World(aborted(""))
    world.do(delete.submit, "KILL")
    world.taken_over()
    ended = world.do(delete.poll, "KILL")
    assert ended.state is ProgressState.FAILED
    assert "its host has never confirmed that the guest has ended" in ended.detail
