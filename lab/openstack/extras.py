"""What a lab has only where it is asked for: a service in an environment of its own, added at the end.

It delays no other lab, and none of its packages has to fit those of the cloud.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from lab.openstack import catalog, database, packages, schemas, wsgi
from lab.openstack.plan import HERE, Plan
from lab.openstack.processes import Processes, Service
from lab.openstack.waiting import until_answers

if TYPE_CHECKING:
    from collections.abc import Callable

    from lab.openstack.api import Api


@dataclass(frozen=True, slots=True, kw_only=True)
class Extra:
    """One of them. `name` is that of its user, its database, its folder and its lock file."""

    name: str
    kind: str
    """Its type in the catalog."""
    at: str
    """Its port."""
    path: str = ""
    """What its URL ends with."""
    configure: Callable[[Plan], None]
    tables: Callable[[Plan], Sequence[str]]
    """Return the command that makes them."""
    services: Callable[[Plan], list[Service]]

    @property
    def lock(self) -> Path:
        """Which packages it consists of."""
        return HERE / f"requirements-{self.name}.lock"

    def prepare(self, plan: Plan, processes: Processes, api: Api) -> None:
        """Install it, make its database, and register it; what is there stays."""
        packages.install(folder(plan, self.name), self.lock)
        self.configure(plan)
        mark = plan.done / self.name
        if not mark.exists():
            database.renew(plan, [self.name])
            schemas.fill(plan, processes, self.name, self.tables(plan))
            mark.touch()
        catalog.enter(api, name=self.name, kind=self.kind, url=plan.url(self.at) + self.path)

    def start(self, plan: Plan, processes: Processes, api: Api) -> list[Service]:
        """Bring it up in a lab that runs already; return what to stop."""
        self.prepare(plan, processes, api)
        found = self.services(plan)
        for service in found:
            processes.start(service)
        for service in found:
            until_answers(processes, service)
        return found


def served(
    plan: Plan,
    name: str,
    module: str,
    *,
    at: str,
    env: Mapping[str, str] | None = None,
    arguments: Sequence[str] = (),
) -> Service:
    """Return the process that serves its API, as `wsgi.service` does for the cloud's own."""
    log = plan.log / f"{name}.log"
    found = wsgi.service(plan, name, module, at=at, env=env, arguments=arguments, log=log)
    return replace(found, command=(str(python(plan, name)), *found.command[1:]))


def folder(plan: Plan, name: str) -> Path:
    """Return its Python environment."""
    return plan.packages.with_name(name)


def python(plan: Plan, name: str) -> Path:
    """Return the interpreter that it runs on."""
    return folder(plan, name) / "bin" / "python"
