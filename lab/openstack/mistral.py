"""Mistral: workflows, with the actions that OpenStack's services have. Only where asked for.

API, engine and executor are its own, and so are its database and what it says over the bus.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from lab.openstack import extras, templates, wsgi
from lab.openstack.extras import Extra
from lab.openstack.plan import Plan
from lab.openstack.processes import Service

NAME: Final = "mistral"


def _configure(plan: Plan) -> None:
    templates.write(
        plan,
        "mistral.conf",
        _config(plan),
        database=templates.database(plan, NAME),
        token_check=templates.token_check(plan, NAME),
    )


def _tables(plan: Plan) -> list[str]:
    program = [str(extras.python(plan, NAME)), str(wsgi.INSIDE / "manage.py")]
    config = ["--config-file", str(_config(plan))]
    manager = "mistral.db.sqlalchemy.migration.cli"
    return [*program, manager, "--", *config, "upgrade", "head", "--", *config, "populate"]


def _services(plan: Plan) -> list[Service]:
    """Return its API, and what carries workflows out."""
    log = plan.log / "mistral.log"
    program = str(extras.folder(plan, NAME) / "bin" / "mistral-server")
    command = (program, "--config-file", str(_config(plan)), "--server")
    # Its API reads no command line, and looks at home.
    home = {"HOME": str(_config(plan).parent.parent)}
    return [
        extras.served(plan, NAME, "mistral.wsgi", at="workflow", env=home),
        Service(name="mistral-engine", command=(*command, "engine"), log=log),
        Service(name="mistral-executor", command=(*command, "executor"), log=log),
    ]


MISTRAL: Final = Extra(
    name=NAME,
    kind="workflowv2",
    at="workflow",
    path="/v2",
    configure=_configure,
    tables=_tables,
    services=_services,
)


def _config(plan: Plan) -> Path:
    return plan.etc / NAME / ".mistral" / "mistral.conf"
