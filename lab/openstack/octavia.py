"""Octavia: load balancers, of which none exists, and members as somebody says. Only where asked for.

API, database and driver agent are Octavia's own; its provider makes nothing. A provider tells the
agent how things are over a socket, and so do we.
"""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lab.openstack import catalog, database, packages, templates, wsgi
from lab.openstack.errors import LabError, last_lines
from lab.openstack.plan import HERE, Plan
from lab.openstack.processes import Processes, Service
from lab.openstack.waiting import until

if TYPE_CHECKING:
    from lab.openstack.api import Api

LOCK: Final = HERE / "requirements-octavia.lock"
NAME: Final = "octavia"
CATALOG_TYPE: Final = "load-balancer"
TABLES_S: Final = 300.0
TOLD_S: Final = 60.0


def prepare(plan: Plan, processes: Processes, api: Api) -> None:
    """Install it, make its database, and register it; what is there stays."""
    packages.install(_packages(plan), LOCK)
    templates.write(
        plan,
        "octavia.conf",
        _config(plan),
        sockets=str(plan.data / NAME),
        database=templates.database(plan, NAME),
        token_check=templates.token_check(plan, NAME),
    )
    mark = plan.done / NAME
    if not mark.exists():
        _make_tables(plan, processes)
        mark.touch()
    _register(plan, api)


def services(plan: Plan) -> list[Service]:
    """Return its API, and the agent that providers speak with."""
    served = wsgi.service(
        plan,
        NAME,
        "octavia.wsgi.api",
        at="balancing",
        arguments=("--config-file", str(_config(plan))),
        log=plan.log / "octavia.log",
    )
    rest = served.command[1:]
    agent = (str(_packages(plan) / "bin" / "octavia-driver-agent"), *rest[-2:])
    return [
        replace(served, command=(str(_python(plan)), *rest)),
        Service(name="octavia-driver-agent", command=agent, log=plan.log / "octavia.log"),
    ]


def tell(plan: Plan, **objects: Sequence[Mapping[str, str]]) -> None:
    """Say how things are, as a provider does: `members=[{"id": …, "operating_status": "ERROR"}]`."""
    words = json.dumps(objects).encode()
    with socket.socket(socket.AF_UNIX) as agent:
        agent.settimeout(TOLD_S)
        path = str(plan.data / f"{NAME}-status.sock")
        # It imports itself for seconds, and leaves the socket of its last life behind until then.
        until("Octavia's agent listens", lambda: agent.connect_ex(path) == 0, TOLD_S, poll_s=0.2)
        agent.sendall(b"%d\n%b" % (len(words), words))
        answer = b"".join(iter(lambda: agent.recv(4096), b""))
    if json.loads(answer.partition(b"\n")[2]).get("status_code") != 200:
        raise LabError(f"Octavia's agent does not take that: {answer!r}")


def _make_tables(plan: Plan, processes: Processes) -> None:
    database.renew(plan, [NAME])
    log = plan.log / "schema-octavia.out"
    program = [str(_python(plan)), str(wsgi.INSIDE / "octavia_tables.py")]
    with log.open("w") as out:
        done = subprocess.run(
            [*program, "--config-file", str(_config(plan))],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env=processes.environment({}),
            timeout=TABLES_S,
            check=False,
        )
    if done.returncode:
        raise LabError(f"the tables of octavia cannot be made; {log} ends with\n{last_lines(log)}")


def _register(plan: Plan, api: Api) -> None:
    password = {"password": templates.SERVICE_PASSWORD}
    project = catalog.found_or_made(api, "project", name="service", domain_id="default")
    user = catalog.found_or_made(api, "user", name=NAME, domain_id="default", extra=password)
    for role in ("admin", "service"):
        catalog.grant(api, project=project, user=user, role=role)
    service = catalog.found_or_made(api, "service", name=NAME, extra={"type": CATALOG_TYPE})
    there = api.get("identity", f"/endpoints?service_id={service}")["endpoints"]
    for interface in {"public", "internal"} - {endpoint["interface"] for endpoint in there}:
        wanted = {"service_id": service, "interface": interface, "url": plan.url("balancing")}
        wanted["region_id"] = templates.REGION
        api.call("POST", "identity", "/endpoints", {"endpoint": wanted})


def _config(plan: Plan) -> Path:
    return plan.etc / NAME / "octavia.conf"


def _packages(plan: Plan) -> Path:
    return plan.packages.with_name(NAME)


def _python(plan: Plan) -> Path:
    return _packages(plan) / "bin" / "python"
