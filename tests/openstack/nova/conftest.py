"""Worlds for tests of the Nova profile: with a member's rights, or with an administrator's."""

from __future__ import annotations

from pathlib import Path

import pytest
from lab.openstack.catalog import grant
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
def broken_admin_world(broken_cloud: Cloud, tmp_path: Path) -> World:
    """The user may see hosts and move servers off them, and is alone in a cloud that may be broken."""
    mine = broken_cloud.credentials
    grant(broken_cloud.lab.api, project=mine.project_id, user=mine.user_id, role="admin")
    return World(cloud=broken_cloud, state_dir=tmp_path)
