"""Starts a node's process through `launcher.py`, at most once per operation."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from yaffle.drivers.profiles.local_process.folder import Folder
from yaffle.drivers.profiles.local_process.process_table import NODE, OPERATION, PHYSICAL
from yaffle.drivers.profiles.local_process.record import Record
from yaffle.drivers.profiles.local_process.spec import Spec, expand
from yaffle.model.operations import Target

LOG_KEPT_BYTES: Final = 4 * 1024 * 1024
_LAUNCHER: Final = Path(__file__).with_name("launcher.py")
_INHERITED: Final = ("PATH", "HOME", "LANG")


class LaunchFailed(Exception):
    """The command could not be executed: the message says why. No process remains."""


class LaunchSlow(Exception):
    """The launcher is still on its way, holding the node's lock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Order to the launcher; see its first lines."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    log: str
    note: str
    operation_id: str
    timeout_s: float


def expansions(record: Record, target: Target, folder: Folder) -> Mapping[str, str]:
    """Return what `{name}` stands for in this node's properties."""
    return {
        "port": "" if record.port is None else str(record.port),
        "nodename": target.name,
        "node_id": target.node_id,
        "physical_id": record.physical_id,
        "index": str(target.index),
        "cluster_name": target.cluster_name,
        "node_ip": record.node_ip,
        "state_dir": str(folder.work),
    }


def log_path(spec: Spec, values: Mapping[str, str], folder: Folder) -> Path:
    """Return where the node's output goes."""
    return folder.log if spec.log_file is None else Path(expand(spec.log_file, values))


def draw_up(spec: Spec, record: Record, target: Target, folder: Folder, operation_id: str) -> Order:
    """Fill in the expansions and the markers."""
    values = expansions(record, target, folder)
    marks = {NODE: target.node_id, PHYSICAL: record.physical_id, OPERATION: operation_id}
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    own = {name: expand(text, values) for name, text in spec.env.items()}
    return Order(
        argv=tuple(expand(part, values) for part in spec.command),
        env=marks | inherited | own,
        cwd=str(folder.work) if spec.cwd is None else expand(spec.cwd, values),
        log=str(log_path(spec, values, folder)),
        note=str(folder.launch),
        operation_id=operation_id,
        timeout_s=spec.start_timeout,
    )


def rotate(log: Path) -> None:
    """Keep one older log: a node that restarts for ever must not fill the disk."""
    if _is_long(log):
        log.replace(log.with_name(f"{log.name}.1"))


def cut(log: Path) -> None:
    """Do the same under a process that goes on writing: it appends, to whatever is there.

    What it writes between the copy and the cut is lost, as with logrotate's `copytruncate`.
    """
    if _is_long(log):
        older = log.with_name(f"{log.name}.1")
        older.unlink(missing_ok=True)
        shutil.copyfile(log, older)
        os.truncate(log, 0)


def _is_long(log: Path) -> bool:
    try:
        found = log.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_size > LOG_KEPT_BYTES


def run(order: Order, *, lock: int, wait_s: float) -> None:
    """Run the launcher, which inherits `lock`; raises LaunchFailed or LaunchSlow."""
    marks = {name: order.env[name] for name in (NODE, PHYSICAL, OPERATION)}
    try:
        launcher = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_LAUNCHER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            # Marked from its first moment, so that a successor sees it coming.
            env=marks | {"PATH": os.defpath},
            pass_fds=(lock,),
            # Out of the engine's process group: Ctrl-C in its terminal is not for the node.
            start_new_session=True,
        )
    except OSError as error:
        raise LaunchFailed(f"cannot start the launcher {sys.executable}: {error}") from error
    with launcher:
        try:
            said, _ = launcher.communicate(_encode(order, lock), timeout=wait_s)
        except subprocess.TimeoutExpired:
            # Before it forked, this ends the matter; afterwards the child goes on by itself.
            launcher.kill()
            raise LaunchSlow("the launcher has not come to the command yet") from None
    if said:
        raise LaunchFailed(_explanation(said))


def _encode(order: Order, lock: int) -> bytes:
    return json.dumps(
        {
            "argv": order.argv,
            "env": dict(order.env),
            "cwd": order.cwd,
            "log": order.log,
            "note": order.note,
            "operation_id": order.operation_id,
            "timeout_s": order.timeout_s,
            "lock": lock,
        }
    ).encode()


def _explanation(said: bytes) -> str:
    try:
        return str(json.loads(said)["error"])
    except (ValueError, KeyError, TypeError):
        return f"the launcher failed: {said.decode('utf-8', 'replace').strip()[-500:]}"
