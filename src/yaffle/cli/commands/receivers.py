"""`yaffle receiver …`: addresses that start an action of a cluster for whoever knows them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from yaffle.cli import durations
from yaffle.cli.client.native import Api, Row, inner
from yaffle.cli.command import Part, client, group, listing
from yaffle.cli.options import SameName, pairs, unused
from yaffle.cli.output import Output, moment, short, shown
from yaffle.errors import ConfigError

app = group("Receivers: addresses that start an action of a cluster.")

Receiver = Annotated[str, typer.Argument(help="Name or id of a receiver.")]
Action = Annotated[
    str | None, typer.Option("--action", help="What it starts: CLUSTER_SCALE_OUT, …")
]
Params = Annotated[
    list[str] | None,
    typer.Option("--param", metavar="NAME=VALUE", help="Input of the action; may be repeated."),
]
Expires = Annotated[
    str | None,
    typer.Option("--expires", metavar="TIME", help="It ends after 12h, 30d, …; or never."),
]


def _end(text: str | None) -> dict[str, object]:
    """Return when it ends as the API wants it; nothing where nothing is said."""
    if text is None:
        return {}
    if text == "never":
        return {"expires_at": None}
    from yaffle.engine.runtime.clock import SystemClock

    at_s = SystemClock().now_us() / 1e6 + durations.option(text)
    return {"expires_at": f"{datetime.fromtimestamp(at_s, UTC):%Y-%m-%dT%H:%M:%SZ}"}


@client(app, "create")
def create(
    api: Api,
    output: Output,
    name: str,
    cluster: Annotated[str, typer.Option("--cluster", help="Name or id of a cluster.")],
    action: Annotated[str, typer.Option("--action", help="What it starts: CLUSTER_SCALE_OUT, …")],
    param: Params = None,
    expires: Expires = None,
    kind: Annotated[str, typer.Option("--type", help="Only webhook is known.")] = "webhook",
    same_name: SameName = False,
) -> None:
    """Create a receiver and print its address, which is a password for its action."""
    unused(api, "receiver", name, same_name=same_name)
    body = {
        "name": name,
        "type": kind,
        "cluster_id": cluster,
        "action": action.upper(),
        "params": pairs("--param", param) or {},
        **_end(expires),
    }
    answer = api.v1.post("receivers", body={"receiver": body})
    address = _address(inner(answer, "receiver"))
    output.say(answer, f"receiver {name} created; a POST to its address starts it:\n{address}")


def _address(row: Row) -> str:
    return shown(inner(row, "channel").get("alarm_url") or "-")


@listing(app, "list")
def list_(
    api: Api,
    output: Output,
    part: Part,
    cluster: Annotated[str | None, typer.Option("--cluster", help="Only this cluster's.")] = None,
    action: Action = None,
    name: Annotated[str | None, typer.Option("--name", help="Only those of this name.")] = None,
) -> None:
    """List receivers."""
    where = None
    if cluster is not None:
        where = str(inner(api.v1.get("clusters", cluster), "cluster").get("id"))
    found = part.of(api, "receivers", cluster_id=where, action=action and action.upper(), name=name)
    output.table(
        {"receivers": found},
        found,
        [
            ("ID", lambda row: short(row.get("id"))),
            ("NAME", "name"),
            ("TYPE", "type"),
            ("CLUSTER", lambda row: short(row.get("cluster_id"))),
            ("ACTION", "action"),
            ("CREATED", lambda row: moment(row.get("created_at"))),
            ("ENDS", lambda row: moment(row.get("expires_at"))),
        ],
        empty="no receivers; create one: yaffle receiver create NAME --cluster CLUSTER --action ACTION",
    )


@client(app, "show")
def show(api: Api, output: Output, receiver: Receiver) -> None:
    """Show a receiver with its address."""
    answer = api.v1.get("receivers", receiver)
    found = inner(answer, "receiver")
    output.facts(
        answer,
        [
            ("id", found.get("id")),
            ("name", found.get("name")),
            ("type", found.get("type")),
            ("cluster", found.get("cluster_id")),
            ("action", found.get("action")),
            ("params", found.get("params") or None),
            ("address", _address(found)),
            ("of", found.get("user")),
            ("created", moment(found.get("created_at"))),
            ("ends", moment(found.get("expires_at"))),
        ],
    )


@client(app, "update")
def update(
    api: Api,
    output: Output,
    receiver: Receiver,
    name: Annotated[str | None, typer.Option("--name", help="A new name.")] = None,
    action: Action = None,
    param: Params = None,
    expires: Expires = None,
) -> None:
    """Change name, action, params or end; the address stays."""
    given = {
        "name": name,
        "action": action and action.upper(),
        "params": pairs("--param", param),
    }
    body = {key: value for key, value in given.items() if value is not None} | _end(expires)
    if not body:
        raise ConfigError("receiver update: give --name, --action, --param or --expires")
    answer = api.v1.patch("receivers", receiver, body={"receiver": body})
    output.say(answer, f"receiver {receiver} updated")


@client(app, "delete")
def delete(api: Api, output: Output, receiver: Receiver) -> None:
    """Delete a receiver: its address is dead at once."""
    api.v1.delete("receivers", receiver)
    output.say({"deleted": receiver}, f"receiver {receiver} deleted")
