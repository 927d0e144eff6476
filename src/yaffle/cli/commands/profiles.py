"""`yaffle profile …`: how nodes are built, from files in Senlin's shape."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated

import typer

from yaffle.cli.client.native import Api, Row, inner
from yaffle.cli.command import Part, client, group, listing
from yaffle.cli.documents import plain, read_document
from yaffle.cli.options import Metadata, SameName, pairs, unused
from yaffle.cli.output import Output, moment, short
from yaffle.errors import ConfigError, InvalidSpec

app = group("Profiles: how the nodes of a cluster are built.")

File = Annotated[
    str,
    typer.Argument(metavar="FILE", help="YAML with type, version and properties; - is stdin."),
]
Profile = Annotated[str, typer.Argument(help="Name or id of a profile.")]
KEYS = ("type", "version", "properties")


@client(app, "create")
def create(
    api: Api,
    output: Output,
    name: str,
    file: File,
    metadata: Metadata = None,
    same_name: SameName = False,
) -> None:
    """Store a profile after its driver has checked the properties."""
    body: dict[str, object] = {"name": name, "spec": _spec(file)}
    unused(api, "profile", name, same_name=same_name)
    if metadata:
        body["metadata"] = pairs("--metadata", metadata)
    answer = api.v1.post("profiles", body={"profile": body})
    output.say(answer, f"profile {name} created")


@client(app, "validate")
def validate(api: Api, output: Output, file: File) -> None:
    """Ask the server whether it would accept a document; nothing is stored."""
    spec = _spec(file)
    answer = api.v1.post("profiles", "validate", body={"profile": {"spec": spec}})
    output.say(answer, f"{file}: accepted, {inner(answer, 'profile').get('type')}")


def _spec(file: str) -> Row:
    """Return type, version and properties of a document in Senlin's shape; raise InvalidSpec."""
    source, text = read_document(file)
    found = plain(source, text)
    if not isinstance(found, dict):
        raise InvalidSpec(f"{source}: has to be a mapping with {', '.join(KEYS)}")
    faults = [
        f"{source} {key}: unknown key; known: {', '.join(KEYS)}" for key in found if key not in KEYS
    ]
    faults += [f"{source} {key}: required" for key in ("type", "properties") if key not in found]
    kind, version, properties = (found.get(key) for key in KEYS)
    if not faults and not isinstance(kind, str):
        faults.append(f"{source} type: has to be text, e.g. yaffle.local.process")
    if not faults and not isinstance(properties, dict):
        faults.append(f"{source} properties: has to be a mapping")
    if faults:
        raise InvalidSpec(faults)
    if version is None:
        # `yaffle.local.process-1.0` says both.
        kind, _, version = str(kind).rpartition("-")
    if not kind:
        raise InvalidSpec(f"{source} version: required, e.g. '1.0'")
    return {"type": kind, "version": str(version), "properties": properties}


@listing(app, "list")
def list_(
    api: Api,
    output: Output,
    part: Part,
    name: Annotated[str | None, typer.Option("--name", help="Only those of this name.")] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            "--type", help="Only of this type, e.g. yaffle.local.process-1.0; may be repeated."
        ),
    ] = None,
) -> None:
    """List profiles."""
    found = part.of(api, "profiles", name=name, type=kind)
    output.table(
        {"profiles": found},
        found,
        [
            ("ID", lambda row: short(row.get("id"))),
            ("NAME", "name"),
            ("TYPE", "type"),
            ("CREATED", lambda row: moment(row.get("created_at"))),
        ],
        empty="no profiles; create one: yaffle profile create NAME FILE",
    )


@client(app, "show")
def show(api: Api, output: Output, profile: Profile) -> None:
    """Show a profile with its properties."""
    answer = api.v1.get("profiles", profile)
    found = inner(answer, "profile")
    output.facts(
        answer,
        [
            ("id", found.get("id")),
            ("name", found.get("name")),
            ("type", found.get("type")),
            ("created", moment(found.get("created_at"))),
            ("metadata", found.get("metadata") or None),
            *_properties(inner(inner(found, "spec"), "properties")),
        ],
    )


def _properties(found: Row) -> Sequence[tuple[str, object]]:
    return [(f"  {key}", json.dumps(value, ensure_ascii=False)) for key, value in found.items()]


@client(app, "update")
def update(
    api: Api,
    output: Output,
    profile: Profile,
    name: Annotated[str | None, typer.Option("--name", help="A new name.")] = None,
    metadata: Metadata = None,
) -> None:
    """Change name or metadata; how nodes are built never changes, so that equal stays equal."""
    given = {"name": name, "metadata": pairs("--metadata", metadata)}
    body = {key: value for key, value in given.items() if value is not None}
    if not body:
        raise ConfigError("profile update: give --name or --metadata")
    answer = api.v1.patch("profiles", profile, body={"profile": body})
    output.say(answer, f"profile {profile} updated")


@client(app, "delete")
def delete(api: Api, output: Output, profile: Profile) -> None:
    """Delete a profile that nothing uses."""
    api.v1.delete("profiles", profile)
    output.say({"deleted": profile}, f"profile {profile} deleted")
