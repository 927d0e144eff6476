"""The lab as tests and people hold it in hand: bring it up, break it, mend it, look into it."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil
from httpx import codes

from lab.openstack import (
    belongings,
    bringup,
    bus,
    catalog,
    database,
    hosts,
    nova,
    stacks,
    templates,
)
from lab.openstack import plan as plans
from lab.openstack.api import Api, Refused
from lab.openstack.errors import LabError
from lab.openstack.levers import Guest, Trouble
from lab.openstack.plan import Plan
from lab.openstack.processes import Processes, Service
from lab.openstack.progress import Progress
from lab.openstack.waiting import until, until_answers

CELL: Final = "nova"
"""The database of the cell that all hosts are in."""
HOST_S: Final = 120.0
GONE_S: Final = 120.0
REMOVE_S: Final = 60.0
REMOVE_PAUSE_S: Final = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """A project of one's own in the cloud, and the user who may work in it."""

    cloud: str
    """Its name in `clouds_yaml`."""
    clouds_yaml: Path
    auth_url: str
    project: str
    project_id: str
    user: str
    user_id: str
    password: str
    region: str = templates.REGION


class Lab:
    """One lab, running or not. Everything may be called from any process that knows the state folder."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.processes = Processes(plan.state)
        self.api = Api(plan)

    @classmethod
    def at(cls, state: Path) -> Lab:
        """Return the lab that was brought up in a folder."""
        return cls(plans.load(state))

    def close(self) -> None:
        """Let go of connections; the lab itself goes on."""
        self.api.close()

    # --- Up and down --------------------------------------------------------------------------------

    def up(self, progress: Progress | None = None) -> None:
        """Bring it up; what runs is left alone."""
        bringup.bring_up(self.plan, self.processes, progress or Progress(quiet=True))

    def down(self) -> int:
        """End all of it, in order; return how many processes had been lost and were killed."""
        everything = {service.name: service for service in self.services()}
        above = [s for name, s in everything.items() if name not in bringup.BELOW]
        self.processes.stop(above)
        for name in reversed(bringup.BELOW):
            self.processes.stop([everything[name]])
        return self.processes.kill_all()

    def remove(self) -> None:
        """Kill all of it and leave nothing behind, not even its folder."""
        end_s = time.monotonic() + REMOVE_S
        while True:
            self.processes.kill_all()
            try:
                shutil.rmtree(self.plan.state)
            except OSError as error:
                # Who was just being started when we looked carries no mark yet, and may still write.
                if not self.plan.state.exists():
                    return
                if time.monotonic() > end_s:
                    raise LabError(f"{self.plan.state} cannot be removed: {error}") from error
                time.sleep(REMOVE_PAUSE_S)
            else:
                return

    def services(self) -> list[Service]:
        """Return all processes that it consists of."""
        return bringup.services(self.plan)

    def service(self, name: str) -> Service:
        """Return one of them."""
        for service in self.services():
            if service.name == name:
                return service
        names = ", ".join(service.name for service in self.services())
        raise LabError(f"there is no {name} in this lab; there is {names}")

    # --- Services -----------------------------------------------------------------------------------

    def start(self, name: str) -> None:
        """Start a service again and wait until it answers."""
        service = self.service(name)
        self.processes.start(service)
        until_answers(self.processes, service)
        if name == "postgresql":
            database.start(self.plan, self.processes)
        if name == "rabbitmq":
            self._until_bus_is_used()

    def stop(self, name: str) -> None:
        """Stop a service in order: its port refuses."""
        self.processes.stop([self.service(name)])

    def kill(self, name: str) -> None:
        """Kill a service with all its processes."""
        self.processes.kill(self.service(name).name)

    def freeze(self, name: str) -> None:
        """Let a service hang: its port accepts, and nothing answers."""
        self.processes.freeze(self.service(name).name)

    def thaw(self, name: str) -> None:
        """Let a frozen service go on."""
        self.processes.thaw(self.service(name).name)

    @contextmanager
    def stopped(self, name: str) -> Iterator[None]:
        """Be without a service for a while."""
        self.stop(name)
        try:
            yield
        finally:
            self.start(name)

    @contextmanager
    def frozen(self, name: str) -> Iterator[None]:
        """Have a service hang for a while."""
        self.freeze(name)
        try:
            yield
        finally:
            self.thaw(name)

    @contextmanager
    def without_cell(self) -> Iterator[None]:
        """Have Nova not reach the cell that all hosts are in for a while."""
        database.close(self.plan, CELL)
        try:
            yield
        finally:
            database.reopen(self.plan, CELL)

    def _until_bus_is_used(self) -> None:
        """Wait until all of Nova that runs has found the bus again."""
        back = time.time()
        queues = self._listeners()
        named = ", ".join(sorted(queues))
        until(f"{named} are listened to", lambda: bus.consumed(self.plan, queues), HOST_S, 0.5)
        if self._works("nova-api") and self._works("keystone") and "conductor" in queues:
            self._until_heard(back)

    def _until_heard(self, since: float) -> None:
        """Wait until Nova has news of each host that runs."""
        wanted = [h for h in self.hosts if self._works(nova.host_service(self.plan, h).name)]
        hosts.until_usable(self.plan, self.processes, self.api, wanted, since)

    def _listeners(self) -> set[str]:
        """Return the queues on which those services listen that run and are not frozen."""
        queues = {"nova-conductor": "conductor", "nova-scheduler": "scheduler"}
        queues |= {nova.host_service(self.plan, h).name: f"compute.{h}" for h in self.hosts}
        return {queue for name, queue in queues.items() if self._works(name)}

    def _works(self, name: str) -> bool:
        process = self.processes.find(name)
        return process is not None and process.status() != psutil.STATUS_STOPPED

    def url(self, service: str) -> str:
        """Return where a service answers, by catalog type: identity, compute, orchestration, …"""
        return self.plan.url(service)

    # --- Hosts --------------------------------------------------------------------------------------

    @property
    def hosts(self) -> tuple[str, ...]:
        """The compute hosts' names."""
        return self.plan.hosts

    def kill_host(self, host: str) -> None:
        """Kill a compute host; Nova notices after 7 to 9 s, see `until_host`."""
        self.kill(nova.host_service(self.plan, host).name)

    def start_host(self, host: str, *, wait: bool = True) -> None:
        """Start a compute host again, and wait until Nova has heard of it."""
        self.start(nova.host_service(self.plan, host).name)
        if wait:
            hosts.until_usable(self.plan, self.processes, self.api, [host])

    def until_host(self, host: str, state: str, within_s: float = HOST_S) -> None:
        """Wait until Nova says that a host is `up` or `down`."""
        until(f"{host} is {state}", lambda: self.host_states().get(host) == state, within_s)

    def host_states(self) -> dict[str, str]:
        """Return what Nova says of its hosts: `up` or `down`."""
        return {service["host"]: service["state"] for service in hosts.states(self.api)}

    def admit_host(self, host: str) -> None:
        """Take back what was said of a host: forced down, or closed to new servers."""
        for service in hosts.states(self.api):
            if service["host"] == host:
                path = f"/os-services/{service['id']}"
                until(f"Nova admits {host}", lambda path=path: self._admitted(path), HOST_S, 0.5)  # type: ignore[misc]

    def _admitted(self, path: str) -> bool:
        """Ask for it; a host that was moved off is refused until it has tidied up after itself."""
        try:
            wanted = {"forced_down": False, "status": "enabled"}
            self.api.call("PUT", "compute", path, wanted)
        except Refused as refusal:
            if refusal.status != codes.BAD_REQUEST:
                raise
            return False
        return True

    # --- Guests and operations ----------------------------------------------------------------------

    def guest(self, server: str, host: str = "") -> Guest:
        """Return what a server is on its hypervisor, to be broken without Nova being asked."""
        found = [host] if host else [h for h in self.hosts if server in self.guests_of(h)]
        if len(found) > 1:  # an evacuated one is still remembered where it was
            found = [h for h in found if self.processes.alive(f"nova-compute-{h}")]
        if len(found) != 1:
            raise LabError(f"server {server} is on {len(found)} hosts of this lab; name one")
        alive = f"nova-compute-{found[0]}"
        return Guest(server, self.plan.host_data(found[0]), lambda: self.processes.alive(alive))

    def guests_of(self, host: str) -> dict[str, int]:
        """Return the guests of a hypervisor, also of a dead one, with their power states."""
        try:
            words = json.loads((self.plan.host_data(host) / "guests.json").read_text())
        except FileNotFoundError:
            return {}
        return {server: state for server, (_, state) in words.items()}

    def fail(self, host: str, operation: str, only: str = "") -> Trouble:
        """Let an operation of a host fail (of `only` one server, or one project) until `end()`."""
        return Trouble(self.plan.host_data(host) / "fail", operation, only)

    def slow(self, host: str, operation: str, seconds: float, only: str = "") -> Trouble:
        """Let an operation of a host take so long, as `fail`; `end()` lets go of what waits."""
        return Trouble(self.plan.host_data(host) / "slow", operation, only, f"{seconds:g}")

    def repair(self) -> None:
        """Take back everything: levers, frozen and stopped services, hosts that are shut out."""
        for host in self.hosts:
            for kind in ("fail", "slow", "ctl"):
                for lever in (self.plan.host_data(host) / kind).glob("*"):
                    lever.unlink(missing_ok=True)
        database.reopen(self.plan, CELL)
        for service in self.services():
            if self.processes.alive(service.name) and not self._works(service.name):
                self.thaw(service.name)
        for service in self.services():
            if not self.processes.alive(service.name):
                self.start(service.name)
        for host in self.hosts:
            self.admit_host(host)
        self._until_heard(time.time())

    # --- Projects -----------------------------------------------------------------------------------

    def project(self, name: str = "", roles: Sequence[str] = ("member",)) -> Credentials:
        """Make a project and a user of a new name who has `roles` in it; write their clouds.yaml."""
        name = name or f"p-{secrets.token_hex(4)}"
        password = secrets.token_urlsafe(12)
        words = {"name": name, "domain_id": "default"}
        # Both are made, never found: a password that is changed revokes what was issued in the
        # same second, and a new token would be refused now and then.
        made = self.api.call("POST", "identity", "/projects", {"project": words})
        project = made["project"]["id"]
        words["password"] = password
        user = self.api.call("POST", "identity", "/users", {"user": words})["user"]["id"]
        for role in roles:
            catalog.grant(self.api, project=project, user=user, role=role)
        path = self.plan.state / "projects" / name / "clouds.yaml"
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        who = {"user": name, "project": name, "password": password}
        templates.write(self.plan, "clouds.yaml", path, cloud=name, **who)
        path.chmod(0o600)
        return Credentials(
            cloud=name,
            clouds_yaml=path,
            auth_url=self.plan.auth_url,
            project=name,
            project_id=project,
            user=name,
            user_id=user,
            password=password,
        )

    def servers_of(self, project_id: str) -> list[str]:
        """Return the ids of a project's servers."""
        path, found = f"/servers?all_tenants=1&project_id={project_id}", list[str]()
        while True:
            after = f"&marker={found[-1]}" if found else ""
            page = self.api.get("compute", path + after)
            found += [server["id"] for server in page["servers"]]
            if not page.get("servers_links"):
                return found

    def remove_project(self, credentials: Credentials) -> None:
        """Remove a project with all that is in it, and its user."""
        if self.plan.heat:
            stacks.remove_all(self.plan, credentials)
        for server in self.servers_of(credentials.project_id):
            self._remove_server(server)
        belongings.remove_all(self.plan, self.api, credentials.project_id)
        self.api.call("DELETE", "identity", f"/users/{credentials.user_id}")
        self.api.call("DELETE", "identity", f"/projects/{credentials.project_id}")
        shutil.rmtree(credentials.clouds_yaml.parent, ignore_errors=True)

    def _remove_server(self, server: str) -> None:
        """Remove one for good: Nova would keep a deleted one for an hour."""
        path = f"/servers/{server}"
        # Of one that no host has had yet Nova fails (500) to write down that it is unlocked.
        with suppress(Refused):
            self.api.call("POST", "compute", f"{path}/action", {"unlock": None})
        try:
            self.api.call("POST", "compute", f"{path}/action", {"forceDelete": None})
        except Refused as refusal:
            if refusal.status != 404:
                raise
        if not self.api.gone("compute", path, GONE_S):
            raise LabError(f"server {server} could not be deleted within {GONE_S:g} s")


def new(
    state: Path,
    *,
    base: int = 0,
    computes: int = 2,
    heat: bool = False,
    extras: Collection[str] = (),
    packages: Path = plans.HOME / "packages",
    cache: Path | None = plans.HOME / "cache",
) -> Lab:
    """Return a lab in a folder, on free ports; one that is there keeps its ports, hosts and services."""
    state = Path(os.path.abspath(state))  # noqa: PTH100 - resolve() would follow links
    plans.check_length(state)
    there = plans.load(state) if plans.exists(state) else None
    wanted = {*extras, *(there.extras if there else ())}
    return Lab(
        Plan(
            state=state,
            base=there.base if there else (base or plans.free_base()),
            computes=max(computes, there.computes if there else 1),
            heat=heat or (there.heat if there else False),
            extras=tuple(name for name in plans.EXTRAS if name in wanted),
            packages=packages,
            cache=cache,
        )
    )
