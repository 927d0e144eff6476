"""Keystone: who may do what. It is the first to be asked and so the first to be there."""

from __future__ import annotations

import os
import pwd
from typing import Final

from lab.openstack import templates, wsgi
from lab.openstack.plan import Plan
from lab.openstack.processes import Service

DATABASES: Final = ("keystone",)


def configure(plan: Plan) -> None:
    """Write its configuration, and make the folders for its keys."""
    target = plan.etc / "keystone" / "keystone.conf"
    templates.write(plan, "keystone.conf", target, database=templates.database(plan, "keystone"))
    for keys in ("tokens", "credentials"):
        (plan.data / "keystone" / keys).mkdir(mode=0o700, parents=True, exist_ok=True)


def schema(plan: Plan) -> list[str]:
    """Return the commands that fill its database: tables, keys and the first administrator."""
    config = ["--config-file", str(plan.etc / "keystone" / "keystone.conf")]
    me = pwd.getpwuid(os.geteuid()).pw_name
    owner = ["--keystone-user", me, "--keystone-group", str(os.getegid())]
    words = ["keystone.cmd.manage"]
    for command in (
        ["db_sync"],
        ["fernet_setup", *(owner if os.geteuid() == 0 else [])],
        ["credential_setup", *(owner if os.geteuid() == 0 else [])],
        [
            "bootstrap", "--bootstrap-password", templates.ADMIN_PASSWORD,
            "--bootstrap-region-id", templates.REGION,
        ],
    ):  # fmt: skip
        words += ["--", *config, *command]
    return words


def services(plan: Plan) -> list[Service]:
    """Return its API."""
    env = {"OS_KEYSTONE_CONFIG_DIR": str(plan.etc / "keystone")}
    log = plan.log / "keystone.log"
    module = "keystone.wsgi.api"
    return [wsgi.service(plan, "keystone", module, at="identity", threads=6, env=env, log=log)]
