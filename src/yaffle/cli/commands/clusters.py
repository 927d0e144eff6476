"""`yaffle cluster …`: groups of equal nodes, from their making to their end."""

from __future__ import annotations

from typing import Annotated

import typer

from yaffle.cli.client.action_progress import Work
from yaffle.cli.client.native import Api, Refused, Row, inner, items, rows
from yaffle.cli.command import Part, client, group, listing, working
from yaffle.cli.commands.cluster_creation import NAME_FORMAT, begun, named
from yaffle.cli.commands.nodes import NODE_COLUMNS, with_views
from yaffle.cli.options import Force, Metadata, SameName, pairs, unused
from yaffle.cli.output import Output, moment, short
from yaffle.errors import ConfigError
from yaffle.model.counts import count

app = group("Clusters: groups of equal nodes.")

Cluster = Annotated[str, typer.Argument(help="Name or id of a cluster.")]
_ActionLimit = Annotated[
    int | None,
    typer.Option("--action-timeout", min=0, help="Seconds that one of its actions may take."),
]


@working(app, "create")
def create(
    work: Work,
    name: str,
    profile: Annotated[str, typer.Option("--profile", help="Name or id of a profile.")],
    size: Annotated[int, typer.Option("--size", min=0, help="How many nodes.")] = 1,
    minimum: Annotated[int, typer.Option("--min", min=0, help="Never fewer than this.")] = 0,
    maximum: Annotated[
        int, typer.Option("--max", min=-1, help="Never more than this; -1 is no limit.")
    ] = -1,
    policy: Annotated[
        list[str] | None,
        typer.Option("--policy", help="Policy to attach before there is a node; may be repeated."),
    ] = None,
    name_format: Annotated[
        str | None,
        typer.Option(
            "--node-name-format",
            metavar="FORMAT",
            help="$3I is the index in three digits, $8R random text. Default: NAME-$1I.",
        ),
    ] = None,
    metadata: Metadata = None,
    action_timeout: _ActionLimit = None,
    same_name: SameName = False,
) -> None:
    """Create a cluster and wait until its nodes are built."""
    given: dict[str, object] = {
        **named(name, name_format),
        "profile_id": profile,
        "desired_capacity": size,
        "min_size": minimum,
        "max_size": maximum,
        "metadata": pairs("--metadata", metadata),
        "timeout": action_timeout,
    }
    unused(work.api, "cluster", name, same_name=same_name)
    started = begun(work.api, {k: v for k, v in given.items() if v is not None}, policy or ())
    ident = str(inner(started.body, "cluster").get("id"))
    if work.no_wait:
        work.left(started, f"cluster {name} is being created")
        return
    row = work.follow(started, f"cluster {name}")
    answer = work.api.v1.get("clusters", ident)
    work.output.say({**answer, "action": row}, f"cluster {name} created, {count(size, 'node')}")


@listing(app, "list")
def list_(
    api: Api,
    output: Output,
    part: Part,
    name: Annotated[str | None, typer.Option("--name", help="Only those of this name.")] = None,
    status: Annotated[
        list[str] | None,
        typer.Option("--status", help="Only ACTIVE, WARNING, …; may be repeated."),
    ] = None,
) -> None:
    """List clusters with the health of their nodes."""
    found = part.of(api, "clusters", name=name, status=[word.upper() for word in status or []])
    views = {} if output.as_json or not found else _views(api)
    output.table(
        {"clusters": found},
        [{**row, "watch": views.get(str(row.get("id")), {})} for row in found],
        [
            ("ID", lambda row: short(row.get("id"))),
            ("NAME", "name"),
            ("STATUS", "status"),
            ("SIZE", "desired_capacity"),
            ("HEALTH", lambda row: health_counts(inner(row, "watch"))),
            ("HELD", lambda row: hold_counts(inner(row, "watch")) or None),
            ("POLICY", lambda row: policy_names(inner(row, "watch"))),
        ],
        empty="no clusters; create one: yaffle cluster create NAME --profile PROFILE --size 3",
    )


def _views(api: Api) -> dict[str, Row]:
    """Return by cluster how it is, which the clustering API has no words for."""
    return {str(row.get("id")): row for row in rows(api.get("clusters"), "clusters")}


