"""`yaffle host-agent`: the agent of a host, which is one file with little memory."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Final

import typer

from yaffle.integrations import host_agent as agent

PYTHON: Final = (sys.executable, "-I", "-S")


def host_agent(
    words: Annotated[
        list[str] | None, typer.Argument(help="The agent's options; `--help` lists them.")
    ] = None,
) -> None:
    """Report to engines that this host lives, until it is stopped; it then says goodbye.

    It needs none of Yaffle's libraries, and none stays in memory.
    """
    os.execv(PYTHON[0], [*PYTHON, agent.__file__, *(words or [])])  # noqa: S606 - no shell
