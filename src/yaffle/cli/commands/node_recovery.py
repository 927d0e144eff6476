"""`yaffle node recover` and `yaffle node mark`: a person's word on a node, which overrides guards."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from yaffle.cli.client.action_progress import Work
from yaffle.cli.client.native import Api, Refused, Row, inner, rows
from yaffle.cli.client.waiting import Held, WorkFailed
from yaffle.cli.command import client, group, working
from yaffle.cli.commands.incidents import last_step
from yaffle.cli.commands.nodes import Node, app
from yaffle.cli.options import Param, pairs
from yaffle.cli.output import Output, moment, short, shown

mark_app = group("A person's word on a node; no check erases it.")
app.add_typer(mark_app, name="mark")

Reason = Annotated[str, typer.Option("--reason", help="Why, for whoever finds this at night.")]

_HELD_FOR_S: Final = 5.0
"""A request that is held this long is reported; shorter holds come and go with every pass."""


@working(app, "recover")
def recover(
    work: Work,
    node: Node,
    operation: Annotated[
        str | None,
        typer.Option("--operation", help="Instead of the policy's actions: REBOOT, RECREATE, …"),
    ] = None,
    param: Param = None,
    check: Annotated[
        bool, typer.Option("--check", help="Look first; leave a healthy node alone.")
    ] = False,
    delete_timeout: Annotated[
        int | None,
        typer.Option("--delete-timeout", min=1, help="Seconds for the old copy to be gone."),
    ] = None,
    force_recreate: Annotated[
        bool,
        typer.Option(
            "--force-recreate", help="Build anew although the old copy may live; it is recorded."
        ),
    ] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Also if it has to wait, and the node is well by then; else that is looked at first.",
        ),
    ] = False,
) -> None:
    """Recover a node now: what a person asks for overrides the storm limit and cool-downs."""
    data: Row = {
        "operation": operation,
        "operation_params": pairs("--param", param),
        "check": check or None,
        "delete_timeout": delete_timeout,
        "force_recreate": force_recreate or None,
        "force": force or None,
    }
    started = work.api.v1.act("nodes", node, "recover", data)
    if work.no_wait:
        work.left(started, f"node {node} is being recovered")
        return
    beside = Beside(work.api, node)
    try:
        row = work.follow(started, f"node {node}", beside.says)
    except WorkFailed as failed:
        raise WorkFailed(f"{failed}; see `yaffle why {node}`") from None
    work.output.say({"action": row}, f"node {node}: {shown(row.get('status_reason'))}")


class Beside:
    """The part of a recovery that the clustering API does not tell: its steps, and what holds it."""

    def __init__(self, api: Api, node: str) -> None:
        from yaffle.cli.client.deadlines import Deadline

        self._api = api
        self._node = node
        self._patience = Deadline(_HELD_FOR_S)

    def says(self, action: Row) -> str:
        """Return how far it is; raise Held when something stands in its way."""
        ident = str(action.get("target"))
        try:
            if action.get("status") in {"WAITING", "READY"}:
                return self._waiting(ident, action)
            return self._step(ident)
        except Refused as error:
            if error.status == 404:
                return ""
            raise

    def _waiting(self, ident: str, action: Row) -> str:
        why = inner(self._api.get("nodes", ident, "why"), "why")
        held = str(inner(why, "held").get("reason") or "")
        if held and self._patience.over:
            until = moment(inner(why, "doing").get("expires_at"))
            raise Held(
                f"node {self._node}: held ({held}); the request waits until {until} at the longest,"
                f" see `yaffle why {self._node}`; take it back:"
                f" `yaffle action cancel {short(action.get('id'))}`"
            )
        return f"waiting{f': {held}' if held else ''}"

    def _step(self, ident: str) -> str:
        answer = self._api.get("incidents", open="true", node=ident, limit=1)
        for row in rows(answer, "incidents"):
            incident = inner(self._api.get("incidents", str(row.get("id"))), "incident")
            if step := last_step(incident):
                return f"{step.get('operation')} {step.get('stage')}"
        return ""


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
