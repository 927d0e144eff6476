"""`yaffle profile-type …` and `yaffle policy-type …`: what may be written in documents."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from yaffle.cli.client.native import Api, Row, inner, items, rows
from yaffle.cli.command import client, group
from yaffle.cli.output import Column, Output, shown

profile_types = group("Types of profiles: what nodes can be made of, and what they can do.")
policy_types = group("Types of policies.")

Type = Annotated[str, typer.Argument(metavar="TYPE", help="Name and version, as `list` shows it.")]


def _support(row: Row) -> str | None:
    said = [one.get("status") for key in inner(row, "support_status") for one in _of(row, key)]
    return ", ".join(map(str, said)) or None


def _of(row: Row, version: str) -> Iterator[Row]:
    return items(inner(row, "support_status"), version)


_COLUMNS: list[Column] = [
    ("TYPE", lambda row: f"{row.get('name')}-{row.get('version')}"),
    ("SUPPORT", _support),
]


@client(profile_types, "list")
def list_profile_types(api: Api, output: Output) -> None:
    """List the types of profiles that the server has."""
    answer = api.v1.get("profile-types")
    output.table(answer, rows(answer, "profile_types"), _COLUMNS, empty="no types of profiles")


@client(profile_types, "show")
def show_profile_type(api: Api, output: Output, kind: Type) -> None:
    """Show the properties that a profile of this type takes."""
    _show(output, api.v1.get("profile-types", kind), "profile_type")


@client(profile_types, "ops")
def show_operations(api: Api, output: Output, kind: Type) -> None:
    """Show what nodes of this type can be asked for, with the parameters."""
    answer = api.v1.get("profile-types", kind, "ops")
    found = inner(answer, "operations")
    output.table(
        answer,
        [{"name": name, **inner(found, name)} for name in found],
        [
            ("OPERATION", "name"),
            ("PARAMETERS", lambda row: ", ".join(_params(inner(row, "parameters"))) or None),
            ("DESCRIPTION", "description"),
        ],
        empty="no operations",
    )


def _params(found: Row) -> Iterator[str]:
    for name in found:
        param = inner(found, name)
        default = param.get("default")
        needed = " (required)" if param.get("required") else ""
        yield f"{name}{f'={default}' if default is not None else needed}"


@client(policy_types, "list")
def list_policy_types(api: Api, output: Output) -> None:
    """List the types of policies."""
    answer = api.v1.get("policy-types")
    output.table(answer, rows(answer, "policy_types"), _COLUMNS, empty="no types of policies")


@client(policy_types, "show")
def show_policy_type(api: Api, output: Output, kind: Type) -> None:
    """Show the properties that a policy of this type takes."""
    _show(output, api.v1.get("policy-types", kind), "policy_type")


def _show(output: Output, answer: Row, key: str) -> None:
    schema = inner(inner(answer, key), "schema")
    found = list(_lines(schema, ""))
    output.table(
        answer,
        found,
        [
            ("PROPERTY", "name"),
            ("KIND", "kind"),
            ("NEEDED", "needed"),
            ("DEFAULT", "default"),
            ("DESCRIPTION", "description"),
        ],
        empty="no properties are described",
    )


def _lines(schema: Row, above: str) -> Iterator[Row]:
    """Yield property after property, those inside another below it: `networks.*.port`."""
    for name in schema:
        one = inner(schema, name)
        default = one.get("default")
        yield {
            "name": f"{above}{name}",
            "kind": one.get("type"),
            "needed": "yes" if one.get("required") else "",
            "default": "" if default is None else shown(default),
            "description": one.get("description") or "",
        }
        yield from _lines(inner(one, "schema"), f"{above}{name}.")
