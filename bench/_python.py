"""Runs a bench on the distribution's Python, so that figures from different machines are of one kind.

A Python built by hand or by a version manager may be built without optimisations; what people run in
production is mostly /usr/bin/python3. YAFFLE_BENCH_PYTHON names another one, `same` keeps this one.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import yaffle
import yaffle_health

ROOT = Path(__file__).resolve().parent.parent
_CHOSEN = "YAFFLE_BENCH_PYTHON"
_ABI = "import sys, sysconfig; print(sysconfig.get_config_var('SOABI'), sys.version_info[:2] >= (3, 11))"


def system_python() -> None:
    """Start this script again on /usr/bin/python3, unless that is where it runs, or cannot."""
    chosen = os.environ.get(_CHOSEN, "/usr/bin/python3")
    if chosen in {"same", sys.executable} or os.environ.get("_YAFFLE_BENCH_STARTED"):
        return
    theirs = _asked(chosen)
    if not theirs.endswith("True"):
        print(f"{chosen} is no Python 3.11 or newer: measured on {sys.executable} instead")
        return
    source = str(Path(yaffle.__file__).resolve().parent.parent)
    # Installed editable, both are reached by path files, which only an environment's own Python reads.
    path = [source, str(Path(yaffle_health.__file__).resolve().parent.parent)]
    if theirs == _asked(sys.executable):
        # The same ABI: what is installed for this interpreter serves the other.
        path += [place for place in sys.path if place.endswith("-packages") and place not in path]
    else:
        chosen = _own_environment(chosen)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path), "_YAFFLE_BENCH_STARTED": "1"}
    sys.stdout.flush()
    os.execve(chosen, [chosen, *sys.argv], environment)


def _asked(python: str) -> str:
    try:
        return subprocess.check_output([python, "-c", _ABI], text=True).strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def _own_environment(python: str) -> str:
    """A virtual environment of that Python with what the lock file says; made once."""
    place = ROOT / ".venv" / "bench"
    made = place / "bin" / "python"
    if not made.exists():
        print(f"making {place} ...", flush=True)
        subprocess.check_call([python, "-m", "venv", place])
        lock = ROOT / "requirements.lock"
        subprocess.check_call([made, "-m", "pip", "install", "-q", "-r", lock])
    return str(made)


def described() -> str:
    """The interpreter, its build and the machine, in one line."""
    os_name = platform.freedesktop_os_release().get("PRETTY_NAME", "")
    compiler = platform.python_compiler()
    load = os.getloadavg()[0]
    return (
        f"Python {platform.python_version()} ({os.path.realpath(sys.executable)}, {compiler}), "
        f"{os_name}, Linux {platform.release()}, {os.cpu_count()} cores, load {load:.1f}"
    )
