"""`yaffle node …` and `yaffle why`: one node, how it is, why, and what a person wants done with it."""

from __future__ import annotations

import json
from typing import Annotated, Final

import typer

from yaffle.cli.client import Api, Refused, Row, inner, items, rows
from yaffle.cli.command import client, group
from yaffle.cli.output import Column, Output, clock_time, short
from yaffle.cli.waiting import TIMEOUT_S, Held, NoWait, Stand, Timeout, WorkFailed, wait
from yaffle.errors import ConfigError

app = group("Nodes: what is watched and healed.")
mark_app = group("A person's word on a node; no check erases it.")
app.add_typer(mark_app, name="mark")

Node = Annotated[str, typer.Argument(help="Name or id of a node.")]
Reason = Annotated[str, typer.Option("--reason", help="Why, for whoever finds this at night.")]

_HELD_FOR_S: Final = 5.0
"""A request that is held this long is reported; shorter holds come and go with every pass."""


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


NODE_COLUMNS: Final[list[Column]] = [
    ("ID", lambda row: short(row.get("id"))),
    ("NAME", "name"),
    ("STATUS", "status"),
    ("HEALTH", lambda row: f"{row.get('health')}{' (gray)' if row.get('gray') else ''}"),
    ("SINCE", lambda row: clock_time(row.get("since_us"))),
    ("BACKEND", "backend_status"),
    ("DOING", lambda row: doing(row) or None),
]


@client(app, "list")
def list_(
    api: Api,
    output: Output,
    cluster: Annotated[str | None, typer.Option("--cluster", help="Only this cluster's.")] = None,
) -> None:
    """List nodes with their health."""
    answer = api.get("nodes", cluster=cluster)
    output.table(answer, rows(answer, "nodes"), NODE_COLUMNS, empty="no nodes")


@client(app, "show")
def show(api: Api, output: Output, node: Node) -> None:
    """Show one node."""
    answer = api.get("nodes", node)
    found = inner(answer, "node")
    retry, mark = inner(found, "retry"), inner(found, "mark")
    output.facts(
        answer,
        [
            ("id", found.get("id")),
            ("name", found.get("name")),
            ("cluster", found.get("cluster")),
            ("profile", found.get("profile")),
            ("status", found.get("status")),
            ("reason", found.get("status_reason")),
            ("health", found.get("health")),
            ("health reason", found.get("health_reason")),
            ("since", clock_time(found.get("since_us"))),
            ("backend", found.get("backend_status")),
            ("physical id", found.get("physical_id")),
            *((f"  {key}", value) for key, value in inner(found, "attributes").items()),
            ("doing", doing(found)),
            ("mark", f"{mark.get('reason')} (by {mark.get('by')})" if mark else None),
            ("needs a human", needs_human(found)),
            ("attempts", f"{retry.get('attempts')} of {retry.get('allowed')}" if retry else None),
            ("last seen", clock_time(found.get("seen_us"))),
        ],
    )


@client(app, "delete")
def delete(
    api: Api, output: Output, node: Node, no_wait: NoWait = False, timeout: Timeout = TIMEOUT_S
) -> None:
    """Delete one node; the cluster's desired capacity shrinks with it."""
    answer = api.delete("nodes", node)
    ident = str(inner(answer, "node").get("id"))
    if no_wait:
        output.say(answer, f"node {node} is being deleted")
        return

    def look() -> Stand:
        try:
            found = inner(api.get("nodes", ident), "node")
        except Refused as error:
            if error.status == 404:
                return Stand(text="gone", done=True)
            raise
        return Stand(text=str(found.get("status")))

    wait(f"node {node}", look, timeout_s=timeout, later=f"yaffle node show {node}")
    output.say({"deleted": node, "id": ident}, f"node {node} deleted")


