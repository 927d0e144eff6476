"""`yaffle cluster scale-out`, `resize`, `add-nodes` …: how many members a cluster has, and which."""

from __future__ import annotations

from typing import Annotated

import typer

from yaffle.cli.client.action_progress import Work
from yaffle.cli.client.native import Api, Row
from yaffle.cli.command import Part, listing, working
from yaffle.cli.commands.clusters import Cluster, app
from yaffle.cli.commands.nodes import list_of
from yaffle.cli.output import Output
from yaffle.errors import ConfigError

Count = Annotated[
    int | None,
    typer.Option("--count", min=1, help="How many. Default: as the scaling policy says, else 1."),
]
Nodes = Annotated[list[str], typer.Argument(metavar="NODE...", help="Names or ids of nodes.")]


def _act(
    work: Work,
    cluster: str,
    verb: str,
    data: Row,
    said: str,
    going: str,
) -> None:
    """Ask for it, follow it, and say `cluster NAME` and how it ended."""
    work.finish(
        work.api.v1.act("clusters", cluster, verb, data),
        f"cluster {cluster}",
        said=f"cluster {cluster} {said}",
        going=f"cluster {cluster} {going}",
    )


@working(app, "scale-out")
def scale_out(
    work: Work,
    cluster: Cluster,
    count: Count = None,
) -> None:
    """Add nodes."""
    data = {"count": count}
    said, going = "has more nodes", "gets more nodes"
    _act(work, cluster, "scale_out", data, said, going)


@working(app, "scale-in")
def scale_in(
    work: Work,
    cluster: Cluster,
    count: Count = None,
) -> None:
    """Take nodes away: first those that are not well."""
    data = {"count": count}
    said, going = "has fewer nodes", "gets fewer nodes"
    _act(work, cluster, "scale_in", data, said, going)


@working(app, "resize")
def resize(
    work: Work,
    cluster: Cluster,
    size: Annotated[int | None, typer.Option("--size", min=0, help="To so many nodes.")] = None,
    by: Annotated[int | None, typer.Option("--by", help="By so many; -2 is two fewer.")] = None,
    percent: Annotated[
        float | None, typer.Option("--percent", help="By so many hundredths; may be negative.")
    ] = None,
    minimum: Annotated[int | None, typer.Option("--min", min=0, help="Never fewer.")] = None,
    maximum: Annotated[
        int | None, typer.Option("--max", min=-1, help="Never more; -1 is no limit.")
    ] = None,
    min_step: Annotated[
        int | None, typer.Option("--min-step", min=1, help="Smallest change, with --percent.")
    ] = None,
    best_effort: Annotated[
        bool,
        typer.Option("--best-effort", help="Go as far as the bounds allow, not all or nothing."),
    ] = False,
) -> None:
    """Change how many nodes a cluster has, its bounds, or both."""
    ways = {
        "EXACT_CAPACITY": size,
        "CHANGE_IN_CAPACITY": by,
        "CHANGE_IN_PERCENTAGE": percent,
    }
    chosen = [(way, number) for way, number in ways.items() if number is not None]
    if len(chosen) > 1 or not (chosen or minimum is not None or maximum is not None):
        raise ConfigError(
            "cluster resize: give one of --size, --by and --percent, or --min or --max"
        )
    way, number = chosen[0] if chosen else (None, None)
    data = {
        "adjustment_type": way,
        "number": number,
        "min_size": minimum,
        "max_size": maximum,
        "min_step": min_step,
        "strict": False if best_effort else None,
    }
    _act(work, cluster, "resize", data, "resized", "is being resized")


@listing(app, "members")
def members(api: Api, output: Output, part: Part, cluster: Cluster) -> None:
    """List the nodes of a cluster."""
    list_of(api, output, part, cluster=cluster)


@working(app, "add-nodes")
def add_nodes(
    work: Work,
    cluster: Cluster,
    nodes: Nodes,
) -> None:
    """Make members of nodes that have no cluster."""
    data = {"nodes": nodes}
    said, going = f"has {' and '.join(nodes)}", "takes nodes in"
    _act(work, cluster, "add_nodes", data, said, going)


@working(app, "remove-nodes")
def remove_nodes(
    work: Work,
    cluster: Cluster,
    nodes: Nodes,
    destroy: Annotated[
        bool, typer.Option("--destroy", help="Delete them; else they live on without a cluster.")
    ] = False,
) -> None:
    """Let members go; they live on, unwatched, unless --destroy."""
    data: Row = {"nodes": nodes, "destroy_after_deletion": destroy}
    said, going = f"let {' and '.join(nodes)} go", "lets nodes go"
    _act(work, cluster, "del_nodes", data, said, going)


@working(app, "replace-nodes")
def replace_nodes(
    work: Work,
    cluster: Cluster,
    places: Annotated[
        list[str], typer.Argument(metavar="OLD=NEW...", help="A member, and who takes its place.")
    ],
) -> None:
    """Put nodes without a cluster in the places of members, which live on without one."""
    pairs = [place.partition("=") for place in places]
    if not all(old and new for old, _, new in pairs):
        raise ConfigError("cluster replace-nodes: write OLD=NEW, both names or ids of nodes")
    data = {"nodes": {old: new for old, _, new in pairs}}
    said, going = "has its nodes replaced", "replaces nodes"
    _act(work, cluster, "replace_nodes", data, said, going)
