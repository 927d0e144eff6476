"""`yaffle service list`: the engines that live, and those that were heard of last some time ago."""

from __future__ import annotations

from yaffle.cli.client.native import Api, rows
from yaffle.cli.command import client, group
from yaffle.cli.output import Output, moment, short

app = group("Services: the engines that do the work.")


@client(app, "list")
def list_(api: Api, output: Output) -> None:
    """List the engines, for administrators."""
    answer = api.v1.get("services")
    output.table(
        answer,
        rows(answer, "services"),
        [
            ("ID", lambda row: short(row.get("id"))),
            ("BINARY", "binary"),
            ("HOST", "host"),
            ("STATUS", "status"),
            ("STATE", "state"),
            ("LAST HEARTBEAT", lambda row: moment(row.get("updated_at"))),
        ],
        empty="no engine lives",
    )
