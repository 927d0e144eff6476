"""The empty cloud: tables, keys, users, catalog. Half a minute of work, so it is kept."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from lab.openstack import database, glance, heat, keystone, nova, placement
from lab.openstack.errors import LabError, last_lines
from lab.openstack.packages import LOCK, postgresql
from lab.openstack.plan import HERE, Plan
from lab.openstack.processes import Processes
from lab.openstack.wsgi import INSIDE

SCHEMA_S: Final = 600.0
Commands = Callable[[Plan], list[str]]
# Those that take longest first; two at a time.
PARTS: Final[dict[str, tuple[Commands, tuple[str, ...]]]] = {
    "nova": (nova.schema, nova.DATABASES),
    "keystone": (keystone.schema, keystone.DATABASES),
    "glance": (glance.schema, glance.DATABASES),
    "heat": (heat.schema, heat.DATABASES),
    "placement": (placement.schema, placement.DATABASES),
}
_KEPT: Final = ("postgresql", "keystone")


def is_kept(plan: Plan) -> bool:
    """Say whether there is an empty cloud for such a lab."""
    kept = _kept(plan)
    return kept is not None and kept.exists()


def restore(plan: Plan) -> bool:
    """Put the kept empty cloud into a new lab; say whether there was one."""
    kept = _kept(plan)
    if kept is None or not kept.exists() or (plan.done / "schemas").exists():
        return False
    for name in _KEPT:
        shutil.rmtree(plan.data / name, ignore_errors=True)
        _copy(kept / name, plan.data / name)
    (plan.done / "schemas").touch()
    return True


def make(plan: Plan, processes: Processes) -> None:
    """Fill a new database server, and leave it running."""
    database.make(plan)
    database.start(plan, processes)
    parts = {name: part for name, part in PARTS.items() if plan.heat or name != "heat"}
    with ThreadPoolExecutor(max_workers=2) as pool:
        for result in [pool.submit(_fill, plan, processes, name) for name in parts]:
            result.result()
    (plan.done / "schemas").touch()


def _fill(plan: Plan, processes: Processes, name: str) -> None:
    commands, databases = PARTS[name]
    database.renew(plan, databases)
    fill(plan, processes, name, [str(plan.python), str(INSIDE / "manage.py"), *commands(plan)])


def fill(plan: Plan, processes: Processes, name: str, command: Sequence[str]) -> None:
    """Run what makes a service's tables; raises LabError with its last words."""
    log = plan.log / f"schema-{name}.out"
    with log.open("w") as out:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env=processes.environment({}),
            timeout=SCHEMA_S,
            check=False,
        )
    if done.returncode:
        raise LabError(f"the tables of {name} cannot be made; {log} ends with\n{last_lines(log)}")


def keep(plan: Plan, processes: Processes) -> None:
    """Keep a copy for the next lab, where the plan says so and unless there is one."""
    kept = _kept(plan)
    if kept is None or kept.exists():
        return
    kept.parent.mkdir(parents=True, exist_ok=True)
    # A copy of a server that runs is not one that can be started.
    processes.stop([database.service(plan)])
    draft = Path(tempfile.mkdtemp(dir=kept.parent))
    try:
        for name in _KEPT:
            _copy(plan.data / name, draft / name)
        draft.rename(kept)
    except OSError:
        # Another lab was faster; ours is no better.
        shutil.rmtree(draft, ignore_errors=True)
    database.start(plan, processes)


def _copy(source: Path, target: Path) -> None:
    """Copy a folder with its owners, which shutil does not."""
    subprocess.run(["cp", "-a", "--reflink=auto", str(source), str(target)], check=True)


def _kept(plan: Plan) -> Path | None:
    if plan.cache is None:
        return None
    parts = [
        LOCK,
        *sorted(HERE / f"{name}.py" for name in ("database", "schemas", "catalog", *PARTS)),
    ]
    key = hashlib.sha256(b"".join(path.read_bytes() for path in parts))
    key.update(f"{plan.heat} {postgresql()} {os.geteuid()}".encode())
    return plan.cache / f"empty-{key.hexdigest()[:16]}"
