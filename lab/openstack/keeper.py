"""A lab for one process, usually a test run: brought up for it, and gone when it is, however it ended."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from lab.openstack import bringup, launch, schemas
from lab.openstack import plan as plans
from lab.openstack.errors import LabError
from lab.openstack.lab import Lab, new
from lab.openstack.packages import provided
from lab.openstack.processes import MARK
from lab.openstack.progress import Progress
from lab.openstack.waiting import until

PREFIX: Final = "yaffle-lab-"
LOOK_S: Final = 0.5
UP_S: Final = 600.0


def state_for(owner: int) -> Path:
    """Return the folder of the lab of a process."""
    name = f"{PREFIX}{os.geteuid()}-{owner}-{launch.ticks_of(owner)}"
    return Path(tempfile.gettempdir()) / name


def begin(owner: int, *, heat: bool = False, extras: Sequence[str] = ()) -> Path:
    """Begin to bring up the lab of a process, unless somebody has; return its folder at once."""
    state = state_for(owner)
    try:
        state.mkdir(mode=0o711)
    except FileExistsError:
        return state
    command = [sys.executable, "-m", "lab.openstack", "keep", "--state", str(state)]
    command += ["--owner", str(owner), "--ticks", str(launch.ticks_of(owner))]
    command += [f"--{name}" for name in (*(["heat"] if heat else []), *extras)]
    with (state / "keeper.log").open("w") as log:
        # Through a process that ends at once, so that the keeper is nobody's child.
        subprocess.run(
            ["setsid", "--fork", *command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=plans.ROOT,
            check=True,
        )
    return state


def ready(state: Path, within_s: float = UP_S) -> Lab:
    """Wait until the lab of a folder is up; raises LabError with the whole story when it fails."""

    def told() -> bool:
        return (state / "up").exists() or (state / "failed").exists() or not state.exists()

    with contextlib.suppress(LabError):
        until("the lab is up", told, within_s)
    if (state / "up").exists():
        return Lab.at(state)
    log = state / "keeper.log"
    story = log.read_text() if log.exists() else "its folder is gone"
    raise LabError(f"the lab of this test run did not come up:\n{story}")


def keep(lab: Lab, *, owner: int, ticks: int) -> None:
    """Bring the lab up, wait for the end of its owner, remove it."""
    sweep()
    state = lab.plan.state
    (state / "owner").write_text(json.dumps([owner, ticks]))
    lab.plan.save()
    working = _bring_up(lab)
    try:
        while _lives(owner, ticks):
            if working.poll() is not None and not (state / "up").exists():
                (state / ("failed" if working.returncode else "up")).touch()
            time.sleep(LOOK_S)
    finally:
        working.kill()
        working.wait()
        lab.remove()


def _bring_up(lab: Lab) -> subprocess.Popen[bytes]:
    """Bring up in a process of its own, so that we notice at once when the owner goes away."""
    plan = lab.plan
    command = [sys.executable, "-m", "lab.openstack", "up", "--state", str(plan.state)]
    command += ["--packages", str(plan.packages), "--cache", str(plan.cache)]
    environment = {**os.environ, MARK: str(plan.state)}
    return subprocess.Popen(command, cwd=plans.ROOT, env=environment)


def sweep() -> None:
    """Remove the labs of owners that have ended without a keeper to notice."""
    for state in Path(tempfile.gettempdir()).glob(f"{PREFIX}{os.geteuid()}-*"):
        *_, owner, ticks = state.name.split("-")
        if _lives(int(owner), int(ticks)):
            continue
        # Another run may be removing it at this moment.
        with contextlib.suppress(LabError):
            Lab.at(state).remove()
        shutil.rmtree(state, ignore_errors=True)


def prepare(*, heat: bool, packages: Path, cache: Path, progress: Progress) -> None:
    """Install packages, and keep an empty cloud unless there is one; both make the next lab quick."""
    with tempfile.TemporaryDirectory(prefix="yaffle-prepare-") as folder:
        lab = new(Path(folder) / "lab", heat=heat, packages=packages, cache=cache)
        if provided(lab.plan) and schemas.is_kept(lab.plan):
            return
        bringup.provide(lab.plan, progress)
        Path(folder).chmod(0o711)
        try:
            bringup.make_empty(lab.plan, lab.processes, lab.api, progress)
        finally:
            lab.close()
            lab.remove()


def _lives(pid: int, ticks: int) -> bool:
    try:
        return launch.ticks_of(pid) == ticks
    except OSError:
        return False
