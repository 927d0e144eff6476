"""Worlds for tests of the Heat profile."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.openstack.cloud import Cloud
from tests.openstack.heat.world import World


@pytest.fixture
def world(heat: str, cloud: Cloud, tmp_path: Path) -> World:
    """A project whose user may do what users may."""
    return World(cloud=cloud, state_dir=tmp_path)


@pytest.fixture
def broken_world(heat: str, broken_cloud: Cloud, tmp_path: Path) -> World:
    """The same, alone in a cloud that may be broken."""
    return World(cloud=broken_cloud, state_dir=tmp_path)
