"""Commands that start long work wait for its end, show how far it is, and say how to go on later."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Final

import typer

from yaffle.cli import durations
from yaffle.cli.output import clean, note
from yaffle.errors import Conflict, YaffleError

POLL_S: Final = 0.25
TIMEOUT_S: Final = 600.0

NoWait = Annotated[bool, typer.Option("--no-wait", help="Return at once; the work goes on.")]
Timeout = Annotated[
    float,
    typer.Option(
        "--timeout",
        parser=durations.option,
        metavar="TIME",
        help="Wait at most so long, e.g. 90s or 15m; the work goes on.",
    ),
]


class NotInTime(YaffleError):
    """We stopped waiting; the work goes on."""


class WorkFailed(YaffleError):
    """The work came to an end, and not to a good one."""


class Held(Conflict):
    """The work waits for something that only a person or time will lift."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stand:
    """The progress of the work."""

    text: str
    done: bool = False


def wait(
    what: str, look: Callable[[], Stand], *, timeout_s: float, later: str, quiet: bool = False
) -> Stand:
    """Look until the work is done; raise NotInTime after `timeout_s`, and whatever `look` raises."""
    from yaffle.cli.client.deadlines import Deadline, limited, pause

    deadline = Deadline(timeout_s)
    try:
        with _progress(what, quiet=quiet) as tell, limited(deadline):
            while not (stand := look()).done:
                tell(stand.text)
                if deadline.over:
                    raise NotInTime(
                        f"{what}: not finished within {durations.shown(timeout_s)} ({stand.text});"
                        f" it goes on, see `{later}`"
                    )
                pause(min(POLL_S, deadline.left_s))
            tell(stand.text)
    except KeyboardInterrupt:
        note(f"{what}: it goes on without you, see `{later}`")
        raise
    return stand


@contextmanager
def _progress(what: str, *, quiet: bool) -> Iterator[Callable[[str], None]]:
    """Yield what shows progress: a live line on a terminal, else one line per change."""
    if quiet:
        yield lambda _: None
        return
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.markup import escape

        with Console(stderr=True).status(escape(what)) as status:
            yield lambda text: status.update(escape(clean(f"{what}: {text}")))
        return
    last = ""

    def tell(text: str) -> None:
        nonlocal last
        if text != last:
            note(f"{what}: {text}")
        last = text

    yield tell
