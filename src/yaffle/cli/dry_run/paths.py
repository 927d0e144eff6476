"""Place of what a watch knows: a database of its own for each cloud, beside nobody's."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from yaffle.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Mapping

    from yaffle.config import Settings


def default(cloud: str, environ: Mapping[str, str] = os.environ) -> Path:
    """Return the database for a cloud of that name."""
    home = environ.get("XDG_STATE_HOME") or "~/.local/state"
    called = re.sub(r"[^0-9A-Za-z._-]", "_", cloud)
    return Path(home).expanduser() / "yaffle" / f"watch-{called}.db"


def settings(database: Path) -> Settings:
    """Return what the engine is told; nothing of the environment, which is a server's."""
    from yaffle.config.sections import DatabaseSettings
    from yaffle.config.settings import Merged

    path = database.expanduser().absolute()
    return Merged(
        state_dir=path.parent,
        database=DatabaseSettings(url=f"sqlite:///{path}"),
        notifiers={},
        alerts={},
        host_monitors={},
        drivers={},
    )


def existing(database: Path, cloud: str) -> Path:
    """Return the database; raise NotFound where nothing has been watched yet."""
    path = database.expanduser().absolute()
    if not path.is_file():
        raise NotFound(
            f"cloud {cloud}: nothing has been watched yet, there is no {path}",
            hint=f"begin with `yaffle watch --cloud {cloud}`",
        )
    return path
