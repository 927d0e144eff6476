"""`yaffle incident …`: the story of each failure, with its steps, timings and proofs."""

from __future__ import annotations

from typing import Annotated

import typer

from yaffle.cli import durations
from yaffle.cli.client.native import Api, Row, inner, items, rows
from yaffle.cli.command import client, group
from yaffle.cli.output import Output, clean, clock_time, short, shown

app = group("Incidents: the story of each failure.")

Incident = Annotated[str, typer.Argument(help="Id of an incident, or its beginning.")]


@client(app, "list")
def list_(
    api: Api,
    output: Output,
    open_only: Annotated[bool, typer.Option("--open", help="Only those that go on.")] = False,
    node: Annotated[str | None, typer.Option("--node", help="Only this node's.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="At most so many.")] = 50,
) -> None:
    """List incidents, the latest first; that of a host before those of its nodes."""
    answer = api.get("incidents", open="true" if open_only else None, node=node, limit=limit)
    output.table(
        answer,
        rows(answer, "incidents"),
        [
            ("ID", lambda row: short(row.get("id"))),
            ("OPENED", lambda row: clock_time(row.get("opened_us"))),
            ("NODE", "node"),
            ("STATE", "state"),
            ("CAUSE", "cause"),
            ("TOOK", took),
            ("REASON", "reason"),
        ],
        empty="no incidents" if not open_only else "no open incidents",
    )


def took(row: Row) -> str | None:
    """Return how long it lasted, from its first failing check to its end; None while it goes on."""
    ms = row.get("took_ms")
    return durations.shown(float(str(ms)) / 1000) if _number(ms) else None


@client(app, "show")
def show(api: Api, output: Output, incident: Incident) -> None:
    """Show one incident: every step of every attempt with its time and result, and the proofs."""
    answer = api.get("incidents", incident)
    found = inner(answer, "incident")
    output.facts(
        answer,
        [
            ("id", found.get("id")),
            ("node", found.get("node")),
            ("cluster", found.get("cluster")),
            ("state", found.get("state")),
            ("cause", found.get("cause")),
            ("reason", found.get("reason")),
            ("opened", clock_time(found.get("opened_us"))),
            ("took", took(found)),
            ("acknowledged by", found.get("acknowledged_by")),
        ],
    )
    if not output.as_json:
        print()
        for line in story(found):
            print(line)


def last_step(incident: Row) -> Row:
    """Return the newest step of the attempt that the incident is at; empty before its first."""
    now = incident.get("action_id")
    return next((s for s in [*items(incident, "steps")][::-1] if s.get("action_id") == now), {})


def story(incident: Row) -> list[str]:
    """Return the time line: `+1.0 s  detected`, each step, each proof."""
    marks = [(ms, name, "") for name, ms in inner(incident, "timeline_ms").items() if _number(ms)]
    marks += [
        (step.get("at_ms"), f"{step.get('stage')} {step.get('operation')}".rstrip(), _end(step))
        for step in items(incident, "steps")
        if _number(step.get("at_ms"))
    ]
    # By time alone: things of the same moment stay in the order in which they were told.
    marks.sort(key=lambda mark: float(str(mark[0])))
    lines = [f"{_plus(ms):>10}  {name:<18}  {text}".rstrip() for ms, name, text in marks]
    for proof in items(incident, "proofs"):
        waived = " (proof waived by policy)" if proof.get("waived") else ""
        lines.append(f"    proof:  {proof.get('method')}: {shown(proof.get('evidence'))}{waived}")
    return [clean(line) for line in lines]


def _end(step: Row) -> str:
    ms = step.get("took_ms")
    time = f" in {durations.shown(float(str(ms)) / 1000)}" if _number(ms) else ""
    return f"{step.get('result') or step.get('phase')}{time}: {shown(step.get('detail'))}"


def _plus(ms: object) -> str:
    return f"+{durations.shown(float(str(ms)) / 1000)}"


def _number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


@client(app, "ack")
def ack(api: Api, output: Output, incident: Incident) -> None:
    """Say that you have seen it: the node's retry budget is full again."""
    answer = api.post("incidents", incident, "acknowledge")
    output.say(answer, f"incident {incident} acknowledged; Yaffle may try again")