def health_counts(row: Row) -> str:
    """Return the counts that are not zero: `2 healthy, 1 unhealthy`."""
    counts = inner(row, "health")
    return ", ".join(f"{count} {word}" for word, count in counts.items() if count)


def hold_counts(row: Row) -> str:
    """Return how many nodes each reason holds: `1 needs-human, 2 storm`."""
    return ", ".join(f"{count} {reason}" for reason, count in inner(row, "holds").items())


def policy_names(row: Row) -> str:
    """Return the attached policies, with those that are switched off marked."""
    return ", ".join(
        f"{p.get('name')}{'' if p.get('enabled') else ' (off)'}" for p in items(row, "policies")
    )


@client(app, "show")
def show(api: Api, output: Output, cluster: Cluster) -> None:
    """Show one cluster with its nodes; with --json `watch` is how Yaffle sees it."""
    answer = api.v1.get("clusters", cluster)
    found = inner(answer, "cluster")
    view = _view(api, str(found.get("id")))
    most = found.get("max_size")
    bounds = f"at least {found.get('min_size')}" + (f", at most {most}" if most != -1 else "")
    output.facts(
        {**answer, "watch": view},
        [
            ("id", found.get("id")),
            ("name", found.get("name")),
            ("status", found.get("status")),
            ("reason", found.get("status_reason")),
            ("profile", found.get("profile_name")),
            ("policy", policy_names(view)),
            ("desired capacity", found.get("desired_capacity")),
            ("bounds", bounds),
            ("health", health_counts(view)),
            ("held", hold_counts(view) or None),
            ("limit released until", view.get("released_until_at")),
            ("metadata", found.get("metadata") or None),
            ("config", found.get("config") or None),
            ("created", moment(found.get("init_at"))),
        ],
    )
    if not output.as_json:
        print()
        members = api.v1.listed("nodes", {"cluster_id": found.get("id"), "sort": "index"})
        nodes = with_views(members, items(view, "nodes"))
        output.table(answer, nodes, NODE_COLUMNS, empty="no nodes")


def _view(api: Api, ident: str) -> Row:
    try:
        return inner(api.get("clusters", ident), "cluster")
    except Refused as error:
        if error.status == 404:
            return {}
        raise


@working(app, "update")
def update(
    work: Work,
    cluster: Cluster,
    name: Annotated[str | None, typer.Option("--name", help="A new name.")] = None,
    profile: Annotated[
        str | None, typer.Option("--profile", help="Profile for all its nodes, of the same type.")
    ] = None,
    profile_only: Annotated[
        bool, typer.Option("--profile-only", help="Change the nodes' profile and nothing else.")
    ] = False,
    name_format: Annotated[
        str | None,
        typer.Option("--node-name-format", metavar="FORMAT", help="Of nodes to come."),
    ] = None,
    metadata: Metadata = None,
    action_timeout: _ActionLimit = None,
) -> None:
    """Change a cluster; a new profile changes its nodes."""
    given = {
        "name": name,
        "profile_id": profile,
        "profile_only": profile_only or None,
        "metadata": pairs("--metadata", metadata),
        "timeout": action_timeout,
        "config": None if name_format is None else {NAME_FORMAT: name_format},
    }
    body = {key: value for key, value in given.items() if value is not None}
    if not body:
        raise ConfigError("cluster update: give at least one thing to change")
    started = work.api.v1.start("PATCH", "clusters", cluster, body={"cluster": body})
    work.finish(
        started,
        f"cluster {cluster}",
        said=f"cluster {cluster} updated",
        going=f"cluster {cluster} is being updated",
    )


@working(app, "delete")
def delete(
    work: Work,
    cluster: Cluster,
    force: Force = False,
) -> None:
    """Delete a cluster with all its nodes; recoveries under way stop at their next step."""
    body = {"force": True} if force else None
    started = work.api.v1.start("DELETE", "clusters", cluster, body=body)
    work.finish(
        started,
        f"cluster {cluster}",
        said=f"cluster {cluster} deleted",
        going=f"cluster {cluster} is being deleted",
    )
