"""Clients that know Masakari use ours: openstacksdk, and our own alerter with its `masakari` driver."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from openstack.config import OpenStackConfig
from openstack.connection import Connection
from openstack.exceptions import BadRequestException, ConflictException
from tests.contract.notifiers.masakari import at, failure, send
from tests.functional.api.live import Live, running

from yaffle.model.operations import Delivery

# The SDK warns of what it does itself.
pytestmark = pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK50Warning")


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with running(tmp_path_factory.mktemp("state") / "yaffle", engine=True) as served:
        yield served


@pytest.fixture
def clouds(live: Live, tmp_path: Path) -> Path:
    """A `clouds.yaml` that leads here."""
    url = f"http://{live.address}/instance-ha/v1"
    cloud = {"auth_type": "admin_token", "auth": {"endpoint": url, "token": "any"}}
    file = tmp_path / "clouds.yaml"
    file.write_text(yaml.safe_dump({"clouds": {"lab": cloud}}))
    return file


@pytest.fixture
def sdk(clouds: Path) -> Any:
    config = OpenStackConfig(config_files=[str(clouds)]).get_one("lab")
    conn = Connection(config=config)
    yield conn.instance_ha
    conn.close()


def registered(sdk: Any, name: str) -> Any:
    segment = sdk.create_segment(name=name, recovery_method="auto", service_type="COMPUTE")
    host = sdk.create_host(segment.uuid, name=name, type="COMPUTE", control_attributes="SSH")
    return segment, host


def test_the_sdk_tells_of_a_host_and_sees_how_far_that_is(sdk: Any, clouds: Path) -> None:
    segment, host = registered(sdk, clouds.parent.name)
    told = {
        "type": "COMPUTE_HOST",
        "hostname": host.name,
        "generated_time": "2026-11-29T10:00:00",
        "payload": {"event": "STOPPED", "host_status": "NORMAL", "cluster_status": "OFFLINE"},
    }
    made = sdk.create_notification(**told)
    assert (made.status, made.source_host_uuid) == ("new", host.uuid)
    with pytest.raises(ConflictException):
        sdk.create_notification(**told)
    with pytest.raises(BadRequestException):
        sdk.create_notification(**{**told, "hostname": "ghost"})
    assert sdk.get_notification(made.notification_uuid).payload == told["payload"]
    assert made.notification_uuid in [one.notification_uuid for one in sdk.notifications()]
    assert list(sdk.vmoves(made.notification_uuid)) == []
    assert [one.name for one in sdk.hosts(segment.uuid)] == [host.name]
    assert sdk.get_segment(segment.uuid).is_enabled is True
    assert segment.uuid in [one.uuid for one in sdk.segments()]


def test_segments_and_hosts_are_changed_and_deleted(sdk: Any, clouds: Path) -> None:
    segment, host = registered(sdk, clouds.parent.name)
    changed = sdk.update_host(host.uuid, segment_id=segment.uuid, on_maintenance=True)
    assert changed.on_maintenance is True
    assert sdk.update_segment(segment.uuid, description="rack 7").description == "rack 7"
    assert sdk.update_segment(segment.uuid, is_enabled=False).is_enabled is False
    sdk.delete_host(host.uuid, segment_id=segment.uuid)
    sdk.delete_segment(segment.uuid)
    assert segment.uuid not in [one.uuid for one in sdk.segments()]


def test_our_own_alerter_tells_us(sdk: Any, clouds: Path, live: Live) -> None:
    _, host = registered(sdk, f"{clouds.parent.name}.example.org")
    ours, what = at(clouds), failure(host.name)
    for _ in range(2):
        delivery, said = send(ours, what)
        assert delivery is Delivery.ACCEPTED, said
    found = live.call("GET", f"/host-notifications?host={host.name}")["notifications"]
    assert len(found) == 1
    delivery, said = send(ours, failure("nobody.example.org"))
    assert (delivery, "could not be found" in said) == (Delivery.REFUSED, True)
