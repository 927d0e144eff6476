"""Runs one of OpenStack's daemons, Nova's with our hypervisor: `daemon.py MODULE ARGUMENT…`."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path


def main() -> None:
    """Import first: Nova decides while it is imported whether it works with threads."""
    module, *rest = sys.argv[1:]
    sys.argv = [module.rpartition(".")[2], *rest]
    command = importlib.import_module(module)
    if module == "nova.cmd.compute":
        import nova.virt  # type: ignore[import-not-found] # noqa: PLC0415

        # Nova looks for drivers in this package only.
        nova.virt.__path__.append(str(Path(__file__).parent / "virt"))
    sys.exit(command.main())


if __name__ == "__main__":
    main()
