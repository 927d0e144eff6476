"""The demo as it goes on: a picture that renews itself on a terminal, lines elsewhere."""

from __future__ import annotations

import shutil
import sys
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from yaffle.cli import durations
from yaffle.cli.client.deadlines import CLOCK, Deadline, pause
from yaffle.cli.client.native import Api, Row, inner, rows
from yaffle.cli.commands.incidents import last_step
from yaffle.cli.commands.nodes import hold_reason
from yaffle.cli.demo import scenario
from yaffle.cli.demo.fixture import World, inspect_node
from yaffle.cli.output import clean, clock_time, shown
from yaffle.errors import DependencyError

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import RenderableType

PACE_S: Final = 0.4
ASK_S: Final = 0.25
EVENTS: Final = 8
FIRST_FAILURE_S: Final = 2.0
"""Everybody is seen well for this long before the first one is killed."""
_STYLES: Final = {
    "healthy": "green",
    "suspect": "yellow",
    "unhealthy": "bold red",
    "unknown": "magenta",
    "initializing": "cyan",
}


@dataclass(slots=True, kw_only=True)
class Board:
    """The lines that are shown."""

    url: str
    now_us: int = 0
    nodes: list[Row] = field(default_factory=list)
    pids: dict[str, int | None] = field(default_factory=dict)
    events: deque[Row] = field(default_factory=lambda: deque(maxlen=EVENTS))
    fresh: list[Row] = field(default_factory=list)
    """Events that were not there the last time."""
    open: dict[str, Row] = field(default_factory=dict)
    """Open incidents with their steps, by node."""
    last: int = 0
    told: list[str] = field(default_factory=list)
    """The story of the failure that we made."""
    over: bool = False
    """Whether that story has ended."""

    def look(self, api: Api) -> None:
        """Ask the server and the nodes how things are; raises what `api` raises."""
        self.now_us = CLOCK.now_us()
        self.nodes = sorted(rows(api.get("nodes"), "nodes"), key=lambda row: str(row.get("name")))
        for node in self.nodes:
            found = inspect_node(node, ASK_S)
            self.pids[str(node.get("name"))] = found.pid if found else None
        self.fresh = rows(api.get("events", after=self.last, limit=1000), "events")
        self.events.extend(self.fresh)
        if self.fresh:
            self.last = int(str(self.fresh[-1].get("seq")))
        listed = rows(api.get("incidents", open="true", limit=20), "incidents")
        self.open = {
            str(row.get("node")): inner(api.get("incidents", str(row.get("id"))), "incident")
            for row in listed
        }

    def doing(self, node: Row) -> str:
        """Return what is being done with a node and why, and for how long."""
        incident = self.open.get(str(node.get("name")))
        held = hold_reason(node)
        if incident is None:
            return f"held: {held}" if held else shown(node.get("health_reason") or "")
        opened = incident.get("opened_us")
        age = (
            durations.shown(max(0, self.now_us - opened) / 1e6) if isinstance(opened, int) else "?"
        )
        step = last_step(incident)
        now = f"{step.get('stage')} {step.get('operation')}" if step else ""
        what = f"held: {held}" if held else now or str(incident.get("state"))
        return f"{what} for {age}: {shown(incident.get('cause'))}"


def watch(world: World, api: Api) -> None:
    """Show the first failure, then everything, until a signal's KeyboardInterrupt."""
    if sys.stdout.isatty():
        _on_terminal(world, api)
    else:
        board = Board(url=world.url)
        print(f"server: {world.url}", flush=True)
        _go_on(world, api, board, Printer(board))


def _on_terminal(world: World, api: Api) -> None:
    from rich.console import Console
    from rich.live import Live

    board = Board(url=world.url)
    console = Console()
    with Live(console=console, auto_refresh=False) as live:
        _go_on(world, api, board, lambda: live.update(picture(board, console.height), refresh=True))


def _go_on(world: World, api: Api, board: Board, draw: Callable[[], None]) -> None:
    """Look and draw for ever; kill one node early on and keep its story."""
    wait, failure = Deadline(FIRST_FAILURE_S), None
    while True:
        try:
            board.look(api)
            if failure is None and wait.over:
                failure = scenario.fail_one(world, api)
                board.told = [f"kill -9 {failure.pid}: {failure.name} is gone"]
            if failure is not None and not board.over:
                board.over = _follow(api, failure, board)
        except DependencyError as error:
            # Somebody may well try to kill the server, too.
            board.fresh, board.told = [], [f"the server is away: {error}"]
        draw()
        pause(PACE_S)


