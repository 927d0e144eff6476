"""Worlds for tests of the Nova profile: with a member's rights, or with an administrator's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from lab.openstack import Lab
from lab.openstack.api import Refused
from lab.openstack.catalog import grant
from lab.openstack.lab import HOST_S
from lab.openstack.waiting import until
from tests.openstack.cloud import Cloud
from tests.openstack.nova.world import World


@pytest.fixture
def world(cloud: Cloud, tmp_path: Path) -> World:
    """A project whose user may do what users may."""
    return World(cloud=cloud, state_dir=tmp_path)


@pytest.fixture
def admin_world(cloud: Cloud, tmp_path: Path) -> World:
    """The user may see every project's servers, by their ids, and hosts."""
    mine = cloud.credentials
    grant(cloud.lab.api, project=mine.project_id, user=mine.user_id, role="admin")
    return World(cloud=cloud, state_dir=tmp_path)


@pytest.fixture
def broken_world(broken_cloud: Cloud, tmp_path: Path) -> World:
    """The same, alone in a cloud that may be broken."""
    return World(cloud=broken_cloud, state_dir=tmp_path)


@pytest.fixture
def broken_admin_world(broken_cloud: Cloud, tmp_path: Path) -> Iterator[World]:
    """The user may see hosts and move servers off them, and is alone in a cloud that may be broken."""
    lab, mine = broken_cloud.lab, broken_cloud.credentials
    grant(lab.api, project=mine.project_id, user=mine.user_id, role="admin")
    yield World(cloud=broken_cloud, state_dir=tmp_path)
    for host in lab.hosts:
        _taken_back(lab, host)


def _taken_back(lab: Lab, host: str) -> None:
    """Have Nova take a host back that servers were moved from: only once that has tidied up."""
    lab.start_host(host, wait=False)

    def admitted() -> bool:
        try:
            lab.admit_host(host)
        except Refused as refusal:
            return refusal.status != 400
        return True

    until(f"{host} is taken back", admitted, HOST_S)
