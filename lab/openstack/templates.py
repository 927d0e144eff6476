"""Writes the services' configuration from templates that look like the files they become."""

from __future__ import annotations

import shutil
from pathlib import Path
from string import Template
from typing import Final

from lab.openstack.errors import LabError
from lab.openstack.plan import HERE, Plan

FOLDER: Final = HERE / "templates"
ADMIN_PASSWORD: Final = "lab-admin"
SERVICE_PASSWORD: Final = "lab-service"
REGION: Final = "RegionOne"
DATABASE_USER: Final = "lab"


def write(plan: Plan, template: str, target: Path, **values: str) -> None:
    """Fill in a template and write it to `target`."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(render(plan, template, **values))


def render(plan: Plan, template: str, **values: str) -> str:
    """Fill in a template; what every service needs is known here, `values` is what this one adds."""
    known = {
        "log": plan.log,
        "data": plan.data,
        "etc": plan.etc,
        "auth_url": plan.auth_url,
        "bus_url": plan.bus_url,
        "region": REGION,
        "password": SERVICE_PASSWORD,
    }
    return Template((FOLDER / template).read_text()).substitute(known, **values)


def login(plan: Plan, section: str, user: str) -> str:
    """Return the section with which one service logs in to Keystone as `user`."""
    return render(plan, "login.conf", section=section, user=user)


def token_check(plan: Plan, user: str) -> str:
    """Return the section with which a service checks the tokens that it is given."""
    own = render(plan, "token-check.conf")
    return login(plan, "keystone_authtoken", user) + own


def database(plan: Plan, name: str, section: str = "database") -> str:
    """Return the section that names a service's database."""
    return render(plan, "database.conf", section=section, url=database_url(plan, name))


def database_url(plan: Plan, name: str) -> str:
    """Return a database's URL; its socket is in a folder that only we and the server may enter."""
    return f"postgresql+psycopg2://{DATABASE_USER}@/{name}?host={socket_folder(plan)}"


def socket_folder(plan: Plan) -> Path:
    """Return where PostgreSQL listens."""
    return plan.data / "socket"


def copy_shipped(plan: Plan, *paths: str, to: Path) -> None:
    """Copy what a package ships below `etc/` of its environment: pipelines, templates."""
    to.mkdir(parents=True, exist_ok=True)
    for path in paths:
        source = plan.packages / "etc" / path
        if source.is_dir():
            shutil.copytree(source, to / source.name, dirs_exist_ok=True)
        elif source.exists():
            shutil.copy(source, to)
        else:
            raise LabError(f"{source} is missing: remove {plan.packages} and start again")
