"""The command `yaffle-health`: ask processes how they are, from a shell, a script or a probe."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from yaffle_health.cli.codes import ExitCode
from yaffle_health.cli.parser import parse


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; `arguments` without the program's name."""
    asked = parse(arguments)
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
    except BrokenPipeError:
        # `watch | head`: whoever read us has gone. The interpreter must not try to flush again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.PIPE
