"""Octavia: load balancers, of which none exists, and members as somebody says. Only where asked for.

API, database and driver agent are Octavia's own; its provider makes nothing. A provider tells the
agent how things are over a socket, and so do we.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from lab.openstack import extras, templates, wsgi
from lab.openstack.errors import LabError
from lab.openstack.extras import Extra
from lab.openstack.plan import Plan
from lab.openstack.processes import Service
from lab.openstack.waiting import until

NAME: Final = "octavia"
TOLD_S: Final = 60.0


def _configure(plan: Plan) -> None:
    templates.write(
        plan,
        "octavia.conf",
        _config(plan),
        sockets=str(plan.data / NAME),
        database=templates.database(plan, NAME),
        token_check=templates.token_check(plan, NAME),
    )


def _tables(plan: Plan) -> list[str]:
    program = [str(extras.python(plan, NAME)), str(wsgi.INSIDE / "octavia_tables.py")]
    return [*program, "--config-file", str(_config(plan))]


def _services(plan: Plan) -> list[Service]:
    """Return its API, and the agent that providers speak with."""
    config, log = ("--config-file", str(_config(plan))), plan.log / "octavia.log"
    program = str(extras.folder(plan, NAME) / "bin" / "octavia-driver-agent")
    return [
        extras.served(plan, NAME, "octavia.wsgi.api", at="balancing", arguments=config),
        Service(name="octavia-driver-agent", command=(program, *config), log=log),
    ]


OCTAVIA: Final = Extra(
    name=NAME,
    kind="load-balancer",
    at="balancing",
    configure=_configure,
    tables=_tables,
    services=_services,
)


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


def _config(plan: Plan) -> Path:
    return plan.etc / NAME / "octavia.conf"
