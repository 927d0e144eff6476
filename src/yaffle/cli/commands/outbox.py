"""`yaffle outbox …`: news on its way to those who must hear of it."""

from __future__ import annotations

from typing import Annotated

import typer

from yaffle.cli.client.native import Api, rows
from yaffle.cli.command import client, group
from yaffle.cli.output import Output, clock_time

app = group("Outbox: notifications, and which are not delivered yet.")


@client(app, "list")
def list_(
    api: Api,
    output: Output,
    state: Annotated[
        str | None, typer.Option("--state", help="Only pending, parked or accepted ones.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="At most so many.")] = 100,
) -> None:
    """List messages: those that were not accepted first, then by age, the oldest first."""
    answer = api.get("outbox", state=state, limit=limit)
    output.table(
        answer,
        rows(answer, "messages"),
        [
            ("SEQ", "seq"),
            ("CREATED", lambda row: clock_time(row.get("created_us"))),
            ("NOTIFIER", "notifier"),
            ("TOPIC", "topic"),
            ("STATE", "state"),
            ("ATTEMPTS", "attempts"),
            ("LAST ERROR", lambda row: row.get("last_error") or None),
        ],
        empty="no messages",
    )


@client(app, "redeliver")
def redeliver(
    api: Api,
    output: Output,
    seq: Annotated[list[int] | None, typer.Argument(help="Default: all that are parked.")] = None,
) -> None:
    """Send parked messages again."""
    answer = api.post("outbox", "redeliver", body={"seqs": seq} if seq else {})
    output.say(answer, f"{answer.get('redelivered')} messages are pending again")
