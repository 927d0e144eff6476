"""How the lab serves an OpenStack API: its WSGI application in a process with a handful of threads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from lab.openstack.plan import HERE, Plan
from lab.openstack.processes import Service

INSIDE: Final = HERE / "inside"
"""Programs that run on the cloud's Python, not on ours."""


def service(
    plan: Plan,
    name: str,
    module: str,
    *,
    at: str,
    threads: int = 4,
    env: Mapping[str, str] | None = None,
    arguments: Sequence[str] = (),
    log: Path | None = None,
) -> Service:
    """Return the process that serves `module:application` on the port of catalog type `at`."""
    port = str(getattr(plan.ports, at))
    program = (str(plan.python), str(INSIDE / "serve.py"), module, port, str(threads))
    return Service(
        name=name,
        command=(*program, *arguments),
        env=env or {},
        answers=f"{plan.url(at)}/",
        log=log,
    )
