"""One shape for every command that speaks to a server: --server, --token-file, --json, then its own."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Concatenate, ParamSpec

import typer

from yaffle.cli.output import Output

if TYPE_CHECKING:
    from yaffle.cli.client import Api

P = ParamSpec("P")

Server = Annotated[
    str | None,
    typer.Option(
        "--server",
        envvar="YAFFLE_SERVER",
        metavar="URL",
        help="The server. Default: the one that runs on this machine, else http://127.0.0.1:8777.",
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        metavar="FILE",
        help="File whose first line is the token. Default: the variable YAFFLE_TOKEN.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]

_SHARED = (("server", Server, None), ("token_file", TokenFile, None), ("as_json", Json, False))


def group(text: str) -> typer.Typer:
    """Return an empty group of commands that explains itself when called alone."""
    return typer.Typer(help=text, no_args_is_help=True, rich_markup_mode=None)


def client(
    app: typer.Typer, name: str
) -> Callable[[Callable[Concatenate[Api, Output, P], None]], Callable[..., None]]:
    """Register a function of (api, output, its own parameters) as the command `name`."""

    def register(function: Callable[Concatenate[Api, Output, P], None]) -> Callable[..., None]:
        @functools.wraps(function)
        def run(*args: P.args, **values: P.kwargs) -> None:
            _run(function, dict(values))

        own = list(inspect.signature(function, eval_str=True).parameters.values())[2:]
        shared = [
            inspect.Parameter(
                word, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind
            )
            for word, kind, default in _SHARED
        ]
        kinds = {p.name: p.annotation for p in own} | {word: kind for word, kind, _ in _SHARED}
        del run.__wrapped__
        run.__annotations__ = kinds
        run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own] + shared
        )
        app.command(name)(run)
        return run

    return register


def _run(function: Callable[..., None], values: dict[str, object]) -> None:
    from yaffle.cli.client import Api

    server, token_file = values.pop("server"), values.pop("token_file")
    output = Output(as_json=bool(values.pop("as_json")))
    with Api(
        server if isinstance(server, str) else None,
        token_file if isinstance(token_file, Path) else None,
    ) as api:
        function(api, output, **values)
