"""`yaffle cluster check`, `recover`, `op`, `attrs`, `release` …: care for a cluster's nodes."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from yaffle.cli import durations
from yaffle.cli.client.action_progress import Work
from yaffle.cli.client.native import Api, Row, rows
from yaffle.cli.command import client, working
from yaffle.cli.commands.clusters import Cluster, app
from yaffle.cli.options import Param, pairs
from yaffle.cli.output import Output, short


@working(app, "check")
def check(
    work: Work,
    cluster: Cluster,
) -> None:
    """Look at every node now."""
    work.finish(
        work.api.v1.act("clusters", cluster, "check", {}),
        f"cluster {cluster}",
        said=f"cluster {cluster} checked; see `yaffle cluster show {cluster}`",
        going=f"cluster {cluster} is being checked",
    )


@working(app, "recover")
def recover(
    work: Work,
    cluster: Cluster,
    operation: Annotated[
        str | None,
        typer.Option("--operation", help="Instead of the policy's actions: REBOOT, RECREATE, …"),
    ] = None,
    param: Param = None,
    check_first: Annotated[bool, typer.Option("--check", help="Look at every node first.")] = False,
    check_capacity: Annotated[
        bool, typer.Option("--check-capacity", help="Also build the nodes that are missing.")
    ] = False,
) -> None:
    """Recover the nodes that are not well."""
    data: Row = {
        "operation": operation,
        "operation_params": pairs("--param", param),
        "check": check_first or None,
        "check_capacity": check_capacity or None,
    }
    work.finish(
        work.api.v1.act("clusters", cluster, "recover", data),
        f"cluster {cluster}",
        said=f"cluster {cluster} recovered",
        going=f"cluster {cluster} is being recovered",
    )


@working(app, "op")
def operate(
    work: Work,
    cluster: Cluster,
    operation: Annotated[
        str, typer.Argument(help="As `yaffle profile-type ops TYPE` shows them: reboot, stop, …")
    ],
    param: Param = None,
    filters: Annotated[
        list[str] | None,
        typer.Option(
            "--filter",
            metavar="KEY=VALUE",
            help="Only nodes with this name, profile_id, status or role; may be repeated.",
        ),
    ] = None,
) -> None:
    """Do one operation of the profile on the nodes."""
    chosen, params = pairs("--filter", filters), pairs("--param", param)
    data = {"filters": chosen, "params": params}
    body = {operation: {key: value for key, value in data.items() if value is not None}}
    work.finish(
        work.api.v1.start("POST", "clusters", cluster, "ops", body=body),
        f"cluster {cluster}",
        said=f"cluster {cluster}: {operation} done",
        going=f"cluster {cluster}: {operation} has begun",
    )


@client(app, "attrs")
def attributes(
    api: Api,
    output: Output,
    cluster: Cluster,
    path: Annotated[str, typer.Argument(help="JSONPath in a node, e.g. name or details.port.")],
) -> None:
    """Show one attribute of every node."""
    answer = api.v1.get("clusters", cluster, "attrs", path)
    output.table(
        answer,
        rows(answer, "cluster_attributes"),
        [
            ("NODE", lambda row: short(row.get("id"))),
            ("VALUE", lambda row: _plain(row.get("value"))),
        ],
        empty="no node has it",
    )


def _plain(value: object) -> object:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (dict, list)) else value


@working(app, "complete-lifecycle")
def complete_lifecycle(
    work: Work,
    cluster: Cluster,
    token: Annotated[
        str, typer.Argument(help="Id of the action that waits, as the hook was told it.")
    ],
) -> None:
    """Let an action go on that waits for a word from outside before it deletes a node."""
    work.finish(
        work.api.v1.act(
            "clusters", cluster, "complete_lifecycle", {"lifecycle_action_token": token}
        ),
        f"cluster {cluster}",
        said=f"cluster {cluster}: what waited is done",
        going=f"cluster {cluster}: what waited goes on",
    )


@client(app, "release")
def release(
    api: Api,
    output: Output,
    cluster: Cluster,
    reason: Annotated[str, typer.Option("--reason", help="Why it is safe to heal now.")],
    for_: Annotated[
        float,
        typer.Option(
            "--for", parser=durations.option, metavar="TIME", show_default="10m", help="How long."
        ),
    ] = 600.0,
) -> None:
    """Release the storm limit for a while: heal although many nodes are unhealthy."""
    answer = api.post("clusters", cluster, "release", body={"reason": reason, "for_s": for_})
    output.say(answer, f"storm limit of cluster {cluster} released for {durations.shown(for_)}")
