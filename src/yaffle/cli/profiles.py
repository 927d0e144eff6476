"""`yaffle profile …`: how nodes are built, from files in Senlin's shape."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from yaffle.cli.client import Api, Row, inner, rows
from yaffle.cli.command import client, group
from yaffle.cli.output import Output, clock_time, short
from yaffle.cli.policies import read_document
from yaffle.errors import InvalidSpec

app = group("Profiles: how the nodes of a cluster are built.")

File = Annotated[
    str,
    typer.Argument(metavar="FILE", help="YAML with type, version and properties; - is stdin."),
]
Profile = Annotated[str, typer.Argument(help="Name or id of a profile.")]


@client(app, "create")
def create(api: Api, output: Output, name: str, file: File) -> None:
    """Store a profile after its driver has checked the properties."""
    source, text = read_document(file)
    kind, properties = _parts(source, text)
    answer = api.post("profiles", body={"name": name, "type": kind, "spec": properties})
    output.say(answer, f"profile {name} created")


def _parts(source: str, text: str) -> tuple[str, Row]:
    """Return type and properties of a document in Senlin's shape; raise InvalidSpec."""
    import yaml

    try:
        found = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        raise InvalidSpec(f"{source}{place}: {error.problem}") from None
    except (yaml.YAMLError, RecursionError) as error:
        raise InvalidSpec(f"{source}: {error}") from None
    if not isinstance(found, dict):
        raise InvalidSpec(f"{source}: has to be a mapping with type, version and properties")
    known = {"type", "version", "properties"}
    faults = [
        f"{source} {key}: unknown key; known: type, version, properties"
        for key in found
        if key not in known
    ]
    faults += [f"{source} {key}: required" for key in ("type", "properties") if key not in found]
    kind, version, properties = (found.get(key) for key in ("type", "version", "properties"))
    if not faults and not isinstance(kind, str):
        faults.append(f"{source} type: has to be text, e.g. yaffle.local.process")
    if not faults and not isinstance(properties, dict):
        faults.append(f"{source} properties: has to be a mapping")
    if faults or not isinstance(properties, dict):
        raise InvalidSpec(faults)
    return (str(kind) if version is None else f"{kind}-{version}"), properties


@client(app, "list")
def list_(api: Api, output: Output) -> None:
    """List all profiles."""
    answer = api.get("profiles")
    output.table(
        answer,
        rows(answer, "profiles"),
        [
            ("ID", lambda row: short(row.get("id"))),
            ("NAME", "name"),
            ("TYPE", "type"),
            ("CREATED", lambda row: clock_time(row.get("created_us"))),
        ],
        empty="no profiles; create one: yaffle profile create NAME FILE",
    )


@client(app, "show")
def show(api: Api, output: Output, profile: Profile) -> None:
    """Show a profile with its properties, the defaults filled in."""
    answer = api.get("profiles", profile)
    found = inner(answer, "profile")
    output.facts(
        answer,
        [
            ("id", found.get("id")),
            ("name", found.get("name")),
            ("type", found.get("type")),
            ("created", clock_time(found.get("created_us"))),
            *((f"  {key}", json.dumps(value)) for key, value in inner(found, "spec").items()),
        ],
    )


@client(app, "delete")
def delete(api: Api, output: Output, profile: Profile) -> None:
    """Delete a profile that nothing uses."""
    api.delete("profiles", profile)
    output.say({"deleted": profile}, f"profile {profile} deleted")
