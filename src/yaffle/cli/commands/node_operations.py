"""`yaffle node create`, `update`, `check`, `op`, `adopt` …: what people want done with a node."""

from __future__ import annotations

from typing import Annotated

import typer

from yaffle.cli.client.action_progress import Work
from yaffle.cli.client.clustering import Started
from yaffle.cli.client.native import Api, Row, inner
from yaffle.cli.command import client, working
from yaffle.cli.commands.nodes import Node, app
from yaffle.cli.documents import as_yaml
from yaffle.cli.options import Force, Metadata, Param, SameName, pairs, unused
from yaffle.cli.output import Output
from yaffle.errors import ConfigError

Role = Annotated[str | None, typer.Option("--role", help="What it is for, in your words.")]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--override", metavar="NAME=VALUE", help="Property that replaces what was found."),
]
Snapshot = Annotated[
    bool, typer.Option("--snapshot", help="Take a snapshot first, and build from it.")
]


@working(app, "create")
def create(
    work: Work,
    name: str,
    profile: Annotated[str, typer.Option("--profile", help="Name or id of a profile.")],
    cluster: Annotated[
        str | None, typer.Option("--cluster", help="Its cluster, which then names it.")
    ] = None,
    role: Role = None,
    metadata: Metadata = None,
    same_name: SameName = False,
) -> None:
    """Create a node, alone or as a member of a cluster, and wait until it is built."""
    given: dict[str, object] = {
        "name": name,
        "profile_id": profile,
        "cluster_id": cluster,
        "role": role,
        "metadata": pairs("--metadata", metadata),
    }
    body = {key: value for key, value in given.items() if value is not None}
    if cluster is None:
        unused(work.api, "node", name, same_name=same_name)
    started = work.api.v1.start("POST", "nodes", body={"node": body})
    found = inner(started.body, "node")
    # In a cluster it has got a name of the cluster's.
    what = f"node {found.get('name')}"
    if work.no_wait:
        work.left(started, f"{what} is being created")
        return
    row = work.follow(started, what)
    answer = work.api.v1.get("nodes", str(found.get("id")))
    work.output.say({**answer, "action": row}, f"{what} created")


@working(app, "update")
def update(
    work: Work,
    node: Node,
    name: Annotated[str | None, typer.Option("--name", help="A new name.")] = None,
    profile: Annotated[
        str | None, typer.Option("--profile", help="Another profile of the same type.")
    ] = None,
    role: Role = None,
    tainted: Annotated[
        bool | None,
        typer.Option(
            "--tainted/--untainted", help="Among the first to go when its cluster shrinks."
        ),
    ] = None,
    metadata: Metadata = None,
) -> None:
    """Change a node."""
    given = {
        "name": name,
        "profile_id": profile,
        "role": role,
        "tainted": tainted,
        "metadata": pairs("--metadata", metadata),
    }
    body = {key: value for key, value in given.items() if value is not None}
    if not body:
        raise ConfigError("node update: give at least one thing to change")
    started = work.api.v1.start("PATCH", "nodes", node, body={"node": body})
    _finish(work, node, started, "updated", "is being updated")


def _finish(work: Work, node: str, started: Started, said: str, going: str) -> None:
    work.finish(started, f"node {node}", said=f"node {node} {said}", going=f"node {node} {going}")


@working(app, "delete")
def delete(
    work: Work,
    node: Node,
    force: Force = False,
) -> None:
    """Delete one node; its cluster's desired capacity shrinks with it."""
    started = work.api.v1.start("DELETE", "nodes", node, body={"force": True} if force else None)
    _finish(work, node, started, "deleted", "is being deleted")


@working(app, "check")
def check(
    work: Work,
    node: Node,
) -> None:
    """Look at a node now, and say how it is."""
    started = work.api.v1.act("nodes", node, "check", {})
    if work.no_wait:
        work.left(started, f"node {node} is being checked")
        return
    row = work.follow(started, f"node {node}")
    found = inner(work.api.v1.get("nodes", str(row.get("target"))), "node")
    text = f"node {node}: {found.get('status')}, {found.get('status_reason') or 'no reason given'}"
    work.output.say({"action": row}, text)


@working(app, "op")
def operate(
    work: Work,
    node: Node,
    operation: Annotated[
        str, typer.Argument(help="As `yaffle profile-type ops TYPE` shows them: reboot, stop, …")
    ],
    param: Param = None,
) -> None:
    """Do one operation of the profile on a node."""
    body = {operation: pairs("--param", param) or {}}
    started = work.api.v1.start("POST", "nodes", node, "ops", body=body)
    _finish(work, node, started, f"has done {operation}", f"does {operation}")


@client(app, "adopt")
def adopt(
    api: Api,
    output: Output,
    identity: Annotated[str, typer.Argument(help="The backend's own id of what runs already.")],
    kind: Annotated[
        str, typer.Option("--type", help="Type of its profile, e.g. yaffle.local.process-1.0.")
    ],
    name: Annotated[str | None, typer.Option("--name", help="Default: made up.")] = None,
    role: Role = None,
    metadata: Metadata = None,
    override: Overrides = None,
    snapshot: Snapshot = False,
) -> None:
    """Make a node of something that runs already."""
    given = {
        "identity": identity,
        "type": kind,
        "name": name,
        "role": role,
        "metadata": pairs("--metadata", metadata),
        "overrides": pairs("--override", override),
        "snapshot": snapshot or None,
    }
    body = {key: value for key, value in given.items() if value is not None}
    answer = api.v1.post("nodes", "adopt", body=body)
    found = inner(answer, "node")
    output.say(answer, f"node {found.get('name')} adopted, profile {found.get('profile_name')}")


@client(app, "preview")
def preview(
    api: Api,
    output: Output,
    identity: Annotated[str, typer.Argument(help="The backend's own id of what runs already.")],
    kind: Annotated[
        str, typer.Option("--type", help="Type of its profile, e.g. yaffle.local.process-1.0.")
    ],
    override: Overrides = None,
    snapshot: Snapshot = False,
) -> None:
    """Print the profile that `adopt` would make; nothing is changed."""
    body: dict[str, object] = {"identity": identity, "type": kind}
    if override:
        body["overrides"] = pairs("--override", override)
    if snapshot:
        body["snapshot"] = True
    answer = api.v1.post("nodes", "adopt-preview", body=body)
    found: Row = inner(inner(answer, "node_profile"), "node_preview")
    output.lines(answer, as_yaml(dict(found)).splitlines())
