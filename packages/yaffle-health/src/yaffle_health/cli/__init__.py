"""The command `yaffle-health`: ask processes how they are, from a shell, a script or a probe."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from yaffle_health.cli.codes import PROBE_FAILED, ExitCode
from yaffle_health.cli.parser import parse


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; `arguments` without the program's name."""
    probes = False
    try:
        try:
            asked = parse(arguments)
            probes = getattr(asked, "probe", False)
            return _run(asked)
        finally:
            # Here and not at the interpreter's end, where an error is a traceback and another code.
            if sys.stdout is not None:
                sys.stdout.flush()
    except BrokenPipeError:
        # `watch | head`: whoever read us has gone.
        _stop_writing()
        return PROBE_FAILED if probes else ExitCode.PIPE
    except OSError as error:
        _stop_writing()
        print(f"yaffle-health: cannot write the answer: {error.strerror}", file=sys.stderr)
        return PROBE_FAILED if probes else ExitCode.NOT_WRITTEN


def _run(asked: argparse.Namespace) -> int:
    # After the parser: --help and typing errors need nothing of this.
    from yaffle_health.cli.commands import COMMANDS, told
    from yaffle_health.errors import HealthError

    try:
        return int(COMMANDS[asked.command](asked))
    except HealthError as error:
        print(f"yaffle-health: {told(error)}", file=sys.stderr)
        return ExitCode.USAGE
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED


def _stop_writing() -> None:
    """Keep the interpreter from trying to flush again when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
