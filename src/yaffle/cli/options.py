"""Options that several nouns share, and pairs of name and value as people write them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from yaffle.cli.output import short
from yaffle.errors import ConfigError, Conflict

if TYPE_CHECKING:
    from yaffle.cli.client.native import Api, Row

Metadata = Annotated[
    list[str] | None,
    typer.Option("--metadata", metavar="NAME=VALUE", help="To keep with it; may be repeated."),
]
Param = Annotated[
    list[str] | None,
    typer.Option("--param", metavar="NAME=VALUE", help="Of the operation; may be repeated."),
]
Force = Annotated[
    bool, typer.Option("--force", help="Also while something else is going on with it.")
]


SameName = Annotated[
    bool, typer.Option("--allow-duplicate", help="Although there is one of this name already.")
]


def unused(api: Api, noun: str, name: str, *, same_name: bool) -> None:
    """Raise Conflict where a command that is run twice would make a second one of the same name.

    The API allows that; but then only ids tell them apart, and nobody means it.
    """
    if same_name:
        return
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    found = api.v1.listed(plural, {"name": name}, limit=1)
    if found:
        raise Conflict(
            f"{noun} {name} is there already ({short(found[0].get('id'))})",
            hint="give another name; a second one of the same name is made with --allow-duplicate",
        )


def pairs(option: str, given: Sequence[str] | None) -> Row | None:
    """Return NAME=VALUE as an object, values as JSON where they are; None where none are given."""
    return dict(_pair(option, text) for text in given) if given else None


def _pair(option: str, text: str) -> tuple[str, object]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ConfigError(f"{option} {text!r}: write NAME=VALUE, for example type=SOFT")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
