"""Runs several commands of one manager: `manage.py MODULE -- ARGUMENT… [-- ARGUMENT…]…`.

`nova-manage` needs five seconds to import itself and less than one to work, so each command is a
fork of one process that has imported.
"""

from __future__ import annotations

import importlib
import os
import sys


def split(words: list[str]) -> list[list[str]]:
    """Return the commands that are separated by `--`."""
    commands: list[list[str]] = []
    for word in words:
        if word == "--":
            commands.append([])
        else:
            commands[-1].append(word)
    return commands


def main() -> None:
    """Stop at the first command that fails, with its exit code told."""
    module, commands = sys.argv[1], split(sys.argv[2:])
    # Nova looks for --config-file while it is imported.
    sys.argv = [module, *commands[0]]
    manager = importlib.import_module(module)
    for command in commands:
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            sys.argv = [module, *command]
            sys.exit(manager.main())
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code:
            sys.exit(f"{module} {' '.join(command)}: exit code {code}")


if __name__ == "__main__":
    main()
