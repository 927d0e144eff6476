"""Whatever has a lock or a memory of its own begins anew in a forked child, before other code runs there.

A lock that another thread held at the fork is held for ever in the child, and what the parent's
connections felt like says nothing about the child's.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Renewed(Protocol):
    """Something that is one process's own."""

    def start_afresh_after_fork(self) -> None:
        """Be a new process's: a lock that nobody holds, nothing remembered, nothing waited for."""


_known: weakref.WeakSet[Renewed] = weakref.WeakSet()


def renew_in_children(thing: Renewed) -> None:
    """Let it start afresh in every child that is forked while it lives."""
    _known.add(thing)


def _after_fork_in_child() -> None:
    for thing in list(_known):
        thing.start_afresh_after_fork()


os.register_at_fork(after_in_child=_after_fork_in_child)
