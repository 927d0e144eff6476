"""The place in the catalog where Neutron would be; Nova does not work without one."""

from __future__ import annotations

from lab.openstack import wsgi
from lab.openstack.plan import Plan
from lab.openstack.processes import Service


def services(plan: Plan) -> list[Service]:
    """Return the stand-in; nothing where the real one stands."""
    return [] if "neutron" in plan.extras else [stand_in(plan)]


def stand_in(plan: Plan) -> Service:
    """Return what a lab without Neutron has."""
    return wsgi.service(plan, "network", "network", at="network", threads=2)
