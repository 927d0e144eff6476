"""`yaffle event …`: what happened to clusters and nodes, as clients of the clustering API are told."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Annotated, Final

import typer

from yaffle.cli.client.native import Api, Row, inner
from yaffle.cli.command import Part, client, group, listing
from yaffle.cli.output import Output, clean, moment, short, shown

app = group("Events of clusters and nodes; `yaffle events` has those of everything.")

FOLLOW_S: Final = 0.5
Cluster = Annotated[
    str | None, typer.Option("--cluster", help="Only this cluster's, nodes included.")
]
Node = Annotated[str | None, typer.Option("--node", help="Only this node's.")]
Level = Annotated[
    list[str] | None,
    typer.Option("--level", help="Only ERROR, WARNING, INFO, …; may be repeated."),
]


def _filters(
    api: Api, cluster: str | None, node: str | None, level: list[str] | None
) -> dict[str, object]:
    return {
        "cluster_id": None if cluster is None else _id(api, "cluster", cluster),
        "oid": None if node is None else _id(api, "node", node),
        "level": [word.upper() for word in level or []],
    }


def _id(api: Api, noun: str, ident: str) -> object:
    return inner(api.v1.get(f"{noun}s", ident), noun).get("id")


@listing(app, "list")
def list_(
    api: Api,
    output: Output,
    part: Part,
    cluster: Cluster = None,
    node: Node = None,
    level: Level = None,
) -> None:
    """List events, the oldest first; `--sort timestamp:desc --limit 20` shows the latest."""
    found = part.of(api, "events", **_filters(api, cluster, node, level))
    output.table(
        {"events": found},
        found,
        [
            ("ID", lambda row: short(row.get("id"))),
            ("TIME", lambda row: moment(row.get("timestamp"))),
            ("LEVEL", "level"),
            ("OF", "oname"),
            ("ACTION", "action"),
            ("STATUS", "status"),
            ("REASON", lambda row: row.get("status_reason") or None),
        ],
        empty="no events",
    )


@client(app, "show")
def show(
    api: Api,
    output: Output,
    event: Annotated[str, typer.Argument(help="Id of an event, or its beginning.")],
) -> None:
    """Show one event."""
    answer = api.v1.get("events", event)
    found = inner(answer, "event")
    names = ("id", "level", "otype", "oname", "oid", "cluster_id", "action", "status")
    output.facts(
        answer,
        [
            ("time", moment(found.get("timestamp"))),
            *((name, found.get(name)) for name in names),
            ("reason", found.get("status_reason")),
            ("by", found.get("user")),
            ("data", found.get("meta_data") or None),
        ],
    )


@client(app, "follow")
def follow(
    api: Api, output: Output, cluster: Cluster = None, node: Node = None, level: Level = None
) -> None:
    """Print events as they come, one a line, until Ctrl-C."""
    from yaffle.cli.client.deadlines import pause

    filters = _filters(api, cluster, node, level)
    last = api.v1.listed("events", {**filters, "sort": "timestamp:desc"}, limit=1)
    marker = str(last[0].get("id")) if last else None
    while True:
        found = api.v1.listed("events", filters, marker=marker)
        _print(found, output)
        marker = str(found[-1].get("id")) if found else marker
        pause(FOLLOW_S)


def _print(found: Iterable[Row], output: Output) -> None:
    for event in found:
        print(json.dumps(event, default=str) if output.as_json else _line(event), flush=True)


def _line(event: Row) -> str:
    what = f"{event.get('action')} {event.get('status')}".strip()
    return clean(
        f"{moment(event.get('timestamp'))}  {shown(event.get('oname')):<12}  {what:<28}"
        f"  {shown(event.get('status_reason'))}"
    )
