"""Cinder: volumes, which are empty files here. Only where asked for.

API, scheduler and volume service are its own, with a driver of ours that needs no right of root's.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from lab.openstack import extras, templates, wsgi
from lab.openstack.extras import Extra
from lab.openstack.plan import Plan
from lab.openstack.processes import Service

NAME: Final = "cinder"


def _configure(plan: Plan) -> None:
    state = plan.data / NAME
    for name in ("volumes", "slow"):
        (state / name).mkdir(parents=True, exist_ok=True)
    templates.write(
        plan,
        "cinder.conf",
        _config(plan),
        shipped=str(extras.folder(plan, NAME) / "etc" / NAME),
        image_url=plan.url("image"),
        database=templates.database(plan, NAME),
        token_check=templates.token_check(plan, NAME),
        nova=templates.login(plan, "nova", NAME),
        service_user=templates.login(plan, "service_user", NAME),
    )


def _tables(plan: Plan) -> list[str]:
    program = str(extras.folder(plan, NAME) / "bin" / "cinder-manage")
    return [program, "--config-file", str(_config(plan)), "db", "sync"]


def _services(plan: Plan) -> list[Service]:
    """Return its API, what chooses a place for volumes, and what makes them."""
    config = ("--config-file", str(_config(plan)))
    return [
        extras.served(plan, "cinder", "cinder.wsgi.api", at="volume", arguments=config),
        _daemon(plan, "cinder-scheduler", "cinder.cmd.scheduler", config),
        _daemon(plan, "cinder-volume", "cinder.cmd.volume", config),
    ]


def _daemon(plan: Plan, name: str, module: str, config: tuple[str, ...]) -> Service:
    log = plan.log / f"{name}.log"
    program = (str(extras.python(plan, NAME)), str(wsgi.INSIDE / "daemon.py"), module)
    return Service(name=name, command=(*program, *config, "--log-file", str(log)), log=log)


CINDER: Final = Extra(
    name=NAME,
    kind="block-storage",
    at="volume",
    path="/v3",
    configure=_configure,
    tables=_tables,
    services=_services,
)


@contextmanager
def slow(plan: Plan, operation: str, seconds: float) -> Iterator[None]:
    """Let `delete_volume` or `terminate_connection` take so long at most, and no longer than here."""
    lever = plan.data / NAME / "slow" / operation
    # In one step: it may be looked for at any moment.
    draft = lever.with_suffix(".new")
    draft.write_text(f"{seconds:g}")
    draft.replace(lever)
    try:
        yield
    finally:
        lever.unlink()


def _config(plan: Plan) -> Path:
    return plan.etc / NAME / "cinder.conf"
