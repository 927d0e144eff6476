"""Where the official clients live: in a Python environment of their own, for they need an old osc-lib.

`python -m tests.openstack.clients.environment` makes it; with `lock`, resolves its lock again.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from lab.openstack import packages
from lab.openstack.errors import LabError
from lab.openstack.plan import ROOT

HERE: Final = Path(__file__).resolve().parent
WISHES: Final = HERE / "requirements.in"
LOCK: Final = HERE / "requirements.lock"
FOLDER: Final = ROOT / ".venv" / "openstack-clients"


def provide() -> Path:
    """Return its interpreter, installed if need be; raises LabError with pip's last words."""
    packages.install(FOLDER, LOCK)
    return FOLDER / "bin" / "python"


def main(words: list[str]) -> int:
    """Install, or lock; say what is wrong in one line."""
    if words == ["lock"]:
        packages.resolve(WISHES, LOCK)
        return 0
    try:
        provide()
    except LabError as error:
        print(f"the official clients cannot be installed: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
