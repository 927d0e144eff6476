"""`yaffle cluster attach`, `detach`, `policies` …: the policies of a cluster, on and off."""

from __future__ import annotations

from typing import Annotated

import typer

from yaffle.cli.client.action_progress import Work
from yaffle.cli.client.native import Api, Row, rows
from yaffle.cli.command import client, working
from yaffle.cli.commands.clusters import Cluster, app
from yaffle.cli.output import Output, moment, short

Policy = Annotated[str, typer.Argument(help="Name or id of a policy.")]


@client(app, "policies")
def policies(
    api: Api,
    output: Output,
    cluster: Cluster,
    kind: Annotated[
        str | None, typer.Option("--type", help="Only of this type, e.g. senlin.policy.health-1.3.")
    ] = None,
    policy: Annotated[str | None, typer.Option("--policy", help="Only the one so named.")] = None,
) -> None:
    """List the policies of a cluster."""
    answer = api.v1.get("clusters", cluster, "policies", policy_type=kind, policy_name=policy)
    output.table(
        answer,
        rows(answer, "cluster_policies"),
        [
            ("ID", lambda row: short(row.get("policy_id"))),
            ("NAME", "policy_name"),
            ("TYPE", "policy_type"),
            ("ON", "enabled"),
            ("LAST ACTED", lambda row: moment(row.get("last_op"))),
        ],
        empty="no policies; attach one: yaffle cluster attach CLUSTER POLICY",
    )


@working(app, "attach")
def attach(
    work: Work,
    cluster: Cluster,
    policy: Policy,
    disabled: Annotated[bool, typer.Option("--disabled", help="Attach it switched off.")] = False,
) -> None:
    """Attach a policy: with a health policy the nodes are watched and healed from now on."""
    data: Row = {"policy_id": policy, "enabled": not disabled}
    said = f"policy {policy} attached to cluster {cluster}"
    _act(work, cluster, "policy_attach", data, said)


@working(app, "detach")
def detach(
    work: Work,
    cluster: Cluster,
    policy: Policy,
) -> None:
    """Detach a policy: the nodes are no longer watched; recoveries under way go on."""
    said = f"policy {policy} detached from cluster {cluster}"
    _act(work, cluster, "policy_detach", {"policy_id": policy}, said)


@working(app, "policy-enable")
def policy_enable(
    work: Work,
    cluster: Cluster,
    policy: Policy,
) -> None:
    """Switch an attached policy on."""
    data: Row = {"policy_id": policy, "enabled": True}
    said = f"policy {policy} is on for cluster {cluster}"
    _act(work, cluster, "policy_update", data, said)


@working(app, "policy-disable")
def policy_disable(
    work: Work,
    cluster: Cluster,
    policy: Policy,
) -> None:
    """Switch an attached policy off, without detaching it."""
    data: Row = {"policy_id": policy, "enabled": False}
    said = f"policy {policy} is off for cluster {cluster}"
    _act(work, cluster, "policy_update", data, said)


def _act(
    work: Work,
    cluster: str,
    verb: str,
    data: Row,
    said: str,
) -> None:
    work.finish(
        work.api.v1.act("clusters", cluster, verb, data),
        f"cluster {cluster}",
        said=said,
        going=f"asked for: {said}",
    )
