"""`yaffle serve` is an engine with its API beside it; `yaffle api` and `yaffle engine` are one alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from yaffle.cli import settings
from yaffle.cli.settings import Config, Database, StateDir

if TYPE_CHECKING:
    from yaffle.config import Settings

Listen = Annotated[
    str | None,
    typer.Option("--listen", metavar="HOST:PORT", help="Default: 127.0.0.1:8777."),
]
EngineListen = Annotated[
    str | None,
    typer.Option(
        "--listen",
        metavar="HOST:PORT",
        help="Where /health and /metrics are, or `off`. Default: 127.0.0.1:8778.",
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option("--token-file", metavar="FILE", help="Tokens of those who may ask."),
]
UsersFile = Annotated[
    Path | None,
    typer.Option(
        "--users-file",
        metavar="FILE",
        help="Names and hashed passwords of those who may ask; `yaffle user` writes it.",
    ),
]
LocalProcess = Annotated[
    bool,
    typer.Option(
        "--allow-local-process",
        help="Allow nodes that are processes of this machine: whoever may create their profiles"
        " (admins; without credentials everybody) may then run commands as this user.",
    ),
]


def serve(
    config: Config = None,
    listen: Listen = None,
    database: Database = None,
    state_dir: StateDir = None,
    token_file: TokenFile = None,
    users_file: UsersFile = None,
    *,
    allow_local_process: LocalProcess = False,
) -> None:
    """Watch and heal until SIGTERM or Ctrl-C; the nodes keep running.

    Settings come from the file, then the environment (YAFFLE_…), then these flags.
    """
    found = settings.load(
        config,
        listen=listen,
        database=database,
        state_dir=state_dir,
        token_file=token_file,
        users_file=users_file,
        allow_local_process=allow_local_process,
    )
    _live(found, "SERVE")


def engine(
    config: Config = None,
    listen: EngineListen = None,
    database: Database = None,
    state_dir: StateDir = None,
    token_file: TokenFile = None,
    users_file: UsersFile = None,
    *,
    allow_local_process: LocalProcess = False,
) -> None:
    """Watch and heal without an API, as one of many engines on a PostgreSQL or MariaDB server.

    It starts, and stays, while the database is away. Settings are read as `yaffle serve` reads them.
    """
    found = settings.load(
        config,
        engine_listen=listen,
        database=database,
        state_dir=state_dir,
        token_file=token_file,
        users_file=users_file,
        allow_local_process=allow_local_process,
    )
    _live(found, "ENGINE")


def api(
    config: Config = None,
    listen: Listen = None,
    database: Database = None,
    state_dir: StateDir = None,
    token_file: TokenFile = None,
    users_file: UsersFile = None,
    *,
    allow_local_process: LocalProcess = False,
) -> None:
    """Answer requests without an engine, as one of many on a PostgreSQL or MariaDB server.

    What is asked for is done by the engines. While the database is away, it answers 503.
    """
    found = settings.load(
        config,
        listen=listen,
        database=database,
        state_dir=state_dir,
        token_file=token_file,
        users_file=users_file,
        allow_local_process=allow_local_process,
    )
    _live(found, "API")


def _live(found: Settings, role: str) -> None:
    from yaffle.cli.serve import logs, process

    logs.configure(found.log.level, found.log.format)
    process.run(found, process.Role[role])
