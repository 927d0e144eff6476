"""`yaffle engines`: who watches how much, who was lost, and whether anything is watched by nobody."""

from __future__ import annotations

from typing import Annotated

import typer

from yaffle.cli.client.native import Api, Row, inner, items, rows
from yaffle.cli.output import Output, clock_time, note


def engines(
    api: Api,
    output: Output,
    ended: Annotated[bool, typer.Option("--all", help="Also those that have ended.")] = False,
) -> None:
    """List the engines of the last day, and how much of everything they watch."""
    answer = api.get("engines", all="true" if ended else None)
    output.table(
        answer,
        rows(answer, "engines"),
        [
            ("HOST", "host"),
            ("PID", "pid"),
            ("EPOCH", "epoch"),
            ("VERSION", "version"),
            ("SCHEMA", "schema"),
            ("STATE", "state"),
            ("SEEN", lambda row: clock_time(row.get("seen_us"))),
            ("CLUSTERS", "watches"),
            ("NODES", "nodes"),
            ("BLIND FOR", _blind),
        ],
        empty="no engine lives: nothing is watched or healed",
    )
    if not output.as_json:
        note(_coverage(inner(answer, "coverage")))


def _blind(row: Row) -> str | None:
    return ", ".join(str(one.get("cluster")) for one in items(row, "blind_for")) or None


def _coverage(found: Row) -> str:
    told = (
        f"{found.get('nodes_watched')} of {found.get('nodes')} nodes in"
        f" {found.get('clusters_watched')} of {found.get('clusters')} clusters are watched"
    )
    if not found.get("longest_unwatched_s"):
        return told
    return f"{told}; some cluster has been watched by nobody for {found['longest_unwatched_s']} s"
