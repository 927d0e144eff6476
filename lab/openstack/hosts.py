"""When a compute host may be used: what Nova says of it may be nine seconds old."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any, Final

from lab.openstack import nova
from lab.openstack.api import Api
from lab.openstack.errors import LabError
from lab.openstack.plan import Plan
from lab.openstack.processes import Processes
from lab.openstack.waiting import until

USABLE_S: Final = 180.0


def until_usable(
    plan: Plan, processes: Processes, api: Api, wanted: Collection[str], since: float = 0.0
) -> None:
    """Wait until Nova has heard of hosts since they were started, and they have room for servers.

    `since` is the Unix time before which Nova's news does not count: what they go through, the bus
    and the conductor, was broken then.
    """
    services = {host: nova.host_service(plan, host) for host in wanted}

    def all_usable() -> bool:
        for service in services.values():
            if not processes.alive(service.name):
                raise processes.death_of(service)
        return set(wanted) <= usable(plan, processes, api, since)

    try:
        until(f"hosts {', '.join(wanted)} are up", all_usable, USABLE_S, poll_s=0.25)
    except LabError as error:
        logs = ", ".join(str(service.log) for service in services.values())
        found = sorted(usable(plan, processes, api, since))
        raise LabError(f"{error}\n  usable are {found}; look in {logs}") from None


def usable(plan: Plan, processes: Processes, api: Api, since: float = 0.0) -> set[str]:
    """Return the hosts that Nova can put servers on, those that are forced down included.

    Who gives no answer, or none of use, has none yet: after a long outage of the bus Nova's API hangs
    for a while on what it could not say.
    """
    try:
        services = states(api)
        hypervisors = api.get("compute", "/os-hypervisors")["hypervisors"]
        providers = api.get("placement", "/resource_providers")["resource_providers"]
    except LabError:
        return set()
    spoke = {
        service["host"]
        for service in services
        if (service["state"] == "up" or service["forced_down"])
        and _heard(processes, nova.host_service(plan, service["host"]).name, service, since)
    }
    known = {hypervisor["hypervisor_hostname"] for hypervisor in hypervisors}
    return spoke & known & {provider["name"] for provider in providers}


def states(api: Api) -> list[dict[str, Any]]:
    """Return what Nova says of its hosts."""
    found: list[dict[str, Any]]
    found = api.get("compute", "/os-services?binary=nova-compute")["services"]
    return found


def _heard(processes: Processes, name: str, service: dict[str, Any], since: float) -> bool:
    process = processes.find(name)
    if process is None or not service["updated_at"]:
        return False
    heard = datetime.fromisoformat(service["updated_at"]).replace(tzinfo=UTC)
    # Told in whole seconds: one more report, two seconds later, rather than one that is too old.
    return heard.timestamp() > max(since, process.create_time())
