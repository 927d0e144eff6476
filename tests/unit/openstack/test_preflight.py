"""What a server is made of is asked for before its old copy is given up; a silence is no answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.openstack.made_of import (
    DISK,
    FLAVORS,
    GROUP,
    IMAGE,
    LIMITS,
    PORT,
    PORT_QUOTA,
    PORTS,
    SPEC,
    Asker,
    Cloud,
    image,
    port,
    server,
    volume,
    with_,
    without,
)

from yaffle.drivers.profiles.nova_server.operations.create import request
from yaffle.drivers.profiles.nova_server.operations.preflight import foresee
from yaffle.integrations.openstack.faults import CloudUnavailable, fault_of
from yaffle.integrations.openstack.sent_requests import THERE_S
from yaffle.integrations.openstack.servers.stuck_tasks import Bounds, Tasks
from yaffle.model.operations import Outlook, Prospect

UPLOAD = "upload it again, or give the cluster another profile"
TWINS = {"images": [image("active"), {"id": "2", "name": "debian"}]}
VOLUME = [{"source_type": "image", "uuid": "x-1"}]


def limits(**more: int) -> Callable[[Cloud], object]:
    return with_("/limits", {"limits": {"absolute": {**LIMITS, **more}}})


def test_nothing_is_missing() -> None:
    asker = Asker()
    assert asker.ask() == Prospect(outlook=Outlook.POSSIBLE, detail="")
    wanted = {*asker.cloud.has} - {"/flavors", "/v2/images"}
    assert set(asker.cloud.asked) == wanted


@pytest.mark.parametrize(
    ("change", "spec", "says"),
    [
        pytest.param(
            without(f"/v2/images/{IMAGE}"), {}, f"image {IMAGE} is gone: {UPLOAD}", id="image gone"
        ),
        pytest.param(
            with_("/v2/images", {"images": []}),
            {"image": "debian"},
            "there is no image 'debian': upload it again",
            id="no image of that name",
        ),
        pytest.param(
            with_("/v2/images", TWINS),
            {"image": "debian"},
            "2 times a image 'debian'",
            id="two images of that name",
        ),
        pytest.param(
            with_(f"/v2/images/{IMAGE}", image("deactivated")),
            {},
            f"image {IMAGE} is deactivated, not active",
            id="image deactivated",
        ),
        pytest.param(
            with_(f"/v2/images/{IMAGE}", image("queued")),
            {"image": "debian"},
            "image debian is queued",
            id="image being uploaded",
        ),
        pytest.param(
            lambda c: None,
            {"image": None, "block_device_mapping_v2": VOLUME},
            "image x-1 is gone",
            id="image of a volume",
        ),
        pytest.param(
            without(FLAVORS), {}, "there is no flavor 'small': make it again", id="flavor gone"
        ),
        pytest.param(
            with_("/v2.0/networks", {"networks": []}),
            {},
            "there is no network 'private'",
            id="network gone",
        ),
        pytest.param(
            with_("/v2.0/ports", {"ports": []}), {}, f"port {PORT} is gone", id="port gone"
        ),
        pytest.param(
            without("/os-keypairs/ops%20team"),
            {},
            "key pair ops team is gone: import it again",
            id="key pair gone",
        ),
        pytest.param(
            without(f"/os-server-groups/{GROUP}"),
            {},
            f"server group {GROUP} is gone",
            id="group gone",
        ),
        pytest.param(
            lambda c: None,
            {"availability_zone": "west"},
            "availability zone west is gone",
            id="zone gone",
        ),
        pytest.param(
            lambda c: None,
            {"availability_zone": "dark"},
            "availability zone dark has no host that is up",
            id="zone down",
        ),
        pytest.param(
            limits(maxTotalCores=7),
            {},
            "Quota exceeded for cores: 2 wanted, 6 of 7 in use by others",
            id="cores",
        ),
        pytest.param(
            limits(maxTotalInstances=2),
            {},
            "Quota exceeded for instances: 1 wanted, 2 of 2",
            id="instances",
        ),
        pytest.param(
            limits(maxTotalRAMSize=4095), {}, "Quota exceeded for ram: 512 wanted", id="ram"
        ),
        pytest.param(
            with_("/servers/old", server(status="SOFT_DELETED")),
            {},
            "Quota exceeded for instances",
            id="deleted softly, not counted",
        ),
        pytest.param(
            with_("/servers/old", server(tenant_id="q")),
            {},
            "Quota exceeded for instances",
            id="another project's, not freed",
        ),
    ],
)
def test_what_nova_would_refuse_is_named_with_what_helps(
    change: Callable[[Cloud], object], spec: dict[str, Any], says: str
) -> None:
    asker = Asker()
    change(asker.cloud)
    said = asker.ask(**spec)
    assert (said.outlook, says in said.detail) == (Outlook.IMPOSSIBLE, True), said
    # What is not there is asked for anew each time, and found when it is back.
    asker.cloud.has = Cloud().has
    asker.clock.at_s += 0.1
    spec = {k: v for k, v in spec.items() if k == "image"}
    assert asker.ask(**spec).outlook is Outlook.POSSIBLE


def test_what_the_old_server_takes_is_free_for_the_new_one() -> None:
    asker = Asker()
    assert asker.ask().outlook is Outlook.POSSIBLE, "3 of 3 servers, and one of them is to go"
    asker.cloud.has["/servers/old"] = server(tenant_id="q")
    assert asker.ask().outlook is Outlook.IMPOSSIBLE, "another project's frees nothing here"


NO_SUCH = {"NeutronError": {"type": "HTTPNotFound", "message": "no such resource", "detail": ""}}


@pytest.mark.parametrize(
    ("had", "limit", "spec", "fits"),
    [
        pytest.param([port()], 2, {}, True, id="its port goes with it"),
        pytest.param([port(device_id="other")], 2, {}, False, id="others have them all"),
        pytest.param([port(created_at="2020")], 2, {}, True, id="of an age nobody knows"),
        pytest.param([], 3, {}, True, id="one is left"),
        pytest.param([], -1, {}, True, id="without an end"),
        pytest.param([], 0, {"networks": "none"}, True, id="none is wanted"),
        pytest.param([], 2, {"networks": "auto"}, False, id="auto is one"),
        pytest.param([port()], 2, {"networks": [{"network": "private"}] * 2}, False, id="two"),
        pytest.param([port()], 2, {"networks": [{"port": PORT}]}, True, id="a person's port"),
    ],
)
def test_a_port_is_wanted_for_each_network(
    had: list[dict[str, Any]], limit: int, spec: dict[str, Any], fits: bool
) -> None:
    asker = Asker()
    asker.cloud.has[PORT_QUOTA]["quota"]["port"]["limit"] = limit
    asker.cloud.has[PORTS] = {"ports": had}
    said = asker.ask(**{"networks": [{"network": "private"}], **spec})
    assert said.outlook is (Outlook.POSSIBLE if fits else Outlook.IMPOSSIBLE), said
    assert fits or "Quota exceeded for ports" in said.detail


def test_a_persons_port_stays_when_the_server_goes() -> None:
    asker = Asker()
    asker.cloud.has["/servers/old"] = server(created="2026-01-01T12:00:00Z")
    asker.cloud.has[PORTS] = {"ports": [port(created_at="2026-01-01T08:00:00Z")]}
    said = asker.ask(networks=[{"network": "private"}])
    assert "Quota exceeded for ports: 1 wanted, 2 of 2" in said.detail


def test_a_neutron_that_does_not_count_ports_is_no_obstacle() -> None:
    asker = Asker()
    no = fault_of(404, json.dumps(NO_SUCH).encode(), "GET", acts=False)
    for answer in (no, None):
        asker.cloud.broken = {PORT_QUOTA: answer} if answer else {}
        asker.cloud.has[PORT_QUOTA] = {"quota": {}}
        assert asker.ask().outlook is Outlook.POSSIBLE


BOOT = {"source_type": "image", "uuid": IMAGE, "destination_type": "volume", "volume_size": 8}


@pytest.mark.parametrize(
    ("goes", "device", "says"),
    [
        pytest.param(True, BOOT, "", id="its volume goes with it"),
        pytest.param(False, BOOT, "Quota exceeded for volumes: 1 wanted, 2 of 2", id="it stays"),
        pytest.param(
            True,
            {**BOOT, "volume_size": 11},
            "Quota exceeded for gigabytes: 11 wanted",
            id="larger",
        ),
        pytest.param(False, {**BOOT, "destination_type": "local"}, "", id="no volume"),
        pytest.param(False, {**BOOT, "destination_type": None}, "", id="no volume unless said"),
        pytest.param(
            False, {"source_type": "snapshot", "uuid": "s"}, "Quota exceeded", id="of a snapshot"
        ),
    ],
)
def test_a_volume_that_is_made_needs_room_in_cinder(
    goes: bool, device: dict[str, Any], says: str
) -> None:
    asker = Asker()
    disk = {"id": "v-1", "delete_on_termination": goes}
    asker.cloud.has["/servers/old"] = server(**{"os-extended-volumes:volumes_attached": [disk]})
    asker.cloud.has[DISK] = volume("in-use", "old", size=10)
    asker.cloud.has["/snapshots/s"] = {"snapshot": {"id": "s", "status": "available"}}
    said = asker.ask(block_device_mapping_v2=[device])
    assert said.outlook is (Outlook.IMPOSSIBLE if says else Outlook.POSSIBLE), said
    assert says in said.detail


RESIZED = {"yaffle_operation": "o", "yaffle_operation_note": "RESIZE 5 - -"}
REBOOTED = {"yaffle_operation": "o", "yaffle_operation_note": "REBOOT 5 - -"}


@pytest.mark.parametrize(
    ("known", "says"),
    [
        ({"status": "RESIZE"}, "it is being resized"),
        ({"status": "VERIFY_RESIZE"}, "waits to be confirmed"),
        ({"status": "REVERT_RESIZE"}, "it is being resized"),
        ({"status": "ACTIVE", "OS-EXT-STS:task_state": "resize_prep"}, "it is being resized"),
        ({"status": "ERROR", "metadata": RESIZED}, "--state active old"),
        ({"status": "ERROR", "metadata": REBOOTED}, ""),
        ({"status": "ACTIVE", "metadata": RESIZED}, ""),
        ({"status": "ERROR"}, ""),
    ],
)
@pytest.mark.parametrize("kind", ["CREATE", "REBUILD"])
def test_a_disk_that_a_resize_has_in_hand_is_not_given_up(
    kind: str, known: dict[str, Any], says: str
) -> None:
    asker = Asker()
    asker.cloud.has["/servers/old"] = server(**known)
    said = asker.ask(kind)
    assert said.outlook is (Outlook.IMPOSSIBLE if says else Outlook.POSSIBLE)
    assert says in said.detail


def test_a_resize_that_moves_no_more_holds_nobody() -> None:
    asker = Asker()
    tasks = Tasks(asker.clock, Bounds(quick_s=60, long_s=600))  # type: ignore[arg-type]
    asker.cloud.has["/servers/old"] = server(
        **{"status": "RESIZE", "OS-EXT-STS:task_state": "resize_migrating"}
    )
    job = replace(asker.job("CREATE", SPEC, None, "old"), tasks=tasks)
    for _ in range(70):
        assert foresee(job).outlook is not Outlook.POSSIBLE or asker.clock.at_s >= 1600
        asker.clock.at_s += 10
    assert foresee(job).outlook is Outlook.POSSIBLE


@pytest.mark.parametrize(
    "path", sorted({*Cloud().has} - {"/flavors", "/v2/images"}), ids=lambda p: p.split("/")[1]
)
def test_silence_is_raised_and_never_an_answer(path: str) -> None:
    asker = Asker()
    asker.cloud.broken[path] = CloudUnavailable("no answer", sent=False)
    with pytest.raises(CloudUnavailable):
        asker.ask()
    asker.cloud.broken.clear()
    assert asker.ask().outlook is Outlook.POSSIBLE


class EndpointNotFound(Exception):
    """As keystoneauth calls it."""


def no_endpoint() -> Exception:
    error = CloudUnavailable("no endpoint of that service", sent=False)
    error.__cause__ = EndpointNotFound()
    return error


@pytest.mark.parametrize(
    "why",
    [
        fault_of(403, b"", "GET", acts=False),
        fault_of(406, b"", "GET", acts=False),
        no_endpoint(),
    ],
    ids=["forbidden", "version", "no such service"],
)
@pytest.mark.parametrize(
    "path", [f"/v2/images/{IMAGE}", "/limits", "/os-availability-zone", PORT_QUOTA]
)
def test_what_we_are_never_told_is_left_to_nova(path: str, why: Exception) -> None:
    asker = Asker()
    asker.cloud.broken[path] = why
    assert asker.ask().outlook is Outlook.POSSIBLE


@pytest.mark.parametrize("kind", ["CREATE", "REBUILD"])
def test_where_nothing_is_left_to_be_lost_nova_itself_is_asked(kind: str) -> None:
    asker = Asker()
    assert asker.ask(kind, physical_id="").outlook is Outlook.POSSIBLE
    assert asker.cloud.asked == []
    for answer in (None, server(status="DELETED")):
        asker.cloud.has = {"/servers/old": answer} if answer else {}
        asker.cloud.asked.clear()
        assert asker.ask(kind).outlook is Outlook.POSSIBLE
        assert asker.cloud.asked == ["/servers/old"]


def test_a_rebuild_needs_the_image_alone() -> None:
    asker = Asker()
    assert asker.ask("REBUILD").outlook is Outlook.POSSIBLE
    assert asker.cloud.asked == ["/servers/old", f"/v2/images/{IMAGE}"]
    other = asker.ask("REBUILD", params={"image": "01c3e056-0000-4277-8976-32b076612bcb"})
    assert other.outlook is Outlook.IMPOSSIBLE


def test_a_snapshot_is_booted_in_place_of_the_profiles_image() -> None:
    asker = Asker()
    assert asker.ask(params={"image": IMAGE}, image="long gone").outlook is Outlook.POSSIBLE


def test_a_storm_asks_once_and_not_for_long() -> None:
    asker = Asker()
    asker.ask()
    asker.cloud.asked.clear()
    asker.clock.at_s += 1
    asker.ask()
    # What differs from server to server, and changes from one to the next.
    assert asker.cloud.asked == ["/servers/old", FLAVORS, "/limits", PORT_QUOTA, PORTS]
    asker.cloud.has.pop(f"/v2/images/{IMAGE}")
    asker.clock.at_s += THERE_S
    assert asker.ask().outlook is Outlook.IMPOSSIBLE


def test_what_is_made_is_what_was_looked_at() -> None:
    """An image that was uploaded again has another id, and that is the one that is booted."""
    asker = Asker()
    asker.ask(image="debian")
    new = "7c0e5b6e-5dd3-4277-8976-32b076612bcb"
    asker.cloud.has["/v2/images"] = {"images": [{"id": new, "name": "debian"}]}
    asker.cloud.has[f"/v2/images/{new}"] = image("active")
    asker.clock.at_s += THERE_S
    assert asker.ask(image="debian").outlook is Outlook.POSSIBLE
    _, body = request(asker.job("CREATE", {**SPEC, "image": "debian"}, None, "old"))
    assert body["server"]["imageRef"] == new  # type: ignore[index]
