"""The tree of commands: a table of the first words.

Only the modules of the word that was typed are imported, and those import what is heavy when they
run: `yaffle status` shall cost no more than it has to. Help, completion and a mistyped word get all.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Annotated, Final, NamedTuple

import typer
import typer.main

from yaffle import __version__
from yaffle.cli.command import client


class Entry(NamedTuple):
    """A first word of the command line: a command, or a group of commands."""

    word: str
    place: str
    """`module:name` of a function or of a group, below `yaffle.cli`."""
    more: tuple[str, ...] = ()
    """Modules that register their commands with the same group, in the order of the help."""
    asks: bool = False
    """Whether it is a function of (api, output, …), which asks a server."""
    hidden: bool = False
    passes: bool = False
    """Whether all that follows it is for another program."""


ENTRIES: Final = (
    Entry("demo", "demo:demo"),
    Entry("serve", "serve:serve"),
    Entry("watch", "commands.watch:watch"),
    Entry("engine", "serve:engine"),
    Entry("api", "serve:api"),
    Entry("status", "commands.status:status", asks=True),
    Entry("why", "commands.nodes:why", asks=True),
    Entry("explain", "commands.runbook:explain"),
    Entry("profile", "commands.profiles:app"),
    Entry("profile-type", "commands.document_types:profile_types"),
    Entry("policy", "commands.policies:app"),
    Entry("policy-type", "commands.document_types:policy_types"),
    Entry(
        "cluster",
        "commands.clusters:app",
        more=("commands.sizes", "commands.bindings", "commands.member_operations"),
    ),
    Entry(
        "node", "commands.nodes:app", more=("commands.node_operations", "commands.node_recovery")
    ),
    Entry("receiver", "commands.receivers:app"),
    Entry("action", "commands.actions:app"),
    Entry("event", "commands.clustering_events:app"),
    Entry("events", "commands.events:events", asks=True),
    Entry("incident", "commands.incidents:app"),
    Entry("decision", "commands.decisions:app"),
    Entry("decisions", "commands.decisions:app", hidden=True),
    Entry("maintenance", "commands.operators:app"),
    Entry("stop", "commands.operators:stop", asks=True),
    Entry("outbox", "commands.outbox:app"),
    Entry("host", "commands.hosts:hosts"),
    Entry("host-agent", "commands.host_agent:host_agent", passes=True),
    Entry("alert", "commands.hosts:alerts"),
    Entry("doctor", "commands.doctor:doctor"),
    Entry("service", "commands.services:app"),
    Entry("engines", "commands.engines:engines", asks=True),
    Entry("user", "commands.users:app"),
    Entry("audit", "commands.audit:app"),
    Entry("openstack", "commands.openstack:app"),
    Entry("credential", "commands.credentials:app"),
    Entry("import", "commands.imports:app"),
    Entry("db", "commands.database:app"),
)


def application(first: str | None = None) -> typer.Typer:
    """Return all commands, or those alone that begin with the word `first` where there is such."""
    app = typer.Typer(
        name="yaffle",
        help="Watches processes and nodes, decides safely what has failed, and heals it.",
        epilog="Exit codes: 0 done, 1 failed, 2 usage or bad document, 3 not found,"
        " 4 conflict or held, 5 server away.",
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        callback=_root,
    )
    for entry in [entry for entry in ENTRIES if entry.word == first] or ENTRIES:
        _add(app, entry)
    return app


@cache
def tree(first: str | None = None) -> Callable[..., object]:
    """Return `application(first)` ready to be run; made once, for that takes longer than most of it."""
    return typer.main.get_command(application(first))


def _add(app: typer.Typer, entry: Entry) -> None:
    module, name = entry.place.split(":")
    found = getattr(import_module(f"yaffle.cli.{module}"), name)
    for more in entry.more:
        import_module(f"yaffle.cli.{more}")
    if isinstance(found, typer.Typer):
        app.add_typer(found, name=entry.word, hidden=entry.hidden)
    elif entry.asks:
        client(app, entry.word)(found)
    elif entry.passes:
        passed = {"ignore_unknown_options": True, "help_option_names": []}
        app.command(entry.word, context_settings=passed)(found)
    else:
        app.command(entry.word)(found)


def _version(*, value: bool) -> None:
    if value:
        print(f"yaffle {__version__}")
        raise typer.Exit


def _root(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Keep --version beside the commands."""