def _follow(api: Api, failure: scenario.Failure, board: Board) -> bool:
    """Bring the story up to date; return whether it is over."""
    incident = scenario.incident_of(api, failure)
    if incident is None:
        return False
    marks = scenario.timeline(failure, incident)
    told = [f"kill -9 {failure.pid}: {failure.name} is gone", *scenario.lines(failure, marks)]
    over = scenario.ended(incident)
    if over:
        pid = board.pids.get(failure.name)
        back = pid is not None and pid != failure.pid
        told.append(
            f"verified: process {pid} answers in place of {failure.pid}"
            if back
            else "not back yet: nothing new answers at its address"
        )
        over = back or incident.get("state") != "recovered"
    board.told = told
    return over


def hints(board: Board) -> list[str]:
    """Return what to try next, ready to be copied into another terminal."""
    alive = [(name, pid) for name, pid in board.pids.items() if pid is not None]
    if not alive:
        return []
    (first, first_pid), (last, last_pid) = alive[0], alive[-1]
    us = f"YAFFLE_SERVER={board.url} {_ourselves()}"
    return [
        f"kill -9 {first_pid}      # end {first} at once",
        f"kill -STOP {last_pid}   # freeze {last}: it is there, and answers nothing",
        f"{us} why {first}",
        f"{us} status",
    ]


def _ourselves() -> str:
    """Return how this program is called from the folder we are in."""
    found, called = shutil.which("yaffle"), Path(sys.argv[0])
    if called.name != "yaffle":
        return f"{sys.executable} -m yaffle.cli"
    if found and Path(found).resolve() == called.resolve():
        return "yaffle"
    return str(called.absolute())


# --- lines ---------------------------------------------------------------------------------------


class Printer:
    """Prints what is new: events as they come, the story when it is over, then what to try."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._told: list[str] = []

    def __call__(self) -> None:
        """Print what is new since the last time."""
        board = self._board
        for event in board.fresh:
            print(_event_line(event), flush=True)
        if board.told != self._told and (board.over or len(board.told) == 1):
            for line in board.told[len(self._told) :]:
                print(line, flush=True)
            self._told = board.told
            if board.over:
                print("it goes on; try in another terminal:", flush=True)
                for line in hints(board):
                    print(f"  {line}", flush=True)


def _event_line(event: Row) -> str:
    subject = shown(inner(event, "object").get("name"))
    what = f"{event.get('action')} {event.get('status')}".strip()
    time = clock_time(event.get("at_us")).partition(" ")[2]
    return clean(f"{time}  {subject:<8} {what:<24} {shown(event.get('reason'))}")


# --- picture -------------------------------------------------------------------------------------


def picture(board: Board, height: int) -> RenderableType:
    """Return the whole view; on a low terminal the oldest events make room."""
    from rich.console import Group
    from rich.rule import Rule
    from rich.text import Text

    def part(title: str, lines: list[str], style: str = "") -> list[RenderableType]:
        texts = [Text(line, style=style, no_wrap=True, overflow="ellipsis") for line in lines]
        return [Rule(title, align="left", style="dim"), *texts]

    above: list[RenderableType] = [
        Rule(f"yaffle demo, server {board.url}", align="left"),
        _table(board),
        *(part("the first failure", board.told) if board.told else ()),
        *part("in another terminal (Ctrl-C here ends the demo)", hints(board), "bold"),
    ]
    room = max(1, height - len(above) - len(board.nodes) - 2)
    events = [_event_line(event) for event in board.events][-room:]
    return Group(*above, *part("events", events))


def _table(board: Board) -> RenderableType:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, expand=True)
    for heading in ("NODE", "PID", "PORT", "STATUS", "HEALTH", "SINCE"):
        table.add_column(heading, no_wrap=True)
    table.add_column("DOING", ratio=1, no_wrap=True, overflow="ellipsis")
    for node in board.nodes:
        since, health = node.get("since_us"), str(node.get("health"))
        age = durations.shown(max(0, board.now_us - since) / 1e6) if isinstance(since, int) else "-"
        table.add_row(
            *(
                Text(clean(shown(value)))
                for value in (
                    node.get("name"),
                    board.pids.get(str(node.get("name"))),
                    inner(node, "attributes").get("port"),
                    node.get("status"),
                )
            ),
            Text(health, style=_STYLES.get(health, "")),
            Text(age),
            Text(clean(board.doing(node))),
        )
    return table
