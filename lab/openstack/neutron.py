"""Neutron: networks, subnets and ports, in place of the stand-in. Only where asked for.

API and database are Neutron's own. Nothing carries packets: a mechanism driver of ours binds every
port to the host that Nova names, and calls it ACTIVE; Neutron tells Nova so, as ever.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from lab.openstack import extras, templates, wsgi
from lab.openstack.extras import Extra
from lab.openstack.plan import Plan
from lab.openstack.processes import Service

NAME: Final = "neutron"
ML2: Final = wsgi.INSIDE / "ml2"
"""A distribution with one entry point, which is how Neutron finds its drivers."""


def _configure(plan: Plan) -> None:
    templates.write(
        plan,
        "neutron.conf",
        _config(plan),
        shipped=str(extras.folder(plan, NAME) / "etc" / NAME),
        database=templates.database(plan, NAME),
        token_check=templates.token_check(plan, NAME),
        nova=templates.login(plan, "nova", NAME),
    )


def _tables(plan: Plan) -> list[str]:
    program = [str(extras.python(plan, NAME)), str(wsgi.INSIDE / "neutron_tables.py")]
    return [*program, "--config-file", str(_config(plan))]


def _services(plan: Plan) -> list[Service]:
    """Return its API; there are no agents, who are what its other processes are for."""
    env = {
        "OS_NEUTRON_CONFIG_DIR": str(_config(plan).parent),
        "OS_NEUTRON_CONFIG_FILES": _config(plan).name,
        "PYTHONPATH": str(ML2),
    }
    return [extras.served(plan, NAME, "neutron.wsgi.api", at="network", env=env)]


NEUTRON: Final = Extra(
    name=NAME,
    kind="network",
    at="network",
    configure=_configure,
    tables=_tables,
    services=_services,
)


def _config(plan: Plan) -> Path:
    return plan.etc / NAME / "neutron.conf"
