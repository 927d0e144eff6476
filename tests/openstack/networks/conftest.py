"""A project with a real Neutron and a real Cinder around it."""

from __future__ import annotations

import pytest
from tests.openstack.networks.things import Things

# The worlds of the Nova profile's own tests, which are these without anything around a server.
from tests.openstack.nova.conftest import broken_admin_world, world
from tests.openstack.nova.world import World

__all__ = ["broken_admin_world", "world"]


@pytest.fixture
def things(world: World) -> Things:
    """What servers are made of besides an image, in the world's project."""
    return Things(cloud=world.cloud)
