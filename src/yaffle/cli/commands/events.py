"""`yaffle events`: what happened, in its order, and what happens from now on."""

from __future__ import annotations

import json
from collections import deque
from typing import Annotated, Final

import typer

from yaffle.cli.client.native import Api, Row, inner, rows
from yaffle.cli.output import Output, clean, clock_time, shown

PAGE: Final = 1000
FOLLOW_S: Final = 0.5


def events(
    api: Api,
    output: Output,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until Ctrl-C.")] = False,
    node: Annotated[str | None, typer.Option("--node", help="Only this node's.")] = None,
    host: Annotated[
        str | None,
        typer.Option("--host", help="Only this host's, and its nodes' that failed with it."),
    ] = None,
    after: Annotated[int, typer.Option("--after", min=0, help="Only those after this SEQ.")] = 0,
    limit: Annotated[int, typer.Option("--limit", min=1, help="The latest so many.")] = 50,
) -> None:
    """Print the latest events; with --follow also those to come, one a line."""
    found: deque[Row] = deque(maxlen=limit)
    while page := rows(api.get("events", after=after, node=node, host=host, limit=PAGE), "events"):
        found.extend(page)
        after = _last(page)
        if len(page) < PAGE:
            break
    if not follow:
        output.lines({"events": list(found), "last": after}, map(line, found))
        return
    _print(found, output)
    _follow(api, output, after, node=node, host=host)


def _follow(api: Api, output: Output, after: int, **only: str | None) -> None:
    from yaffle.cli.client.deadlines import pause

    while True:
        page = rows(api.get("events", after=after, limit=PAGE, **only), "events")
        if page:
            _print(page, output)
            after = _last(page)
        pause(FOLLOW_S)


def _print(found: list[Row] | deque[Row], output: Output) -> None:
    for event in found:
        print(json.dumps(event, default=str) if output.as_json else line(event), flush=True)


def _last(page: list[Row]) -> int:
    return int(str(page[-1].get("seq")))


def line(event: Row) -> str:
    """Return one event on one line."""
    subject = inner(event, "object")
    what = f"{event.get('action')} {event.get('status')}".strip()
    return clean(
        f"{event.get('seq'):>6}  {clock_time(event.get('at_us'))}  {shown(subject.get('name')):<12}"
        f"  {what:<26}  {shown(event.get('reason'))}"
    )
