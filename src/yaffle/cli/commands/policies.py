"""`yaffle policy …`: documents are judged before anything is watched, with or without a server."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Final

import typer

from yaffle.cli.client.native import Api, Refused, Row, inner, rows
from yaffle.cli.command import Json, Part, client, group, listing
from yaffle.cli.documents import as_yaml, name_of, plain, read_document
from yaffle.cli.options import SameName, unused
from yaffle.cli.output import Output, moment, note, short, shown
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

    source = name_of(file)
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


@client(app, "create")
def create(api: Api, output: Output, name: str, file: File, same_name: SameName = False) -> None:
    """Store a document under a name."""
    source, text = read_document(file)
    spec = plain(source, text)
    unused(api, "policy", name, same_name=same_name)
    with placed(source, text):
        answer = api.v1.post("policies", body={"policy": {"name": name, "spec": spec}})
    _warned(source, text)
    output.say(answer, f"policy {name} created")


@client(app, "check")
def check(api: Api, output: Output, file: File) -> None:
    """Ask the server whether it would accept a document; nothing is stored."""
    source, text = read_document(file)
    spec = plain(source, text)
    with placed(source, text):
        answer = api.v1.post("policies", "validate", body={"policy": {"spec": spec}})
    _warned(source, text)
    output.say(answer, f"{source}: accepted, {inner(answer, 'policy').get('type')}")


@contextmanager
def placed(source: str, text: str) -> Iterator[None]:
    """Add line and column to the faults for which the server refused a document, if we find them too.

    The server is the judge; it has the document without its lines.
    """
    from yaffle.policy import UnknownPolicyType, parse

    try:
        yield
    except Refused as refused:
        if refused.status not in {400, 404}:
            raise
        try:
            parse(text, source=source)
        except (InvalidSpec, UnknownPolicyType) as error:
            raise InvalidSpec(error.problems) from None
        raise


def _warned(source: str, text: str) -> None:
    from yaffle.policy import UnknownPolicyType, parse

    try:
        warnings = parse(text, source=source).warnings
    except (InvalidSpec, UnknownPolicyType):
        # The server is of another version and knows better.
        return
    for warning in warnings:
        note(f"warning: {warning}")


@client(app, "update")
def update(
    api: Api,
    output: Output,
    policy: Policy,
    file: Annotated[
        str | None,
        typer.Argument(metavar="[FILE]", help="YAML or JSON document in its place; - is stdin."),
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="A new name.")] = None,
) -> None:
    """Replace a policy's document or name; recoveries under way keep what they began with."""
    if file is None and name is None:
        raise ConfigError("policy update: give a FILE or --name")
    answer: Row = {}
    if file is not None:
        source, text = read_document(file)
        # A policy of the clustering API never changes; ours may, for all its clusters at once.
        answer = api.put("policies", policy, body={"text": text, "source": source})
        _warned(source, text)
        # Names need not be unique, and may be changed below.
        policy = str(inner(answer, "policy").get("id"))
    if name is not None:
        answer = api.v1.patch("policies", policy, body={"policy": {"name": name}})
    output.say(answer, f"policy {inner(answer, 'policy').get('name')} updated")


@listing(app, "list")
def list_(
    api: Api,
    output: Output,
    part: Part,
    name: Annotated[str | None, typer.Option("--name", help="Only those of this name.")] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            "--type", help="Only of this type, e.g. senlin.policy.health-1.3; may be repeated."
        ),
    ] = None,
) -> None:
    """List policies."""
    found = part.of(api, "policies", name=name, type=kind)
    used = {} if output.as_json or not found else _clusters(api)
    output.table(
        {"policies": found},
        found,
        [
            ("ID", lambda row: short(row.get("id"))),
            ("NAME", "name"),
            ("TYPE", "type"),
            ("CLUSTERS", lambda row: used.get(str(row.get("id"))) or None),
            ("CREATED", lambda row: moment(row.get("created_at"))),
        ],
        empty="no policies; create one: yaffle policy create NAME FILE",
    )


def _clusters(api: Api) -> dict[str, str]:
    """Return by policy the names of its clusters, of which the clustering API knows the ids only."""
    view = rows(api.get("policies"), "policies")
    return {str(row.get("id")): shown(row.get("clusters") or "") for row in view}


@client(app, "show")
def show(api: Api, output: Output, policy: Policy) -> None:
    """Print a policy's document."""
    answer = api.v1.get("policies", policy)
    output.lines(answer, as_yaml(inner(answer, "policy").get("spec")).splitlines())


@client(app, "delete")
def delete(api: Api, output: Output, policy: Policy) -> None:
    """Delete a policy that no cluster uses."""
    api.v1.delete("policies", policy)
    output.say({"deleted": policy}, f"policy {policy} deleted")
