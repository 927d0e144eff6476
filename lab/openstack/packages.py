"""What the lab's cloud is made of: two Debian packages, and OpenStack from PyPI."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from lab.openstack.errors import LabError, last_lines
from lab.openstack.plan import HERE, ROOT, Plan

LOCK: Final = HERE / "requirements.lock"
RABBITMQ: Final = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
INSTALL_S: Final = 900.0
# An interpreter built without optimisation takes three times as long to import Nova; Debian's is not.
SYSTEM_PYTHON: Final = Path("/usr/bin/python3")
_FIT: Final = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))"


def postgresql() -> Path | None:
    """Return the folder of the newest PostgreSQL server's programs."""
    found = [p.parent for p in Path("/usr/lib/postgresql").glob("*/bin/postgres")]
    found += [
        p for p in (Path("/usr/local/pgsql/bin"), Path("/usr/bin")) if (p / "postgres").exists()
    ]
    return max(found, key=lambda p: [int(x) for x in p.parts if x.isdigit()], default=None)


def missing_programs() -> list[str]:
    """Return the Debian packages that are not there and that no cloud runs without."""
    wanted = []
    if postgresql() is None:
        wanted.append("postgresql")
    if not RABBITMQ.exists():
        wanted.append("rabbitmq-server")
    return wanted


def provide_programs() -> None:
    """Install the database's and the bus's server where we may; say what to do where we may not."""
    wanted = missing_programs()
    if wanted and os.geteuid() == 0 and shutil.which("apt-get"):
        subprocess.run(["sh", str(ROOT / ".ci" / "apt-install"), *wanted], check=False)
        wanted = missing_programs()
    if wanted:
        raise LabError(f"the lab needs programs; as root: apt-get install {' '.join(wanted)}")


def provide(plan: Plan) -> None:
    """Make the cloud's Python environment hold what the lock says; at once if it already does."""
    install(plan.packages, LOCK)


def install(folder: Path, lock: Path) -> None:
    """Make a Python environment hold what a lock says; at once if it already does."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _alone(folder.with_suffix(".lock")):
        if not installed(folder, lock):
            _make(folder, lock)
            (folder / "made-of").write_text(_made_of(folder, lock))


def provided(plan: Plan) -> bool:
    """Say whether programs and Python environment are as they should be."""
    return installed(plan.packages, LOCK) and not missing_programs()


def installed(folder: Path, lock: Path) -> bool:
    """Say whether a Python environment holds what a lock says."""
    mark = folder / "made-of"
    return mark.exists() and mark.read_text() == _made_of(folder, lock)


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _made_of(folder: Path, lock: Path) -> str:
    """An environment keeps absolute paths, so one that was copied elsewhere is not the same."""
    return f"{hashlib.sha256(lock.read_bytes()).hexdigest()} {folder}\n"


def _make(folder: Path, lock: Path) -> None:
    log = folder.with_suffix(".log")
    log.write_text("")
    _run([_interpreter(), "-m", "venv", "--clear", str(folder)], log)
    python = str(folder / "bin" / "python")
    pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    # uv is faster by a minute; where it is not to be had, pip does the same.
    if _ran([*pip, "uv"], log):
        uv = [python, "-m", "uv", "pip", "install", "--quiet", "--python", python, "--no-config"]
        if _ran([*uv, "--compile-bytecode", "--require-hashes", "-r", str(lock)], log):
            return
    _run([*pip, "--require-hashes", "-r", str(lock)], log)


def _interpreter() -> str:
    if SYSTEM_PYTHON.exists() and _ran([str(SYSTEM_PYTHON), "-c", _FIT], Path(os.devnull)):
        return str(SYSTEM_PYTHON)
    return sys.executable


def _ran(command: list[str], log: Path) -> bool:
    with log.open("a") as out:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            timeout=INSTALL_S,
            check=False,
        )
    return done.returncode == 0


def _run(command: list[str], log: Path) -> None:
    if not _ran(command, log):
        raise LabError(f"{' '.join(command)} failed; {log} ends with\n{last_lines(log)}")


def resolve(wishes: Path, lock: Path) -> None:
    """Write a lock again from what is wished for; versions that are locked stay where they can."""
    uv = shutil.which("uv") or str(ROOT / ".venv" / "uv" / "bin" / "uv")
    subprocess.run(
        [
            uv, "pip", "compile", "--universal", "--python-version", "3.11", "--generate-hashes",
            "--no-config", "--quiet", "--no-emit-index-url", "--no-annotate", "--no-header",
            str(wishes), "-o", str(lock),
        ],
        check=True,
    )  # fmt: skip
