"""The flags that change settings, shared by the commands that read the configuration themselves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from yaffle.config import Settings

Config = Annotated[
    Path | None,
    typer.Option(
        "--config", envvar="YAFFLE_CONFIG", metavar="FILE", help="Settings, as TOML; see the docs."
    ),
]
Database = Annotated[
    str | None,
    typer.Option("--database", metavar="URL", help="e.g. sqlite:////var/lib/yaffle/yaffle.db"),
]
StateDir = Annotated[
    Path | None,
    typer.Option("--state-dir", metavar="DIR", help="Database, node records, workflow jobs."),
]


def load(
    config: Path | None,
    *,
    database: str | None = None,
    state_dir: Path | None = None,
    listen: str | None = None,
    engine_listen: str | None = None,
    allow_local_process: bool = False,
    token_file: Path | None = None,
    users_file: Path | None = None,
) -> Settings:
    """Return the settings: file, then environment, then these flags; raise ConfigError."""
    from yaffle.config import load as load_file

    server = {"listen": listen, "token_file": token_file, "users_file": users_file}
    flags: dict[str, object] = {
        "state_dir": state_dir,
        "server": {key: value for key, value in server.items() if value is not None} or None,
        "database": None if database is None else {"url": database},
        "engine": None if engine_listen is None else {"listen": engine_listen},
        "local_process": {"enabled": True} if allow_local_process else None,
    }
    return load_file(config, {key: value for key, value in flags.items() if value is not None})
