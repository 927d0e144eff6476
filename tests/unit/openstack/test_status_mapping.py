"""Nova's words for a server and what they mean for a node: the table, read as it stands."""

from __future__ import annotations

import pytest

from yaffle.core.health.backend_status_codes import classify
from yaffle.drivers.profiles.nova_server.status.reading import foreign, reading_of
from yaffle.drivers.profiles.nova_server.tracking.verbs import CURES, OPERATIONS
from yaffle.integrations.openstack.servers.documents import Fault, Listed
from yaffle.integrations.openstack.servers.status_mapping import HARMLESS, ROWS, UNKNOWN, row_of
from yaffle.model.ids import NodeId
from yaffle.model.operations import Target

# Every status that nova/api/openstack/common.py can show.
NOVAS = [
    "ACTIVE",
    "BUILD",
    "DELETED",
    "ERROR",
    "HARD_REBOOT",
    "MIGRATING",
    "PASSWORD",
    "PAUSED",
    "REBOOT",
    "REBUILD",
    "RESCUE",
    "RESIZE",
    "REVERT_RESIZE",
    "SHELVED",
    "SHELVED_OFFLOADED",
    "SHUTOFF",
    "SOFT_DELETED",
    "SUSPENDED",
    "UNKNOWN",
    "VERIFY_RESIZE",
]


def server(status: str, power: int | None = 1, task: str | None = None) -> Listed:
    return Listed(id="s", status=status, power_state=power, task_state=task)


def target(node: str = "n", **attributes: object) -> Target:
    return Target(
        node_id=NodeId(node),
        name="n",
        physical_id="s",
        profile_type="os.nova.server-1.0",
        spec={},
        attributes=attributes,
    )


@pytest.mark.parametrize(
    ("seen", "code"),
    [
        pytest.param(server("ACTIVE"), "ST-UP", id="runs"),
        pytest.param(server("ACTIVE", 0), "ST-DOWN", id="wiped"),
        pytest.param(server("ACTIVE", 4), "ST-DOWN", id="off, not noticed by nova"),
        pytest.param(server("ACTIVE", 6), "ST-DOWN", id="crashed"),
        pytest.param(server("ACTIVE", 7), "ST-DOWN", id="suspended behind its back"),
        pytest.param(server("ACTIVE", 3), "ST-FROZEN", id="paused behind its back"),
        pytest.param(server("ACTIVE", None), "ST-UNCLEAR", id="no power state at all"),
        pytest.param(server("ACTIVE", 9), "ST-UNCLEAR", id="a power state of the future"),
        pytest.param(server("ACTIVE", 0, "rebooting"), "ST-UNCLEAR", id="driven, no power"),
        pytest.param(server("ACTIVE", 1, "powering-off"), "ST-UNCLEAR", id="being switched off"),
        pytest.param(server("ACTIVE", 1, "deleting"), "ST-UNCLEAR", id="being deleted"),
        pytest.param(server("ACTIVE", 1, "image_uploading"), "ST-UP", id="snapshot, runs"),
        pytest.param(server("ACTIVE", 0, "image_uploading"), "ST-DOWN", id="snapshot, wiped"),
        pytest.param(server("PAUSED", 3), "ST-FROZEN", id="paused"),
        pytest.param(server("SUSPENDED", 4), "ST-FROZEN", id="suspended"),
        pytest.param(server("SHUTOFF", 4), "ST-DOWN", id="off"),
        pytest.param(server("SHUTOFF", 4, "powering-on"), "ST-UNCLEAR", id="being switched on"),
        pytest.param(server("ERROR", 0), "ST-DOWN", id="failed"),
        pytest.param(server("ERROR", 1, "rebooting_hard"), "ST-DOWN", id="failed, being tried"),
        pytest.param(server("SOFT_DELETED", 4), "ST-DOWN", id="soft-deleted"),
        pytest.param(server("DELETED", 0), "ST-GONE", id="deleted"),
        pytest.param(server("BUILD", 0), "ST-UNCLEAR", id="being built"),
        pytest.param(server("HARD_REBOOT", 0, "rebooting_hard"), "ST-UNCLEAR", id="rebooting"),
        pytest.param(server("VERIFY_RESIZE"), "ST-UNCLEAR", id="resized"),
        pytest.param(server("RESCUE"), "ST-UNCLEAR", id="rescued by a person"),
        pytest.param(server("SHELVED_OFFLOADED", 4), "ST-UNCLEAR", id="put away"),
        pytest.param(server("UNKNOWN", None), "ST-UNCLEAR", id="its cell is down"),
        pytest.param(server("FROBNICATED"), "ST-UNCLEAR", id="a status of the future"),
    ],
)
def test_what_a_server_is_read_as(seen: Listed, code: str) -> None:
    assert classify(reading_of(seen, target()))[0] == code


