"""Properties of a server: Senlin's names, every fault named with its place."""

from __future__ import annotations

import base64

import pytest

from yaffle.drivers.profiles.nova_server.schema import SCHEMA
from yaffle.drivers.profiles.nova_server.spec import PARSERS, encoded_user_data, validate
from yaffle.errors import InvalidSpec

GOOD: dict[str, object] = {"flavor": "m1.tiny", "image": "cirros"}


def faults(**given: object) -> list[str]:
    with pytest.raises(InvalidSpec) as error:
        validate({**GOOD, **given})
    return list(error.value.problems)


def test_the_least_that_will_do() -> None:
    assert validate(GOOD) == {**GOOD, "auto_disk_config": True, "networks": "auto"}


def test_senlins_own_names_are_all_known() -> None:
    assert set(PARSERS) == set(SCHEMA)
    assert set(SCHEMA) == {
        "context",
        "admin_pass",
        "auto_disk_config",
        "availability_zone",
        "block_device_mapping_v2",
        "config_drive",
        "flavor",
        "image",
        "key_name",
        "metadata",
        "name",
        "networks",
        "personality",
        "security_groups",
        "user_data",
        "scheduler_hints",
    }


def test_a_full_document_comes_back_as_it_went_in() -> None:
    full: dict[str, object] = {
        **GOOD,
        "admin_pass": "secret",
        "auto_disk_config": False,
        "availability_zone": "nova",
        "block_device_mapping_v2": [{"source_type": "image", "uuid": "u", "boot_index": 0}],
        "config_drive": True,
        "key_name": "mine",
        "metadata": {"role": "web"},
        "name": "web",
        "networks": [{"network": "private", "fixed_ip": "10.0.0.7"}, {"port": "p"}],
        "personality": [{"path": "/etc/motd", "contents": "hello"}],
        "scheduler_hints": {"group": "g"},
        "security_groups": ["web"],
        "user_data": "#!/bin/sh\necho ok\n",
    }
    assert validate(full) == full


def test_numbers_in_metadata_become_texts() -> None:
    assert validate({**GOOD, "metadata": {"port": 80}})["metadata"] == {"port": "80"}


def test_every_fault_is_named_at_once() -> None:
    with pytest.raises(InvalidSpec) as error:
        validate({"flavour": "x", "networks": "both", "config_drive": "perhaps"})
    text = str(error.value)
    for part in ("flavour: unknown property", "flavor: is required", "networks: must be", "image:"):
        assert part in text
    assert "config_drive: must be true or false" in text


@pytest.mark.parametrize(
    ("given", "place"),
    [
        pytest.param({"metadata": {"cluster_id": "x"}}, "metadata.cluster_id: ", id="our mark"),
        pytest.param({"metadata": {"yaffle_x": "x"}}, "metadata.yaffle_x: ", id="our prefix"),
        pytest.param({"metadata": {"k": "v" * 256}}, "metadata.k: ", id="too long"),
        pytest.param({"metadata": {"k": True}}, "metadata.k: ", id="no text"),
        pytest.param({"networks": [{}]}, "networks[0]: needs exactly one", id="no network"),
        pytest.param({"networks": [{"port": "p"}, {"port": "p", "network": "n"}]}, "[1]", id="both"),
        pytest.param({"networks": [{"network": "n", "fixed_ip": "x"}]}, "networks[0].fixed_ip", id="ip"),
        pytest.param({"networks": [{"network": "n", "vnic_type": "direct"}]}, "not supported", id="vnic"),
        pytest.param({"networks": [{"port": "p", "fixed_ip": "10.0.0.1"}]}, "own address", id="port ip"),
        pytest.param({"block_device_mapping_v2": [{"x": 1}]}, "block_device_mapping_v2[0].x", id="bdm"),
        pytest.param({"personality": [{"path": "/x"}]}, "personality[0]: needs", id="file"),
        pytest.param({"security_groups": "web"}, "security_groups: must be a list", id="no list"),
        pytest.param({"context": {"region_name": "r"}}, "context: is not supported", id="region"),
        pytest.param({"user_data": "x" * 60_000}, "user_data: may have 65535", id="user data"),
        pytest.param({"flavor": " "}, "flavor: must be a non-empty text", id="blank"),
    ],
)  # fmt: skip
def test_what_is_refused_and_where(given: dict[str, object], place: str) -> None:
    assert any(place in fault for fault in faults(**given)), faults(**given)


def test_a_volume_boots_without_an_image() -> None:
    given = {"flavor": "f", "block_device_mapping_v2": [{"uuid": "u", "boot_index": 0}]}
    assert "image" not in validate(given)


def test_user_data_is_encoded_for_nova() -> None:
    assert base64.b64decode(encoded_user_data("grüß")).decode() == "grüß"


def test_what_can_be_changed_on_a_server_that_is_there() -> None:
    assert {name for name, node in SCHEMA.items() if node.updatable} == {
        "name",
        "metadata",
        "image",
        "flavor",
        "networks",
    }
