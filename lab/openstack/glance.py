"""Glance: images, which are a few bytes here."""

from __future__ import annotations

from typing import Final

from lab.openstack import templates, wsgi
from lab.openstack.plan import Plan
from lab.openstack.processes import Service

DATABASES: Final = ("glance",)


def configure(plan: Plan) -> None:
    """Write its configuration."""
    folder = plan.etc / "glance"
    templates.write(
        plan,
        "glance-api.conf",
        folder / "glance-api.conf",
        database=templates.database(plan, "glance"),
        token_check=templates.token_check(plan, "glance"),
    )
    templates.copy_shipped(plan, "glance/glance-api-paste.ini", to=folder)
    for name in ("images", "staging", "tasks"):
        (plan.data / "glance" / name).mkdir(parents=True, exist_ok=True)


def schema(plan: Plan) -> list[str]:
    """Return the command that makes its tables."""
    config = str(plan.etc / "glance" / "glance-api.conf")
    return ["glance.cmd.manage", "--", "--config-file", config, "db_sync"]


def services(plan: Plan) -> list[Service]:
    """Return its API."""
    env = {"OS_GLANCE_CONFIG_DIR": str(plan.etc / "glance")}
    log = plan.log / "glance.log"
    return [wsgi.service(plan, "glance", "glance.wsgi.api", at="image", env=env, log=log)]
