"""Which program is this very Python: a helper of another version could not read what we write.

`sys.executable` is uwsgi where uwsgi embeds Python, and empty elsewhere. So a program is taken only
if its name, or that of the file behind it, is this version's, or if this process runs that file.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator
from typing import Final

from yaffle_health.errors import BadOption

_PYTHON: Final = re.compile(r"(python|pypy)[0-9.]*[a-z]*")
_SELF: Final = "/proc/self/exe"


def find() -> str:
    """The absolute path of the interpreter; BadOption where there is none of this version."""
    found = chosen(candidates(), _name())
    if found is None:
        why = (
            f"no program {_name()} was found in {sys.prefix}/bin or {sys.base_prefix}/bin to show the "
            f"health with: install it there, or leave this option out"
        )
        raise BadOption("apart", True, why)
    return found


def candidates() -> Iterator[str]:
    """Where it may be, the likeliest first."""
    yield getattr(sys, "_base_executable", None) or ""
    yield sys.executable or ""
    for prefix in dict.fromkeys((sys.base_exec_prefix, sys.base_prefix, sys.prefix)):
        for name in (_name(), f"python{sys.version_info.major}", "python"):
            yield f"{prefix}/bin/{name}"


def chosen(paths: Iterable[str], name: str, running: str = _SELF) -> str | None:
    """The first that is an interpreter of that name, or the one that this process runs."""
    for path in paths:
        if path and os.access(path, os.X_OK) and os.path.isfile(path):  # noqa: PTH113 - no pathlib in the host
            own, behind = os.path.basename(path), os.path.basename(os.path.realpath(path))  # noqa: PTH119
            if name in (own, behind) or (_PYTHON.fullmatch(own) and _same(path, running)):
                return os.path.abspath(path)  # noqa: PTH100
    return None


def _same(path: str, other: str) -> bool:
    try:
        return os.path.samefile(path, other)  # noqa: PTH121
    except OSError:
        return False


def _name() -> str:
    program = "pypy" if sys.implementation.name == "pypy" else "python"
    return (
        f"{program}{sys.version_info.major}.{sys.version_info.minor}{getattr(sys, 'abiflags', '')}"
    )
