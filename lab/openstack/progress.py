"""Tells a person who waits what is being done, and how many seconds it took."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager


class Progress:
    """One line for each stage; quiet for programs that do not want it."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._began_s = time.monotonic()

    def say(self, words: str) -> None:
        """Print a line."""
        if not self._quiet:
            print(words, flush=True)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Name what is done, then how long it took."""
        began_s = time.monotonic()
        if not self._quiet and sys.stdout.isatty():
            print(f"  {name} …", end="\r", flush=True)
        yield
        self.say(f"  {name:<44}{time.monotonic() - began_s:6.1f} s")

    def all_done(self) -> None:
        """Tell the sum."""
        self.say(f"  {'all of it':<44}{time.monotonic() - self._began_s:6.1f} s")
