"""Placement: which host has room."""

from __future__ import annotations

from typing import Final

from lab.openstack import templates, wsgi
from lab.openstack.plan import Plan
from lab.openstack.processes import Service

DATABASES: Final = ("placement",)


def configure(plan: Plan) -> None:
    """Write its configuration."""
    templates.write(
        plan,
        "placement.conf",
        plan.etc / "placement" / "placement.conf",
        database_url=templates.database_url(plan, "placement"),
        token_check=templates.token_check(plan, "placement"),
    )


def schema(plan: Plan) -> list[str]:
    """Return the command that makes its tables."""
    config = str(plan.etc / "placement" / "placement.conf")
    return ["placement.cmd.manage", "--", "--config-file", config, "db", "sync"]


def services(plan: Plan) -> list[Service]:
    """Return its API."""
    env = {"OS_PLACEMENT_CONFIG_DIR": str(plan.etc / "placement")}
    log = plan.log / "placement.log"
    return [wsgi.service(plan, "placement", "placement.wsgi.api", at="placement", env=env, log=log)]
