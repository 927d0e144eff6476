"""Brings a lab up, its parts in the order in which they need each other, and none twice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lab.openstack import (
    bus,
    catalog,
    database,
    glance,
    heat,
    hosts,
    keystone,
    network,
    nova,
    packages,
    placement,
    schemas,
    templates,
)
from lab.openstack.api import Api
from lab.openstack.cinder import CINDER
from lab.openstack.extras import Extra
from lab.openstack.mistral import MISTRAL
from lab.openstack.neutron import NEUTRON
from lab.openstack.octavia import OCTAVIA
from lab.openstack.plan import Plan
from lab.openstack.processes import Processes, Service
from lab.openstack.progress import Progress
from lab.openstack.waiting import until_answers

EXTRAS: Final = (NEUTRON, CINDER, OCTAVIA, MISTRAL)
BELOW: Final = ("postgresql", "rabbitmq", "epmd")
"""What the others stand on: stopped after them, in this order reversed."""


def services(plan: Plan) -> list[Service]:
    """Return everything that the lab runs, in the order in which it starts."""
    found = [database.service(plan), *bus.services(plan)]
    found += keystone.services(plan) + placement.services(plan) + network.services(plan)
    found += nova.services(plan) + glance.services(plan)
    return found + _late(plan)


def _late(plan: Plan) -> list[Service]:
    """Return what only some labs have: it delays nobody else."""
    found = heat.services(plan) if plan.heat else []
    return found + [service for extra in _extras(plan) for service in extra.services(plan)]


def _extras(plan: Plan) -> list[Extra]:
    return [extra for extra in EXTRAS if extra.name in plan.extras]


def configure(plan: Plan) -> None:
    """Write every service's configuration, and what a person needs to use the cloud."""
    for part in (keystone, placement, glance, nova, bus, *([heat] if plan.heat else [])):
        part.configure(plan)
    (plan.data / "locks").mkdir(exist_ok=True)
    user = {"user": "admin", "project": "admin", "password": templates.ADMIN_PASSWORD}
    templates.write(plan, "clouds.yaml", plan.clouds_yaml, cloud="lab", **user)
    rc = plan.state / "openrc"
    templates.write(plan, "openrc", rc, bin=str(plan.packages / "bin"), **user)
    for secret in (plan.clouds_yaml, rc):
        secret.chmod(0o600)


def provide(plan: Plan, progress: Progress) -> None:
    """Make sure of the programs and packages that a cloud is made of."""
    with progress.stage("programs"):
        packages.provide_programs()
    with progress.stage("Python packages"):
        packages.provide(plan)


def bring_up(plan: Plan, processes: Processes, progress: Progress) -> None:
    """Bring everything up; raises LabError with the name and the last words of what died."""
    provide(plan, progress)
    api = Api(plan)
    if "neutron" in plan.extras:
        # In a lab that was begun without.
        processes.stop([network.stand_in(plan)])
    try:
        beside = placement.services(plan) + network.services(plan)
        make_empty(plan, processes, api, progress, beside)
        with progress.stage("services"):
            _start_rest(plan, processes)
        for extra in _extras(plan):
            with progress.stage(f"{extra.name}'s packages and tables"):
                extra.prepare(plan, processes, api)
        for service in _late(plan):
            # Only now: it imports itself while we wait for hosts to report, and delays nobody.
            processes.start(service)
        with progress.stage("flavors, images, hosts"):
            catalog.furnish(api)
            hosts.until_usable(plan, processes, api, plan.hosts)
        if late := _late(plan):
            with progress.stage(", ".join(service.name for service in late)):
                _answer(processes, late)
    finally:
        api.close()
    progress.all_done()


def make_empty(
    plan: Plan,
    processes: Processes,
    api: Api,
    progress: Progress,
    beside: Sequence[Service] = (),
) -> None:
    """Bring up the bus, the databases and a Keystone that knows where everything will be.

    `beside` starts while we wait for Keystone, which needs one processor only.
    """
    with progress.stage("configuration"):
        plan.save()
        configure(plan)
    epmd, rabbitmq = bus.services(plan)
    processes.start(epmd)
    _answer(processes, [epmd])
    processes.start(rabbitmq)
    if not (plan.done / "schemas").exists():
        with progress.stage("the empty cloud, as it was kept"):
            kept = schemas.restore(plan)
        if not kept:
            with progress.stage("the empty cloud, made anew"):
                schemas.make(plan, processes)
    with progress.stage("PostgreSQL"):
        database.start(plan, processes)
    with progress.stage("Keystone"):
        for service in (*keystone.services(plan), *beside):
            processes.start(service)
        _answer(processes, keystone.services(plan))
    with progress.stage("users and catalog"):
        catalog.register(api, plan)
        schemas.keep(plan, processes)


def _start_rest(plan: Plan, processes: Processes) -> None:
    """Start all that is left at once: each spends its first seconds importing itself."""
    _answer(processes, bus.services(plan))
    _answer(processes, placement.services(plan))
    late = {service.name for service in _late(plan)}
    rest = [service for service in services(plan) if service.name not in late]
    for service in rest:
        processes.start(service)
    _answer(processes, rest)


def _answer(processes: Processes, services: list[Service]) -> None:
    for service in services:
        until_answers(processes, service)
