"""`yaffle demo`: a cluster of three real processes on this machine, one failure, one healing."""

from __future__ import annotations

from typing import Annotated

import typer


def demo(
    *,
    once: Annotated[
        bool,
        typer.Option(
            "--once", help="Tell the story of one failure and end; exit 0 only if it was healed."
        ),
    ] = False,
) -> None:
    """Start three web servers, kill one, and show how it is healed; then it is your turn.

    Needs nothing but this machine; everything lives in a temporary folder and is removed at the
    end, also with Ctrl-C. Where no other server runs, commands such as `yaffle status` find it by
    themselves.
    """
    from yaffle.cli.demo import ui

    code = ui.once() if once else ui.live()
    if code:
        raise typer.Exit(code)
