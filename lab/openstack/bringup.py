"""Brings a lab up, its parts in the order in which they need each other, and none twice."""

from __future__ import annotations

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
from lab.openstack.plan import Plan
from lab.openstack.processes import Processes, Service
from lab.openstack.progress import Progress
from lab.openstack.waiting import until_answers

BELOW: Final = ("postgresql", "rabbitmq", "epmd")
"""What the others stand on: stopped after them, in this order reversed."""


def services(plan: Plan) -> list[Service]:
    """Return everything that the lab runs, in the order in which it starts."""
    found = [database.service(plan), *bus.services(plan)]
    found += keystone.services(plan) + placement.services(plan) + network.services(plan)
    found += nova.services(plan) + glance.services(plan)
    if plan.heat:
        found += heat.services(plan)
    return found


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
    with progress.stage("configuration"):
        plan.save()
        configure(plan)
    prepare_database(plan, processes, progress)
    with progress.stage("Keystone"):
        for service in keystone.services(plan) + placement.services(plan) + network.services(plan):
            processes.start(service)
        _answer(processes, keystone.services(plan))
    api = Api(plan)
    try:
        with progress.stage("users and catalog"):
            catalog.register(api, plan)
        with progress.stage("services"):
            _start_rest(plan, processes)
        with progress.stage("flavors, images, hosts"):
            catalog.furnish(api)
            hosts.until_usable(plan, processes, api, plan.hosts)
    finally:
        api.close()
    progress.all_done()


def prepare_database(plan: Plan, processes: Processes, progress: Progress) -> None:
    """Start the bus, and a database server that holds the empty cloud."""
    for service in bus.services(plan):
        processes.start(service)
        if service.name == "epmd":
            until_answers(processes, service)
    if not (plan.done / "schemas").exists():
        with progress.stage("tables, as they were kept"):
            kept = schemas.restore(plan)
        if not kept:
            with progress.stage("tables, made anew"):
                schemas.make(plan, processes)
    with progress.stage("PostgreSQL"):
        database.start(plan, processes)


def _start_rest(plan: Plan, processes: Processes) -> None:
    """Start all that is left at once: each spends its first seconds importing itself."""
    _answer(processes, bus.services(plan))
    _answer(processes, placement.services(plan))
    rest = services(plan)
    for service in rest:
        processes.start(service)
    _answer(processes, rest)


def _answer(processes: Processes, services: list[Service]) -> None:
    for service in services:
        until_answers(processes, service)
