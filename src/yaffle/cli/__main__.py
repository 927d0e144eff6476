"""`python -m yaffle.cli`: the same command where no `yaffle` lies on the path."""

from __future__ import annotations

from yaffle.cli import main

if __name__ == "__main__":
    main()
