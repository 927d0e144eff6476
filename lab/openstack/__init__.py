"""A real OpenStack control plane on one machine, to be healed and to be broken.

`python -m lab.openstack --help` is the way in for people, `Lab` the one for tests.
"""

from __future__ import annotations

from lab.openstack.errors import LabError
from lab.openstack.lab import Credentials, Lab, new
from lab.openstack.levers import Guest, Trouble

__all__ = ["Credentials", "Guest", "Lab", "LabError", "Trouble", "new"]
