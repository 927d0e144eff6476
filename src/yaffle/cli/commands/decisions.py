"""`yaffle decision …`: what was decided, and whether a replay is consistent with it."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from yaffle.cli import durations
from yaffle.cli.client.native import Api, Row, inner, items, rows
from yaffle.cli.command import client, group
from yaffle.cli.exit_codes import ExitCode
from yaffle.cli.output import Output, clean, clock_time

app = group("Decisions: each with all it was made from.")

PAGE: Final = 200

Since = Annotated[
    float | None,
    typer.Option(
        "--since", parser=durations.option, metavar="TIME", help="Only the last 90s, 2h, 1d, …"
    ),
]
Node = Annotated[str | None, typer.Option("--node", help="Only about this node.")]


@client(app, "list")
def list_(
    api: Api,
    output: Output,
    node: Node = None,
    since: Since = None,
    after: Annotated[int, typer.Option("--after", min=0, help="Only those after this SEQ.")] = 0,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="At most so many.")] = 100,
) -> None:
    """List decisions in their order; with --json each with everything it was made from."""
    answer = api.get("decisions", after=after, within_s=since, node=node, limit=limit)
    output.table(
        answer,
        rows(answer, "decisions"),
        [
            ("SEQ", "seq"),
            ("AT", lambda row: clock_time(row.get("at_us"))),
            ("NODE", lambda row: row.get("node") or row.get("node_id")),
            ("DECISION", "kind"),
            ("REASON", lambda row: row.get("reason") or None),
            ("AGREES", _agrees),
            ("NUMBERS", "numbers"),
        ],
        empty="no decisions",
    )


def _agrees(row: Row) -> str:
    found = inner(row, "recheck").get("agrees")
    return "?" if found is None else "yes" if found else "NO"


@client(app, "check")
def check(api: Api, output: Output, node: Node = None, since: Since = None) -> None:
    """Decide everything once more from what is stored with it; exit 1 where that differs.

    A difference is a fault of Yaffle's or of the database: what was done was not what was decided,
    or a row was changed. Decisions of versions that did not store enough are counted apart.
    """
    counts = {"checked": 0, "agreed": 0, "not_recheckable": 0}
    disagreed: list[Row] = []
    after = 0
    while True:
        answer = api.get("decisions", "check", after=after, within_s=since, node=node, limit=PAGE)
        found = inner(answer, "check")
        for name in counts:
            counts[name] += int(str(found.get(name)))
        disagreed += items(found, "disagreed")
        after = int(str(found.get("last")))
        if int(str(found.get("checked"))) < PAGE:
            break
    output.lines({**counts, "disagreed": disagreed}, [*map(_line, disagreed), _sum(counts)])
    if disagreed:
        raise typer.Exit(ExitCode.FAILED)


def _line(row: Row) -> str:
    what = f"{row.get('kind')} {row.get('reason') or ''}".strip()
    node = row.get("node") or row.get("node_id")
    return clean(
        f"{row.get('seq')}  {clock_time(row.get('at_us'))}  {node} {what}: {row.get('why')}"
    )


def _sum(counts: dict[str, int]) -> str:
    checked, agreed, unknown = counts["checked"], counts["agreed"], counts["not_recheckable"]
    differ = checked - agreed - unknown
    old = f", {unknown} were stored without what they were made from" if unknown else ""
    return f"{checked} decisions: {agreed} come to the same, {differ} do not{old}"
