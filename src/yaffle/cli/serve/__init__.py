"""`yaffle serve`: API and engine in one process on the embedded database."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from yaffle.cli import settings
from yaffle.cli.settings import Config, Database, StateDir


def serve(
    config: Config = None,
    listen: Annotated[
        str | None,
        typer.Option("--listen", metavar="HOST:PORT", help="Default: 127.0.0.1:8777."),
    ] = None,
    database: Database = None,
    state_dir: StateDir = None,
    token_file: Annotated[
        Path | None,
        typer.Option("--token-file", metavar="FILE", help="Tokens of those who may ask."),
    ] = None,
    users_file: Annotated[
        Path | None,
        typer.Option(
            "--users-file",
            metavar="FILE",
            help="Names and hashed passwords of those who may ask; `yaffle user` writes it.",
        ),
    ] = None,
    *,
    allow_local_process: Annotated[
        bool,
        typer.Option(
            "--allow-local-process",
            help="Allow nodes that are processes of this machine: whoever may create their profiles"
            " (admins; without credentials everybody) may then run commands as this user.",
        ),
    ] = False,
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
    from yaffle.cli.serve import logs, process

    logs.configure(found.log.level, found.log.format)
    process.run(found)
