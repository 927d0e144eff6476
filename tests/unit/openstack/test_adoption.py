"""What a server of somebody else's has, said so that another one can be made of it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.unit.openstack.made_of import DISK, PORTS, Asker, port, server, volume

from yaffle.drivers.profiles.nova_server.api import server_properties
from yaffle.drivers.profiles.nova_server.api.documents import ServerDocument
from yaffle.drivers.profiles.nova_server.api.nova import Nova
from yaffle.drivers.profiles.nova_server.inventory.adoption import inspect
from yaffle.drivers.profiles.nova_server.operations.create import disks, request
from yaffle.model.operations import Inspection, InspectionState

CREATED, BEFORE, JUST_BEFORE = (
    "2026-01-01T12:00:00Z",
    "2026-01-01T11:58:59Z",
    "2026-01-01T11:59:58Z",
)
LOCAL = {
    "boot_index": 0, "source_type": "image", "destination_type": "local", "uuid": "i-1",
    "delete_on_termination": True,
}  # fmt: skip


def asker(**more: Any) -> Asker:
    """Somebody who asks of a server with two networks and a volume."""
    found = Asker()
    addresses = {"a": [{"addr": "10.0.0.9"}], "b": [{"addr": "10.1.0.7"}, {"addr": "10.0.0.7"}]}
    flavor = {"vcpus": 1, "ram": 64, "original_name": "small"}
    known = {"id": "old", "status": "ACTIVE", "created": CREATED, "tenant_id": "p"}
    known |= {"addresses": addresses, "flavor": flavor, "image": {"id": "i-1"}}
    known["os-extended-volumes:volumes_attached"] = [{"id": "v-1"}]
    found.cloud.has["/servers/old"] = {"server": {**known, **more}}
    found.cloud.has["/servers/old/os-volume_attachments"] = {
        "volumeAttachments": [{"volumeId": "v-1", "device": "/dev/vdb"}, {"volumeId": "v-0"}]
    }
    return found


def inspected(by: Asker, *, project: str | None = "p", **overrides: object) -> Inspection:
    nova = Nova(by.cloud)  # type: ignore[arg-type]
    return inspect(nova, "old", overrides=overrides, snapshot=False, where={}, project=project)


def networks(by: Asker) -> object:
    nova = Nova(by.cloud)  # type: ignore[arg-type]
    seen = msgspec.convert(by.cloud.has["/servers/old"], ServerDocument).server
    return server_properties.networks(nova, seen)


@pytest.mark.parametrize(
    ("more", "a_persons"),
    [
        ({"created_at": BEFORE}, True),
        ({"created_at": JUST_BEFORE, "name": "mine"}, True),
        # It may be that two clocks do not agree, and Nova deletes what it has made.
        ({"created_at": JUST_BEFORE}, False),
        ({"created_at": CREATED, "name": "renamed"}, False),
        ({"name": "of no age"}, False),
        ({"name": "of no age", "created_at": "long ago"}, False),
    ],
)
def test_only_a_port_that_nova_cannot_have_made_is_named(
    more: dict[str, Any], a_persons: bool
) -> None:
    by = asker()
    by.cloud.has[PORTS] = {
        "ports": [port(**more), port("p-2", "10.0.0.9"), port("p-3", device_id="x")]
    }
    first = {"network": "net"}
    assert networks(by) == [first, {"port": "port-1"} if a_persons else {"network": "net"}]


def test_where_neutron_has_nothing_to_say_the_names_are_taken() -> None:
    by = asker()
    by.cloud.has[PORTS] = {"ports": []}
    assert networks(by) == [{"network": "a"}, {"network": "b"}]
    by = asker(addresses={})
    by.cloud.has[PORTS] = {"ports": []}
    assert networks(by) == "none"


def test_a_volume_that_stays_is_named() -> None:
    found = inspected(asker())
    assert found.state is InspectionState.FOUND, found.detail
    stays = {"source_type": "volume", "uuid": "v-1"}
    kept = {"destination_type": "volume", "delete_on_termination": False}
    assert found.properties["block_device_mapping_v2"] == [{**stays, **kept}]


def test_a_volume_that_goes_with_the_server_is_made_anew() -> None:
    gone = [{"id": "v-1", "delete_on_termination": True}]
    by = asker(image="", **{"os-extended-volumes:volumes_attached": gone})
    by.cloud.has[DISK] = volume("in-use", "old", size=7, volume_image_metadata={"image_id": "i-7"})
    found = inspected(by)
    (root,) = found.properties["block_device_mapping_v2"]  # type: ignore[misc]
    assert root == {
        "boot_index": 0, "source_type": "image", "uuid": "i-7", "destination_type": "volume",
        "delete_on_termination": True, "volume_size": 7,
    }  # fmt: skip
    by.cloud.has["/servers/old"]["server"]["image"] = {"id": "i-1"}
    (data,) = inspected(by).properties["block_device_mapping_v2"]  # type: ignore[misc]
    assert (data["source_type"], data["uuid"], "boot_index" in data) == ("image", "i-7", False)
    by.cloud.has[DISK] = volume("in-use", "old", size=7)
    (data,) = inspected(by).properties["block_device_mapping_v2"]  # type: ignore[misc]
    assert (data["source_type"], "uuid" in data, "boot_index" in data) == ("blank", False, False)


@pytest.mark.parametrize("image", ["", {"id": "i-1"}])
def test_a_copy_of_a_volume_is_no_bare_image_and_not_blank(image: Any) -> None:
    # Cinder tells of the image of a volume that was made of a snapshot: that of what was snapshotted.
    gone = [{"id": "v-1", "delete_on_termination": True}]
    by = asker(image=image, **{"os-extended-volumes:volumes_attached": gone})
    of_an_image = {"size": 7, "volume_image_metadata": {"image_id": "i-7"}}
    by.cloud.has[DISK] = volume("in-use", "old", snapshot_id="s-1", **of_an_image)
    (disk,) = inspected(by).properties["block_device_mapping_v2"]  # type: ignore[misc]
    assert (disk["source_type"], disk["uuid"]) == ("snapshot", "s-1")
    by.cloud.has[DISK] = volume("in-use", "old", source_volid="v-9", **of_an_image)
    refused = inspected(by)
    assert refused.state is InspectionState.REFUSED
    assert "a copy of another one" in refused.detail


@pytest.mark.parametrize("seen", [None, volume("in-use", "old", size=7)])
def test_what_nothing_tells_of_is_asked_of_a_person(seen: Any) -> None:
    gone = [{"id": "v-1", "delete_on_termination": True}]
    by = asker(image="", **{"os-extended-volumes:volumes_attached": gone})
    by.cloud.has.pop(DISK)
    if seen:
        by.cloud.has[DISK] = seen
    refused = inspected(by)
    assert refused.state is InspectionState.REFUSED
    assert "nothing tells what it was made of: volume v-1" in refused.detail
    assert "give block_device_mapping_v2" in refused.detail
    told = inspected(by, block_device_mapping_v2=[{"source_type": "image", "uuid": "i-9"}])
    assert told.state is InspectionState.FOUND, told.detail


BUSES = [
    {"volumeId": "v-1", "device": "/dev/sda"},
    {"volumeId": "v-2", "device": "/dev/vda"},
]


def of_several(**more: Any) -> Asker:
    """Somebody who asks of a server that boots from one of three volumes."""
    several = [{"id": "v-1"}, {"id": "v-0"}, {"id": "v-2"}]
    by = asker(image="", **{"os-extended-volumes:volumes_attached": several}, **more)
    by.cloud.has["/servers/old/os-volume_attachments"] = {"volumeAttachments": BUSES}
    for ident in ("v-0", "v-1", "v-2"):
        by.cloud.has[f"/volumes/{ident}"] = volume("in-use", "old", bootable="false")
    return by


BY_NAME, BY_FLAG = {"OS-EXT-SRV-ATTR:root_device_name": "/dev/vda"}, {}


@pytest.mark.parametrize("told", [BY_NAME, BY_FLAG])
def test_what_it_boots_from_is_told_and_not_guessed(told: dict[str, str]) -> None:
    by = of_several(**told)
    if not told:
        by.cloud.has["/volumes/v-2"] = volume("in-use", "old", bootable="true")
    found: Any = inspected(by).properties["block_device_mapping_v2"]
    assert [(one["uuid"], one.get("boot_index")) for one in found] == [
        ("v-2", 0), ("v-1", None), ("v-0", None),
    ]  # fmt: skip


@pytest.mark.parametrize("bootable", [(), ("v-1", "v-2")])
def test_where_that_is_not_known_a_person_has_to_say_it(bootable: tuple[str, ...]) -> None:
    by = of_several()
    for ident in bootable:
        by.cloud.has[f"/volumes/{ident}"] = volume("in-use", "old", bootable="true")
    refused = inspected(by)
    assert refused.state is InspectionState.REFUSED
    assert "which of the 3 volumes of server old it boots from" in refused.detail


def test_what_a_dead_engine_has_marked_is_told_with_all_that_is_known() -> None:
    # Whoever adopts it again goes on from there; a stranger's copy is refused by its owner's name.
    by = asker(metadata={"cluster_node_id": "n-1"})
    seen = inspected(by)
    assert (seen.state, seen.owner, seen.physical_id) == (InspectionState.REFUSED, "n-1", "old")
    assert seen.properties["flavor"] == "small"
    assert seen.attributes["project_id"] == "p"


def test_an_image_is_booted_where_no_other_disk_is() -> None:
    data = {"source_type": "volume", "uuid": "v-1"}
    assert disks([data], "i-1") == [LOCAL, data]
    assert disks([data, {**data, "boot_index": 0}], "i-1") == [data, {**data, "boot_index": 0}]
    assert disks([data], None) == [data]
    by = Asker()
    by.cloud.has["/servers/old"] = server()
    _, body = request(
        by.job("CREATE", {**by_image(), "block_device_mapping_v2": [data]}, {}, "old")
    )
    sent: Any = body["server"]
    assert sent["block_device_mapping_v2"] == [{**LOCAL, "uuid": sent["imageRef"]}, data]


def by_image() -> dict[str, object]:
    return {"flavor": "small", "image": "debian", "networks": "none"}


@pytest.mark.parametrize(
    ("tenant", "project", "there"),
    [
        pytest.param("p", "p", True, id="own"),
        pytest.param("q", "p", False, id="shown-to-an-administrator"),
        pytest.param("q", None, True, id="all-projects"),
        pytest.param("q", "", False, id="of-no-project-we-know"),
        pytest.param("", "p", False, id="nobody-says-whose"),
    ],
)
def test_a_server_of_another_project_is_none(tenant: str, project: str | None, there: bool) -> None:
    marked = {"cluster_node_id": "n-1"}
    seen = inspected(asker(tenant_id=tenant), project=project)
    refused = inspected(asker(tenant_id=tenant, metadata=marked), project=project)
    states = (seen.state, refused.state)
    found, absent = (InspectionState.FOUND, InspectionState.REFUSED), (InspectionState.ABSENT,) * 2
    assert states == (found if there else absent)
    assert refused.owner == ("n-1" if there else "")
