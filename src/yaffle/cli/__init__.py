"""The command `yaffle`: every word a person types, and the one place where errors become exit codes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

    from yaffle.errors import YaffleError


def main(words: Sequence[str] | None = None) -> NoReturn:
    """Run `words`, by default those of the process; it ends with a code of `yaffle.cli.exit_codes`."""
    from yaffle.cli.app import tree
    from yaffle.errors import YaffleError

    try:
        words = sys.argv[1:] if words is None else words
        tree(words[0] if words else None)(args=words, prog_name="yaffle")
        sys.exit(0)
    except (YaffleError, ExceptionGroup) as error:
        sys.exit(_told(error))


def _told(error: YaffleError | ExceptionGroup[Exception]) -> int:
    """Print what failed, one line a fault; return the exit code. Lets what nobody expected crash."""
    from yaffle.cli.exit_codes import of_error
    from yaffle.errors import InvalidSpec, YaffleError, leaves

    known = [leaf for leaf in leaves(error) if isinstance(leaf, YaffleError)]
    if not known:
        raise error
    for each in known:
        lines = each.problems if isinstance(each, InvalidSpec) else str(each).splitlines()
        for line in (*lines, *each.hint.splitlines()):
            print(f"yaffle: {line}", file=sys.stderr)
    return of_error(known[0])
