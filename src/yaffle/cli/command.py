"""Shape of every command that speaks to a server: its own options, --server, --token-file, --json."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, ParamSpec

import typer

from yaffle.cli.client.waiting import TIMEOUT_S, NoWait, Timeout
from yaffle.cli.output import Output

if TYPE_CHECKING:
    from yaffle.cli.client.action_progress import Work
    from yaffle.cli.client.native import Api, Row

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
OsCloud = Annotated[
    str | None,
    typer.Option(
        "--os-cloud",
        envvar="YAFFLE_OS_CLOUD",
        metavar="NAME",
        help="Cloud of clouds.yaml: its Keystone says who you are, and where the server is.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Limit = Annotated[int | None, typer.Option("--limit", min=1, help="At most so many. Default: all.")]
Marker = Annotated[
    str | None,
    typer.Option("--marker", metavar="ID", help="Only what comes after the object with this id."),
]
Sort = Annotated[
    str | None,
    typer.Option(
        "--sort",
        metavar="KEY[:desc]",
        help="By name, created_at, …; several with commas. Default: the oldest first.",
    ),
]
AllProjects = Annotated[
    bool, typer.Option("--all-projects", help="Of every project, for administrators.")
]

_Option = tuple[str, object, object]
_SHARED: tuple[_Option, ...] = (
    ("server", Server, None),
    ("token_file", TokenFile, None),
    ("os_cloud", OsCloud, None),
    ("as_json", Json, False),
)
_LISTS: tuple[_Option, ...] = (
    ("limit", Limit, None),
    ("marker", Marker, None),
    ("sort", Sort, None),
    ("all_projects", AllProjects, False),
)


_WAITS: tuple[_Option, ...] = (("no_wait", NoWait, False), ("timeout", Timeout, TIMEOUT_S))


def group(text: str) -> typer.Typer:
    """Return an empty group of commands that explains itself when called alone."""
    return typer.Typer(help=text, no_args_is_help=True, rich_markup_mode=None)


def client(
    app: typer.Typer, name: str
) -> Callable[[Callable[Concatenate[Api, Output, P], None]], Callable[..., None]]:
    """Register a function of (api, output, its own parameters) as the command `name`."""

    def register(function: Callable[Concatenate[Api, Output, P], None]) -> Callable[..., None]:
        run = _shaped(function, 2, _SHARED)
        app.command(name)(run)
        return run

    return register


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Part of a list that is wanted, and its order."""

    limit: int | None
    marker: str | None
    sort: str | None
    all_projects: bool

    def of(self, api: Api, noun: str, **filters: object) -> list[Row]:
        """Return it; filters that are None are left out, and lists mean "any of these"."""
        order = {"sort": self.sort, "global_project": "true" if self.all_projects else None}
        return api.v1.listed(noun, {**filters, **order}, limit=self.limit, marker=self.marker)


def listing(
    app: typer.Typer, name: str
) -> Callable[[Callable[Concatenate[Api, Output, Part, P], None]], Callable[..., None]]:
    """Register a function of (api, output, part, its own parameters), which lists something."""

    def register(
        function: Callable[Concatenate[Api, Output, Part, P], None],
    ) -> Callable[..., None]:
        @functools.wraps(function)
        def parted(api: Api, output: Output, **values: Any) -> None:
            part = Part(**{word: values.pop(word) for word, _, _ in _LISTS})
            function(api, output, part, **values)  # type: ignore[call-arg]

        run = _shaped(parted, 3, (*_LISTS, *_SHARED))
        app.command(name)(run)
        return run

    return register


def working(
    app: typer.Typer, name: str
) -> Callable[[Callable[Concatenate[Work, P], None]], Callable[..., None]]:
    """Register a function of (work, its own parameters), which begins something long."""

    def register(
        function: Callable[Concatenate[Work, P], None],
    ) -> Callable[..., None]:
        @functools.wraps(function)
        def begun(api: Api, output: Output, **values: Any) -> None:
            from yaffle.cli.client.action_progress import Work

            no_wait, timeout_s = values.pop("no_wait"), values.pop("timeout")
            work = Work(api=api, output=output, no_wait=no_wait, timeout_s=timeout_s)
            function(work, **values)  # type: ignore[call-arg]

        run = _shaped(begun, 1, (*_WAITS, *_SHARED))
        app.command(name)(run)
        return run

    return register


def _shaped(
    function: Callable[..., None], ours: int, shared: Sequence[_Option]
) -> Callable[..., None]:
    """Return what typer calls: its parameters but the first `ours`, and those that are shared."""

    @functools.wraps(function)
    def run(**values: object) -> None:
        _run(function, values)

    own = list(inspect.signature(function, eval_str=True).parameters.values())[ours:]
    more = [
        inspect.Parameter(word, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for word, kind, default in shared
    ]
    del run.__wrapped__
    run.__annotations__ = {p.name: p.annotation for p in (*own, *more)}
    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own] + more
    )
    return run


def _run(function: Callable[..., None], values: dict[str, object]) -> None:
    from yaffle.cli.client.native import Api

    server, token_file = values.pop("server"), values.pop("token_file")
    os_cloud = values.pop("os_cloud")
    output = Output(as_json=bool(values.pop("as_json")))
    with Api(
        server if isinstance(server, str) else None,
        token_file if isinstance(token_file, Path) else None,
        os_cloud=os_cloud if isinstance(os_cloud, str) else None,
    ) as api:
        function(api, output, **values)
