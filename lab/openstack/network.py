"""The place in the catalog where Neutron would be; Nova does not work without one."""

from __future__ import annotations

from lab.openstack import wsgi
from lab.openstack.plan import Plan
from lab.openstack.processes import Service


def services(plan: Plan) -> list[Service]:
    """Return the stand-in."""
    return [wsgi.service(plan, "network", "network", at="network", threads=2)]
