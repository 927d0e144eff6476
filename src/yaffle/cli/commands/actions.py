"""`yaffle action …`: what was asked for and is being done, its parts, and taking it back."""

from __future__ import annotations

from typing import Annotated

import typer

from yaffle.cli import durations
from yaffle.cli.client.action_progress import ENDED, action_of, follow
from yaffle.cli.client.native import Api, Row, inner
from yaffle.cli.client.waiting import TIMEOUT_S, Timeout
from yaffle.cli.command import Part, client, group, listing
from yaffle.cli.output import Output, moment, short

app = group("Actions: what was asked for, and how far it is.")

Action = Annotated[str, typer.Argument(help="Id of an action, or its beginning.")]


@listing(app, "list")
def list_(
    api: Api,
    output: Output,
    part: Part,
    cluster: Annotated[
        str | None, typer.Option("--cluster", help="Only this cluster's, nodes included.")
    ] = None,
    node: Annotated[str | None, typer.Option("--node", help="Only this node's.")] = None,
    action: Annotated[
        list[str] | None,
        typer.Option("--action", help="Only CLUSTER_RESIZE, NODE_CREATE, …; may be repeated."),
    ] = None,
    status: Annotated[
        list[str] | None,
        typer.Option("--status", help="Only RUNNING, FAILED, …; may be repeated."),
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="Only those of this name.")] = None,
) -> None:
    """List actions, the oldest first."""
    found = part.of(
        api,
        "actions",
        cluster_id=None if cluster is None else _id(api, "cluster", cluster),
        target=None if node is None else _id(api, "node", node),
        action=[word.upper() for word in action or []],
        status=[word.upper() for word in status or []],
        name=name,
    )
    output.table(
        {"actions": found},
        found,
        [
            ("ID", lambda row: short(row.get("id"))),
            ("ACTION", "action"),
            ("TARGET", lambda row: short(row.get("target"))),
            ("STATUS", "status"),
            ("CREATED", lambda row: moment(row.get("created_at"))),
            ("TOOK", took),
            ("REASON", lambda row: row.get("status_reason") or None),
        ],
        empty="no actions",
    )


def _id(api: Api, noun: str, ident: str) -> str:
    return str(inner(api.v1.get(f"{noun}s", ident), noun).get("id"))


def took(row: Row) -> str | None:
    """Return how long the work took; None while it goes on."""
    begun, ended = row.get("start_time"), row.get("end_time")
    if not isinstance(begun, (int, float)) or not isinstance(ended, (int, float)):
        return None
    return durations.shown(max(0.0, ended - begun))


@client(app, "show")
def show(api: Api, output: Output, action: Action) -> None:
    """Show one action with what it was given and what it waits for."""
    found = action_of(api, action)
    waits = found.get("depends_on")
    output.facts(
        {"action": found},
        [
            ("id", found.get("id")),
            ("name", found.get("name")),
            ("action", found.get("action")),
            ("target", found.get("target")),
            ("cluster", found.get("cluster_id")),
            ("cause", found.get("cause")),
            ("status", found.get("status")),
            ("reason", found.get("status_reason")),
            ("requested by", found.get("user")),
            ("done by", found.get("owner")),
            ("created", moment(found.get("created_at"))),
            ("took", took(found)),
            ("inputs", found.get("inputs") or None),
            ("outputs", found.get("outputs") or None),
            ("waits for", f"{len(waits)} parts" if isinstance(waits, list) and waits else None),
            ("is part of", found.get("depended_by") or None),
        ],
    )


@client(app, "wait")
def wait(api: Api, output: Output, action: Action, timeout: Timeout = TIMEOUT_S) -> None:
    """Wait for the end of an action; exit 0 only if it succeeded."""
    begun = action_of(api, action)
    what = f"action {short(begun.get('id'))}"
    row = follow(api, str(begun.get("id")), what, timeout_s=timeout)
    output.say({"action": row}, f"{what}: {row.get('action')} succeeded")


AtOnce = Annotated[
    bool,
    typer.Option("--force", help="Give its locks back at once, without waiting for its next step."),
]


@client(app, "cancel")
def cancel(api: Api, output: Output, action: Action, force: AtOnce = False) -> None:
    """Ask an action and its parts to stop at their next safe place; with --force at once."""
    query = {"force": "true"} if force else {}
    api.v1.patch("actions", action, body={"action": {"status": "CANCELLED"}}, **query)
    found = action_of(api, action)
    over = found.get("status") in ENDED
    ident = short(found.get("id"))
    going = f"asked to stop; see when it has: yaffle action wait {ident}"
    output.say({"action": found}, f"action {ident} {'cancelled' if over else going}")
