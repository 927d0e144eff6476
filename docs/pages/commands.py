"""Reference of the command line: every command, argument and option, from typer itself."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from docs.pages.text import code, first_sentence, join, table

from yaffle.cli.app import tree
from yaffle.integrations import host_agent as agent

SHARED = {
    "server": "`--server URL` names the server. Default: the one that runs on this machine, else"
    " `http://127.0.0.1:8777`. Also `YAFFLE_SERVER`.",
    "token_file": "`--token-file FILE`: file whose first line is the token. Also `YAFFLE_TOKEN`.",
    "as_json": "`--json` prints JSON instead of text.",
}


NAME = "`hostname`"
"""Stands for the name of the machine that the page is read on."""

# typer brings its own copy of click, whose classes have no public name.
Command = Any
Parameter = Any


@cache
def root() -> Command:
    """Return the whole tree."""
    return tree()


def walk(group: Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Command]]:
    """Yield every command that does something, with its words."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from walk(command, (*path, name))
        elif not command.hidden:
            yield " ".join((*path, name)), command


def commands() -> str:
    """Every command of `yaffle`."""
    parts = [
        join(
            f"## `yaffle {words}`",
            first_sentence(command.help),
            f"```text\nyaffle {' '.join((words, *_pieces(command)))}\n```",
            _agents_options() if words == "host-agent" else _options(command),
        )
        for words, command in walk(root())
    ]
    return join(
        "# Commands",
        "Options that every command which speaks to a server has, and that are not repeated below:",
        "\n".join(f"- {text}" for text in SHARED.values()),
        "A TIME is `90s`, `15m`, `2h`, `1d` or `1h30m`; a bare number is seconds. Commands that begin\n"
        "something wait for its end; `--no-wait` does not. [Exit codes](exit-codes.md) are the same for\n"
        "all.",
        *parts,
    )


def _pieces(command: Command) -> Iterator[str]:
    for parameter in command.params:
        if _is_argument(parameter):
            word = _metavar(parameter)
            yield word if parameter.required else f"[{word}]"
        elif parameter.required:
            yield f"{parameter.opts[0]} {_metavar(parameter)}"
    if any(not _is_argument(p) and not p.required for p in command.params):
        yield "[options]"


def _is_argument(parameter: Parameter) -> bool:
    return bool(parameter.param_type_name == "argument")


def _metavar(parameter: Parameter) -> str:
    if getattr(parameter, "is_flag", False):
        return ""
    dots = "..." if parameter.nargs == -1 else ""
    return str(parameter.metavar or parameter.name.upper()) + dots


def _agents_options() -> str:
    """Return those of a program that is not typer's."""
    rows = [
        (
            code(" ".join((*action.option_strings, action.metavar or action.dest.upper()))),
            "required" if action.required else "",
            (action.help or "") % {"default": NAME if action.dest == "host" else action.default},
        )
        for action in agent.options()._actions  # noqa: SLF001 - argparse has no other way
        if action.dest != "help"
    ]
    return table(("option", "default", "meaning"), rows)


def _options(command: Command) -> str:
    names = {p.name for p in command.params}
    # A command without the whole set says itself what the word means there.
    shared = names & set(SHARED) if names.issuperset(SHARED) else {"as_json"}
    rows = [
        (code(_shown(p)), _default(p), p.help or "")
        for p in command.params
        if p.name not in shared | {"help"}
    ]
    return table(("argument or option", "default", "meaning"), rows) if rows else ""


def _shown(parameter: Parameter) -> str:
    if _is_argument(parameter):
        return _metavar(parameter)
    return f"{', '.join(parameter.opts)} {_metavar(parameter)}".strip()


def _default(parameter: Parameter) -> str:
    value = parameter.default
    if parameter.required:
        return "required"
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return ""
    return code(f"{value:g}" if isinstance(value, float) else value)
