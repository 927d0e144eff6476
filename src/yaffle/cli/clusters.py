"""`yaffle cluster …`: groups of equal nodes, the policy that watches them, and their storm brake."""

from __future__ import annotations

from typing import Annotated

import typer

from yaffle.cli import durations
from yaffle.cli.client import Api, Refused, Row, inner, items, rows
from yaffle.cli.command import client, group
from yaffle.cli.nodes import NODE_COLUMNS
from yaffle.cli.output import Output, clock_time, short
from yaffle.cli.waiting import TIMEOUT_S, NoWait, Stand, Timeout, WorkFailed, wait

app = group("Clusters: groups of equal nodes.")

Cluster = Annotated[str, typer.Argument(help="Name or id of a cluster.")]
Policy = Annotated[str, typer.Argument(help="Name or id of a policy.")]
_BUILDING = frozenset({"INIT", "CREATING"})


@client(app, "create")
def create(
    api: Api,
    output: Output,
    name: str,
    profile: Annotated[str, typer.Option("--profile", help="Name or id of a profile.")],
    size: Annotated[int, typer.Option("--size", min=0, help="How many nodes.")] = 1,
    policy: Annotated[
        str | None, typer.Option("--policy", help="Health policy to attach at once.")
    ] = None,
    no_wait: NoWait = False,
    timeout: Timeout = TIMEOUT_S,
) -> None:
    """Create a cluster and wait until its nodes are built."""
    body = {"name": name, "profile": profile, "size": size, "policy": policy}
    answer = api.post("clusters", body={k: v for k, v in body.items() if v is not None})
    ident = str(inner(answer, "cluster").get("id"))
    if no_wait:
        output.say(answer, f"cluster {name} is being created")
        return

    def look() -> Stand:
        nonlocal answer
        answer = api.get("clusters", ident)
        found = inner(answer, "cluster")
        nodes = list(items(found, "nodes"))
        over = [node for node in nodes if node.get("status") not in _BUILDING]
        failed = sum(node.get("status") == "ERROR" for node in over)
        text = f"{len(over) - failed} of {len(nodes)} nodes built"
        return Stand(
            text=f"{text}, {failed} could not be" if failed else text,
            done=found.get("status") not in _BUILDING and len(over) == len(nodes),
        )

    wait(f"cluster {name}", look, timeout_s=timeout, later=f"yaffle cluster show {name}")
    failed = [n for n in items(inner(answer, "cluster"), "nodes") if n.get("status") == "ERROR"]
    if failed:
        lines = [f"node {n.get('name')}: {n.get('status_reason')}" for n in failed]
        raise WorkFailed(
            "\n".join([f"cluster {name}: {_nodes(len(failed))} could not be built", *lines])
        )
    output.say(answer, f"cluster {name} created, {_nodes(size)}")


def _nodes(count: int) -> str:
    return f"{count} node{'' if count == 1 else 's'}"


@client(app, "list")
def list_(api: Api, output: Output) -> None:
    """List all clusters with the health of their nodes."""
    answer = api.get("clusters")
    output.table(
        answer,
        rows(answer, "clusters"),
        [
            ("ID", lambda row: short(row.get("id"))),
            ("NAME", "name"),
            ("STATUS", "status"),
            ("SIZE", "desired_capacity"),
            ("HEALTH", health_counts),
            ("HELD", lambda row: hold_counts(row) or None),
            ("POLICY", policy_names),
        ],
        empty="no clusters; create one: yaffle cluster create NAME --profile PROFILE --size 3",
    )


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
    """Show one cluster with its nodes."""
    answer = api.get("clusters", cluster)
    found = inner(answer, "cluster")
    output.facts(
        answer,
        [
            ("id", found.get("id")),
            ("name", found.get("name")),
            ("status", found.get("status")),
            ("reason", found.get("status_reason")),
            ("profile", found.get("profile")),
            ("policy", policy_names(found)),
            ("desired capacity", found.get("desired_capacity")),
            ("health", health_counts(found)),
            ("held", hold_counts(found) or None),
            ("brake released until", found.get("released_until_at")),
            ("created", clock_time(found.get("created_us"))),
        ],
    )
    if not output.as_json:
        print()
        output.table(answer, list(items(found, "nodes")), NODE_COLUMNS, empty="no nodes")


@client(app, "delete")
def delete(
    api: Api,
    output: Output,
    cluster: Cluster,
    no_wait: NoWait = False,
    timeout: Timeout = TIMEOUT_S,
) -> None:
    """Delete a cluster with all its nodes; recoveries under way stop at their next step."""
    answer = api.delete("clusters", cluster)
    ident = str(inner(answer, "cluster").get("id"))
    if no_wait:
        output.say(answer, f"cluster {cluster} is being deleted")
        return

    def look() -> Stand:
        try:
            left = list(items(inner(api.get("clusters", ident), "cluster"), "nodes"))
        except Refused as error:
            if error.status == 404:
                return Stand(text="gone", done=True)
            raise
        return Stand(text=f"{len(left)} nodes left")

    wait(f"cluster {cluster}", look, timeout_s=timeout, later=f"yaffle cluster show {cluster}")
    output.say({"deleted": cluster, "id": ident}, f"cluster {cluster} deleted")


@client(app, "attach")
def attach(
    api: Api,
    output: Output,
    cluster: Cluster,
    policy: Policy,
    disabled: Annotated[bool, typer.Option("--disabled", help="Attach it switched off.")] = False,
) -> None:
    """Attach a health policy: from now on the nodes are watched and healed."""
    body = {"policy": policy, "enabled": not disabled}
    answer = api.post("clusters", cluster, "policies", body=body)
    output.say(answer, f"policy {policy} attached to cluster {cluster}")


@client(app, "detach")
def detach(api: Api, output: Output, cluster: Cluster, policy: Policy) -> None:
    """Detach a policy: the nodes are no longer watched; recoveries under way go on."""
    answer = api.delete("clusters", cluster, "policies", policy)
    output.say(answer, f"policy {policy} detached from cluster {cluster}")


@client(app, "policy-enable")
def policy_enable(api: Api, output: Output, cluster: Cluster, policy: Policy) -> None:
    """Switch an attached policy on."""
    answer = api.patch("clusters", cluster, "policies", policy, body={"enabled": True})
    output.say(answer, f"policy {policy} is on for cluster {cluster}")


@client(app, "policy-disable")
def policy_disable(api: Api, output: Output, cluster: Cluster, policy: Policy) -> None:
    """Switch an attached policy off, without detaching it."""
    answer = api.patch("clusters", cluster, "policies", policy, body={"enabled": False})
    output.say(answer, f"policy {policy} is off for cluster {cluster}")


@client(app, "release")
def release(
    api: Api,
    output: Output,
    cluster: Cluster,
    reason: Annotated[str, typer.Option("--reason", help="Why it is safe to heal now.")],
    for_: Annotated[
        float, typer.Option("--for", parser=durations.option, metavar="TIME", help="How long.")
    ] = 600.0,
) -> None:
    """Release the storm brake for a while: heal although many nodes are sick."""
    answer = api.post("clusters", cluster, "release", body={"reason": reason, "for_s": for_})
    output.say(answer, f"storm brake of cluster {cluster} released for {durations.shown(for_)}")
