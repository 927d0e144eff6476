"""Ports, addresses and volumes that a server could have again: its own, and nobody else's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.openstack.made_of import (
    DISK,
    PORT,
    PORTS,
    SPEC,
    Asker,
    Cloud,
    port,
    server,
    volume,
    with_,
    without,
)

from yaffle.drivers.profiles.nova_server.operations.create import request
from yaffle.drivers.profiles.nova_server.operations.dependencies import held
from yaffle.integrations.openstack.sent_requests import THERE_S
from yaffle.model.operations import Outlook

NETWORK = {"id": "net", "name": "private", "project_id": "p"}


@pytest.mark.parametrize(
    ("change", "spec", "says"),
    [
        pytest.param(
            with_(PORTS, {"ports": [port(device_id="other")]}),
            {},
            f"port {PORT} is in use by other: detach it there, or give",
            id="port of somebody else",
        ),
        pytest.param(
            with_(PORTS, {"ports": [port(), port("port-3", "10.0.0.9", device_id="")]}),
            {},
            "address 10.0.0.9 is in use by port port-3: free it, or give",
            id="address of nobody's port",
        ),
        pytest.param(
            with_(PORTS, {"ports": [port(), port("port-3", "10.0.0.9", device_id="other")]}),
            {},
            "address 10.0.0.9 is in use by port port-3 of other: free it, or give",
            id="address of somebody else",
        ),
        pytest.param(
            with_(
                "/v2.0/networks", {"networks": [NETWORK, {**NETWORK, "id": "2", "shared": True}]}
            ),
            {"networks": [{"network": "private"}]},
            "there is 2 times a network 'private'",
            id="two networks that Nova would take",
        ),
        pytest.param(
            with_("/v2.0/networks", {"networks": [{"id": "a"}, {"id": "b"}]}),
            {"networks": "auto"},
            'networks: which of 2 networks "auto" means is not known',
            id="auto is ambiguous",
        ),
        pytest.param(
            without(DISK), {}, "volume v-1 is gone: restore it, or give", id="volume gone"
        ),
        pytest.param(
            with_(DISK, volume("in-use", "other")),
            {},
            "volume v-1 is in use by other: detach it there, or give",
            id="volume of somebody else",
        ),
        pytest.param(
            with_(DISK, volume("error_restoring", "old")),
            {},
            "volume v-1 is error_restoring: have it mended",
            id="volume in error",
        ),
        pytest.param(
            with_(DISK, volume("retyping", "old")),
            {},
            "volume v-1 is retyping, not available",
            id="volume that is busy",
        ),
        pytest.param(
            lambda cloud: cloud.has.update(
                {
                    DISK: volume("reserved", multiattach=True),
                    "/servers/old": server(**{"os-extended-volumes:volumes_attached": []}),
                }
            ),
            {},
            "volume v-1 is reserved, not available",
            id="shared volume that Cinder attaches to nobody now",
        ),
        pytest.param(
            with_(DISK, volume("extending", "old", "other", multiattach=True)),
            {},
            "volume v-1 is extending, not available",
            id="shared volume that somebody else keeps busy",
        ),
        pytest.param(
            lambda cloud: cloud.has.update(
                {
                    "/servers/old": server(
                        **{
                            "os-extended-volumes:volumes_attached": [
                                {"id": "v-1", "delete_on_termination": True}
                            ]
                        }
                    )
                }
            ),
            {},
            "volume v-1 would be deleted with the server: set that right",
            id="volume that goes with the old server",
        ),
        pytest.param(
            lambda cloud: cloud.has.update(
                {
                    "/servers/old": server(created="2026-01-01T12:00:00Z"),
                    PORTS: {
                        "ports": [
                            port(),
                            port("port-2", "10.0.0.9", created_at="2026-01-01T11:00:00Z"),
                        ]
                    },
                }
            ),
            {},
            "address 10.0.0.9 is that of port port-2, which stays when the server goes: give the port",
            id="address of a port that stays",
        ),
        pytest.param(
            lambda cloud: cloud.has.update(
                {
                    DISK: volume("in-use"),
                    "/servers/old": server(**{"os-extended-volumes:volumes_attached": []}),
                }
            ),
            {},
            "volume v-1 is in-use, not available",
            id="volume that nobody has, and that is not free",
        ),
        pytest.param(
            lambda c: None,
            {"block_device_mapping_v2": [{"source_type": "snapshot", "uuid": "s-1"}]},
            "snapshot s-1 is gone: restore it",
            id="snapshot gone",
        ),
        pytest.param(
            with_("/snapshots/s-1", {"snapshot": {"id": "s-1", "status": "error"}}),
            {"block_device_mapping_v2": [{"source_type": "snapshot", "uuid": "s-1"}]},
            "snapshot s-1 is error, not available",
            id="snapshot in error",
        ),
    ],
)
def test_what_somebody_else_has_or_nobody_can_have_is_named(
    change: Callable[[Cloud], object], spec: dict[str, Any], says: str
) -> None:
    asker = Asker()
    change(asker.cloud)
    said = asker.ask(**spec)
    assert (said.outlook, says in said.detail) == (Outlook.IMPOSSIBLE, True), said
    asker.cloud.has = Cloud().has
    assert asker.ask().outlook is Outlook.POSSIBLE


@pytest.mark.parametrize(
    ("seen", "has"),
    [
        (volume("available"), []),
        (volume("downloading"), []),
        # Its deletion sets it free, also where it was never attached to the end.
        *((volume(status), [{"id": "v-1"}]) for status in ("reserved", "attaching", "detaching")),
        # And whatever is done to it meanwhile: Cinder says anew how it is.
        *(
            (volume(status, "old"), [{"id": "v-1"}])
            for status in ("backing-up", "extending", "error_extending")
        ),
        (volume("in-use", "other", "third", multiattach=True), []),
        (volume("in-use", "old", "other", multiattach=True), [{"id": "v-1"}]),
        (volume("attaching", "old", multiattach=True), [{"id": "v-1"}]),
    ],
)
def test_a_volume_that_can_be_attached_when_the_old_server_is_gone(seen: Any, has: Any) -> None:
    asker = Asker()
    asker.cloud.has[DISK] = seen
    asker.cloud.has["/servers/old"] = server(**{"os-extended-volumes:volumes_attached": has})
    assert asker.ask().outlook is Outlook.POSSIBLE


@pytest.mark.parametrize(
    ("place", "path"),
    [
        ("http://cinder/v3/p", DISK),
        ("http://cinder/v3/AUTH_p/", DISK),
        ("http://cinder/v3", f"/p{DISK}"),
        ("http://cinder/volume/v3/", f"/p{DISK}"),
        ("http://cinder", f"/v3/p{DISK}"),
    ],
)
def test_cinder_is_asked_wherever_the_catalog_says_that_it_is(place: str, path: str) -> None:
    asker = Asker()
    asker.cloud.storage = place
    asker.cloud.has[path] = asker.cloud.has.pop(DISK)
    assert asker.ask().outlook is Outlook.POSSIBLE
    assert path in asker.cloud.asked
    asker.cloud.storage = ""
    asker.cloud.asked.clear()
    asker.clock.at_s += THERE_S
    assert asker.ask().outlook is Outlook.POSSIBLE, "without a Cinder Nova itself is asked"
    assert path not in asker.cloud.asked


def test_that_one_server_may_have_a_volume_says_nothing_of_another() -> None:
    asker = Asker()
    assert asker.ask().outlook is Outlook.POSSIBLE
    asker.cloud.has["/servers/new"] = server(id="new")
    said = asker.ask(physical_id="new")
    assert said.outlook is Outlook.IMPOSSIBLE
    for why in ("volume v-1 is in use by old", f"port {PORT} is in use by old", "address 10.0.0.9"):
        assert why in said.detail


def test_a_network_of_another_project_is_not_meant_by_its_name() -> None:
    """As an administrator's credential sees it."""
    asker = Asker()
    others = {**NETWORK, "id": "theirs", "project_id": "q"}
    asker.cloud.has["/v2.0/networks"] = {"networks": [others, NETWORK]}
    assert asker.ask().outlook is Outlook.POSSIBLE
    _, body = request(asker.job("CREATE", SPEC, None, "old"))
    first = body["server"]["networks"][0]  # type: ignore[index]
    assert first == {"uuid": "net", "fixed_ip": "10.0.0.9"}


def test_what_holds_a_volume_is_told_with_what_frees_it() -> None:
    asker = Asker()
    attached = {"server_id": "long-gone", "attachment_id": "a-1"}
    asker.cloud.has[DISK] = {"volume": {"id": "v-1", "status": "in-use", "attachments": [attached]}}
    said = held(asker.job("CREATE", SPEC, {}, ""))
    assert "volume v-1 is attached to long-gone" in said
    assert "`openstack volume attachment delete a-1`" in said
    asker.cloud.has.pop(DISK)
    assert held(asker.job("CREATE", SPEC, {}, "")) == ""
    assert held(asker.job("CREATE", {"flavor": "small"}, {}, "")) == ""