def test_every_status_of_nova_has_a_row() -> None:
    known = {status for row in ROWS for status in row.statuses}
    assert known == set(NOVAS)


@pytest.mark.parametrize("status", NOVAS)
def test_nothing_is_up_but_what_runs(status: str) -> None:
    for power in (None, 0, 1, 3, 4, 6, 7):
        for task in (None, "deleting", *HARMLESS):
            up = row_of(server(status, power, task)).up
            assert (up is True) == (status == "ACTIVE" and power == 1 and task != "deleting")


@pytest.mark.parametrize("status", sorted(set(NOVAS) - {"DELETED"}))
def test_nothing_is_gone_but_what_nova_calls_deleted(status: str) -> None:
    assert all(row_of(server(status, power)).exists for power in (None, 0, 1, 4))


@pytest.mark.parametrize("event", CURES)
def test_every_cure_undoes_an_event_that_is_read_and_can_be_asked_for(event: str) -> None:
    assert event in {row.event for row in ROWS}
    assert OPERATIONS[CURES[event]].in_place
    assert not OPERATIONS[CURES[event]].params


def test_what_nova_leaves_at_that_has_no_cheap_cure() -> None:
    """It goes on calling such a server ACTIVE, and refuses to start or unpause it."""
    assert all(row_of(server("ACTIVE", power)).event == "" for power in (0, 3))


def test_what_nova_is_about_to_stop_is_off() -> None:
    """Its power state is written first, and read by whoever is woken in that moment."""
    for power in (4, 6, 7):
        seen = row_of(server("ACTIVE", power))
        assert (seen.event, seen.up) == (row_of(server("SHUTOFF", 4)).event, False)


def test_words_that_nobody_knows_are_unknown() -> None:
    assert row_of(server("FROBNICATED")) is UNKNOWN


def test_another_nodes_copy_says_nothing_of_this_one() -> None:
    theirs = Listed(id="s", status="SHUTOFF", power_state=4, metadata={"cluster_node_id": "other"})
    seen = reading_of(theirs, target())
    assert seen.up is None
    assert "copy of node other" in seen.detail


def test_the_words_of_an_error_are_shown() -> None:
    fault = Fault(message="No valid host was found.", code=500)
    failed = Listed(id="s", status="ERROR", power_state=0, fault=fault)
    assert "No valid host was found." in reading_of(failed, target()).detail


@pytest.mark.parametrize(
    ("attributes", "project", "believed"),
    [
        pytest.param({"project_id": "p1"}, "p1", True, id="our project"),
        pytest.param({"project_id": "p1"}, "p2", False, id="another project"),
        pytest.param({}, "p2", True, id="nobody knows"),
        pytest.param({"project_id": "p1"}, None, True, id="an administrator of all"),
        pytest.param({"project_id": "p1"}, "", False, id="a credential of no project"),
        pytest.param({}, "", False, id="nor is it known where the node is"),
    ],
)
def test_not_found_by_who_may_not_see_it_is_no_proof(
    attributes: dict[str, object], project: str | None, believed: bool
) -> None:
    assert (foreign(attributes, project) == "") is believed
