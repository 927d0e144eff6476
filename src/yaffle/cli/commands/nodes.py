"""`yaffle node …` and `yaffle why`: one node and many, how they are, and why."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final

import typer

from yaffle.cli.client.native import Api, Refused, Row, inner, rows
from yaffle.cli.command import Part, client, group, listing
from yaffle.cli.output import Column, Output, clock_time, moment, short

app = group("Nodes: what is watched and healed.")

Node = Annotated[str, typer.Argument(help="Name or id of a node.")]


def hold_reason(row: Row) -> str:
    """Return why the node is left alone; empty where it is not."""
    return str(inner(row, "hold").get("reason") or "")


def needs_human(row: Row) -> str | None:
    """Return what a person has to do about a node whose recoveries are used up; None otherwise."""
    retry = inner(row, "retry")
    if not retry.get("exhausted"):
        return None
    ident = retry.get("incident_id")
    word = f"yaffle incident ack {short(ident)}" if ident else f"yaffle why {row.get('name')}"
    return f"its recoveries are used up: {word}"


def doing(row: Row) -> str:
    """Return what is being done with the node, or why nothing is."""
    action = row.get("action")
    if isinstance(action, dict):
        return str(action.get("action") or action.get("name") or "")
    if action:
        return str(action)
    held = hold_reason(row)
    if held:
        return f"held: {held}"
    return "marked unhealthy" if row.get("mark") else ""


def health(row: Row) -> str:
    """Return what Yaffle believes, and whether its sources disagree."""
    return f"{row.get('health')}{' (gray)' if row.get('gray') else ''}"


NODE_COLUMNS: Final[list[Column]] = [
    ("ID", lambda row: short(row.get("id"))),
    ("NAME", "name"),
    ("STATUS", "status"),
    ("HEALTH", health),
    ("SINCE", lambda row: clock_time(row.get("since_us"))),
    ("BACKEND", lambda row: row.get("backend_status") or None),
    ("DOING", lambda row: doing(row) or None),
]
"""For nodes that Yaffle's own API has told of; the clustering API does not know since when."""


def with_views(found: Iterable[Row], views: Iterable[Row]) -> list[Row]:
    """Return nodes with what Yaffle's own API knows of them beside; where both speak, as found."""
    known = {view.get("id"): view for view in views}
    return [{**known.get(row.get("id"), {}), **row} for row in found]


@listing(app, "list")
def list_nodes(
    api: Api,
    output: Output,
    part: Part,
    cluster: Annotated[str | None, typer.Option("--cluster", help="Only this cluster's.")] = None,
    name: Annotated[str | None, typer.Option("--name", help="Only those of this name.")] = None,
    status: Annotated[
        list[str] | None,
        typer.Option("--status", help="Only ACTIVE, WARNING, …; may be repeated."),
    ] = None,
) -> None:
    """List nodes with their health."""
    list_of(api, output, part, cluster=cluster, name=name, status=status)


def list_of(
    api: Api,
    output: Output,
    part: Part,
    *,
    cluster: str | None,
    name: str | None = None,
    status: list[str] | None = None,
) -> None:
    """Print nodes, with what is done to those that something is done to."""
    if cluster is not None:
        cluster = str(inner(api.v1.get("clusters", cluster), "cluster").get("id"))
    words = [word.upper() for word in status or []]
    found = part.of(api, "nodes", cluster_id=cluster, name=name, status=words)
    if part.sort is None:
        # The members of a cluster are made in one moment; people want web-1 before web-2.
        found.sort(key=_age)
    views = [] if output.as_json or not found else _views(api, cluster)
    output.table(
        {"nodes": found},
        with_views(found, views),
        [column for column in NODE_COLUMNS if column[0] != "SINCE"],
        empty="no nodes",
    )


def _age(row: Row) -> tuple[str, str, int]:
    return str(row.get("init_at")), str(row.get("cluster_id")), int(str(row.get("index")))


def _views(api: Api, cluster: str | None) -> list[Row]:
    return rows(api.get("nodes", cluster=cluster, attention="true"), "nodes")


@client(app, "show")
def show(
    api: Api,
    output: Output,
    node: Node,
    details: Annotated[
        bool, typer.Option("--details", help="Ask the backend, too, what it knows of it.")
    ] = False,
) -> None:
    """Show one node; with --json `watch` is how Yaffle sees it."""
    answer = api.v1.get("nodes", node, show_details="true" if details else None)
    found = inner(answer, "node")
    view = _view(api, str(found.get("id")))
    retry, mark = inner(view, "retry"), inner(view, "mark")
    output.facts(
        {**answer, "watch": view},
        [
            ("id", found.get("id")),
            ("name", found.get("name")),
            ("cluster", view.get("cluster") or found.get("cluster_id")),
            ("profile", found.get("profile_name")),
            ("role", found.get("role")),
            ("status", found.get("status")),
            ("reason", found.get("status_reason")),
            ("tainted", "yes" if found.get("tainted") else None),
            ("health", health({**view, **found})),
            ("health reason", view.get("health_reason")),
            ("since", clock_time(view.get("since_us"))),
            ("backend", found.get("backend_status")),
            ("physical id", found.get("physical_id")),
            *((f"  {key}", value) for key, value in _facts(found, view).items()),
            ("metadata", found.get("metadata") or None),
            ("doing", doing(view)),
            ("mark", f"{mark.get('reason')} (by {mark.get('by')})" if mark else None),
            ("needs a human", needs_human(view)),
            ("attempts", f"{retry.get('attempts')} of {retry.get('allowed')}" if retry else None),
            ("last seen", clock_time(view.get("seen_us"))),
            ("created", moment(found.get("created_at"))),
        ],
    )


def _facts(found: Row, view: Row) -> Row:
    """Return what the backend says of it: just now where it was asked, else at the last reading."""
    return inner(found, "details") or inner(view, "attributes")


def _view(api: Api, ident: str) -> Row:
    try:
        return inner(api.get("nodes", ident), "node")
    except Refused as error:
        if error.status == 404:
            return {}
        raise


def why(api: Api, output: Output, node: Node) -> None:
    """Explain how a node is, what was decided with every number, and what you can do."""
    answer = api.get("nodes", node, "why")
    lines = inner(answer, "why").get("lines")
    output.lines(answer, map(str, lines) if isinstance(lines, list) else ())