@client(app, "recover")
def recover(
    api: Api,
    output: Output,
    node: Node,
    operation: Annotated[
        str | None,
        typer.Option("--operation", help="Instead of the policy's actions: REBOOT, RECREATE, …"),
    ] = None,
    param: Annotated[
        list[str] | None,
        typer.Option("--param", metavar="NAME=VALUE", help="Of the operation; may be repeated."),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Look first; leave a healthy node alone.")
    ] = False,
    no_wait: NoWait = False,
    timeout: Timeout = TIMEOUT_S,
) -> None:
    """Recover a node now: what a person asks for overrides the storm brake and cool-downs."""
    body: dict[str, object] = {"check": check, "params": dict(map(_param, param or []))}
    if operation is not None:
        body["operation"] = operation
    answer = api.post("nodes", node, "recover", body=body)
    ident = str(inner(answer, "action").get("id"))
    if no_wait:
        output.say(answer, f"recovery of node {node} asked for (action {short(ident)})")
        return
    last = Recovery(api, node, ident)
    wait(f"node {node}", last.look, timeout_s=timeout, later=f"yaffle why {node}")
    if last.row.get("status") != "SUCCEEDED":
        raise WorkFailed(
            f"node {node}: recovery {last.row.get('status')}: {last.row.get('status_reason')};"
            f" see `yaffle why {node}`"
        )
    output.say({"action": last.row}, f"node {node}: {last.row.get('status_reason')}")


class Recovery:
    """One recovery that a person asked for, looked at until its end."""

    def __init__(self, api: Api, node: str, action_id: str) -> None:
        from yaffle.cli.pace import Deadline

        self.row: Row = {}
        self._api = api
        self._node = node
        self._id = action_id
        self._patience = Deadline(_HELD_FOR_S)

    def look(self) -> Stand:
        """Return how far it is; raise Held when something stands in its way."""
        listed = rows(self._api.get("actions", node=self._node), "actions")
        self.row = next((row for row in listed if row.get("id") == self._id), {})
        status = str(self.row.get("status") or "unknown")
        if self.row.get("end_us") is not None:
            return Stand(text=status.lower(), done=True)
        if status in {"WAITING", "READY"}:
            why = inner(self._api.get("nodes", self._node, "why"), "why")
            held = str(inner(why, "held").get("reason") or "")
            if held and self._patience.over:
                raise Held(
                    f"node {self._node}: held ({held}); the request waits for its end,"
                    f" see `yaffle why {self._node}`"
                )
            return Stand(text=f"waiting{f': {held}' if held else ''}")
        return Stand(text=self._step() or status.lower())

    def _step(self) -> str:
        ident = self.row.get("incident_id")
        if not ident:
            return ""
        steps = list(items(inner(self._api.get("incidents", str(ident)), "incident"), "steps"))
        return f"{steps[-1].get('operation')} {steps[-1].get('stage')}" if steps else ""


def _param(text: str) -> tuple[str, object]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ConfigError(f"--param {text!r}: write NAME=VALUE, for example type=SOFT")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


@client(mark_app, "unhealthy")
def mark_unhealthy(api: Api, output: Output, node: Node, reason: Reason) -> None:
    """Say that a node is unhealthy: it is healed, and no check takes that back."""
    answer = api.post("nodes", node, "mark", body={"reason": reason})
    output.say(answer, f"node {node} marked unhealthy")


@client(mark_app, "healthy")
def mark_healthy(api: Api, output: Output, node: Node, reason: Reason = "") -> None:
    """Lift a mark: what the checks say counts again."""
    marked = inner(api.get("nodes", node), "node").get("mark")
    answer = api.delete("nodes", node, "mark", body={"reason": reason})
    output.say(answer, f"mark on node {node} lifted" if marked else f"node {node} had no mark")


def why(api: Api, output: Output, node: Node) -> None:
    """Explain how a node is, what was decided with every number, and what you can do."""
    answer = api.get("nodes", node, "why")
    lines = inner(answer, "why").get("lines")
    output.lines(answer, map(str, lines) if isinstance(lines, list) else ())
