"""Heat: stacks. Only in labs that ask for it."""

from __future__ import annotations

from typing import Final

from lab.openstack import templates, wsgi
from lab.openstack.plan import Plan
from lab.openstack.processes import Service

DATABASES: Final = ("heat",)


def configure(plan: Plan) -> None:
    """Write its configuration."""
    folder = plan.etc / "heat"
    templates.write(
        plan,
        "heat.conf",
        folder / "heat.conf",
        heat_url=plan.url("orchestration"),
        identity_url=plan.url("identity"),
        database=templates.database(plan, "heat"),
        token_check=templates.token_check(plan, "heat"),
    )
    shipped = ("heat/api-paste.ini", "heat/environment.d", "heat/templates")
    templates.copy_shipped(plan, *shipped, to=folder)


def schema(plan: Plan) -> list[str]:
    """Return the command that makes its tables."""
    return ["heat.cmd.manage", "--", *_config(plan), "db_sync"]


def services(plan: Plan) -> list[Service]:
    """Return engine and API."""
    log = plan.log / "heat-engine.log"
    program = (str(plan.python), str(wsgi.INSIDE / "daemon.py"), "heat.cmd.engine")
    engine = (*program, *_config(plan), "--log-file", str(log))
    return [
        Service(name="heat-engine", command=engine, log=log),
        wsgi.service(
            plan,
            "heat-api",
            "heat.wsgi.api",
            at="orchestration",
            arguments=_config(plan),
            log=plan.log / "heat.log",
        ),
    ]


def _config(plan: Plan) -> list[str]:
    return ["--config-file", str(plan.etc / "heat" / "heat.conf")]
