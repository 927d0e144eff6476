"""`yaffle policy …`: documents are judged before anything is watched, with or without a server."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from yaffle.cli.client import Api, Row, inner, rows
from yaffle.cli.command import Json, client, group
from yaffle.cli.output import Output, clock_time, note, short
from yaffle.errors import ConfigError, InvalidSpec

if TYPE_CHECKING:
    from yaffle.model.operations import OperationSpec
    from yaffle.policy import ParsedPolicy

app = group("Policies: how failures are found and healed, and how clusters change their size.")

File = Annotated[str, typer.Argument(metavar="FILE", help="YAML or JSON document; - is stdin.")]
Policy = Annotated[str, typer.Argument(help="Name or id of a policy.")]
ProfileType = Annotated[
    str | None,
    typer.Option(
        "--profile-type",
        metavar="TYPE",
        help="Check actions against this profile's operations, e.g. yaffle.local.process-1.0.",
    ),
]

_PLACE: Final = re.compile(
    r"(?P<source>.*?):(?P<line>\d+):(?P<column>\d+)(?P<text>[: ].*)", re.DOTALL
)


@app.command("validate")
def validate(file: File, profile_type: ProfileType = None, *, as_json: Json = False) -> None:
    """Judge a document without a server: every fault with its place, and the worst case in seconds."""
    from yaffle.policy import UnknownPolicyType

    source = _name_of(file)
    try:
        parsed = _parsed(source, read_document(file)[1], profile_type)
    except (InvalidSpec, UnknownPolicyType) as error:
        if as_json:
            Output(as_json=True).json(
                {"valid": False, "source": source, "errors": [_placed(p) for p in error.problems]}
            )
            raise typer.Exit(2) from None
        for problem in error.problems:
            note(problem)
        count = len(error.problems)
        note(f"{source}: refused, {count} fault{'s' if count > 1 else ''}")
        raise typer.Exit(2) from None
    _accepted(source, parsed, as_json=as_json)


def _accepted(source: str, parsed: ParsedPolicy, *, as_json: bool) -> None:
    times = parsed.arithmetic
    if as_json:
        Output(as_json=True).json(
            {
                "valid": True,
                "source": source,
                "type": parsed.type,
                "version": parsed.policy.version,
                "warnings": [_placed(w) for w in parsed.warnings],
                "arithmetic": times.as_json() if times else None,
                "document": parsed.document,
            }
        )
        return
    for warning in parsed.warnings:
        note(f"warning: {warning}")
    print(f"{source}: accepted, {parsed.type} {parsed.policy.version}")
    for line in times.lines() if times else ():
        print(f"  {line}")


def _parsed(source: str, text: str, profile_type: str | None) -> ParsedPolicy:
    from yaffle.policy import parse

    operations = None if profile_type is None else _operations(profile_type)
    return parse(text, source=source, profile_operations=operations)


def _operations(profile_type: str) -> Mapping[str, OperationSpec]:
    from importlib.metadata import entry_points

    known = {point.name: point for point in entry_points(group="yaffle.profiles")}
    if profile_type not in known:
        raise ConfigError(
            f"--profile-type {profile_type!r} is not installed; known: {', '.join(sorted(known))}"
        )
    found: Mapping[str, OperationSpec] = known[profile_type].load().operations
    return found


def _placed(problem: str) -> Row:
    """Return a fault with its place as numbers; those without a place keep their text alone."""
    match = _PLACE.fullmatch(problem)
    if match is None:
        return {"text": problem}
    return {
        "line": int(match["line"]),
        "column": int(match["column"]),
        "text": match["text"].lstrip(": "),
    }


def _name_of(file: str) -> str:
    return "stdin" if file == "-" else file


def read_document(file: str) -> tuple[str, str]:
    """Return the name and the text of a document.

    Raises ConfigError when it cannot be read, and InvalidSpec when it is larger than is read.
    """
    from yaffle.policy import DEFAULT_SETTINGS

    most = DEFAULT_SETTINGS.max_bytes
    try:
        if file == "-":
            found, size = sys.stdin.buffer.read(most + 1), 0
        else:
            with Path(file).open("rb") as opened:
                found, size = opened.read(most + 1), os.fstat(opened.fileno()).st_size
        if len(found) > most:
            # A pipe has no size until it has been read to its end.
            told = f"{size} bytes" if size > most else f"more than {most} bytes"
            raise InvalidSpec(f"{_name_of(file)}: {told}; at most {most} are read")
        return _name_of(file), found.decode()
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: byte {error.start} is not UTF-8; save it as UTF-8") from None


@client(app, "create")
def create(api: Api, output: Output, name: str, file: File) -> None:
    """Store a document under a name."""
    source, text = read_document(file)
    answer = api.post("policies", body={"name": name, "text": text, "source": source})
    _stored(output, answer, f"policy {name} created")


@client(app, "update")
def update(api: Api, output: Output, policy: Policy, file: File) -> None:
    """Replace a policy's document; recoveries under way keep the one they began with."""
    source, text = read_document(file)
    answer = api.put("policies", policy, body={"text": text, "source": source})
    _stored(output, answer, f"policy {policy} updated")


def _stored(output: Output, answer: Row, text: str) -> None:
    warnings = inner(answer, "policy").get("warnings")
    for warning in warnings if isinstance(warnings, list) else ():
        note(f"warning: {warning}")
    output.say(answer, text)


@client(app, "list")
def list_(api: Api, output: Output) -> None:
    """List all policies."""
    answer = api.get("policies")
    output.table(
        answer,
        rows(answer, "policies"),
        [
            ("ID", lambda row: short(row.get("id"))),
            ("NAME", "name"),
            ("TYPE", "type"),
            ("CLUSTERS", "clusters"),
            ("CREATED", lambda row: clock_time(row.get("created_us"))),
        ],
        empty="no policies; create one: yaffle policy create NAME FILE",
    )


@client(app, "show")
def show(api: Api, output: Output, policy: Policy) -> None:
    """Print a policy's document as it was given."""
    answer = api.get("policies", policy)
    found = inner(answer, "policy")
    output.say(answer, str(found.get("source") or json.dumps(found.get("spec"), indent=2)).rstrip())


@client(app, "delete")
def delete(api: Api, output: Output, policy: Policy) -> None:
    """Delete a policy that no cluster uses."""
    api.delete("policies", policy)
    output.say({"deleted": policy}, f"policy {policy} deleted")
