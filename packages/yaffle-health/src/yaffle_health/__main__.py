"""`python -m yaffle_health` where the command itself is not on PATH."""

from __future__ import annotations

import sys

from yaffle_health.cli import main

if __name__ == "__main__":
    sys.exit(main())
