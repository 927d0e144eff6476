"""Cache of each stack's members, for as long as neither it nor a stack in it has changed.

The list of all stacks tells of every change, nested stacks included; only what a change has touched
is asked for again. What changes without Heat's status does (somebody marks a member unhealthy) is
found by looking now and then all the same.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from yaffle.drivers.profiles.heat_stack.api.documents import Resource, Stack

AGAIN_S: Final = 60.0
"""Between two looks at the members of a stack that has not changed, as far as time allows."""

Print = tuple[tuple[str, str, str], ...]
"""Id, status and time of the last change of a stack, and of every stack in it."""


def prints(stacks: Iterable[Stack]) -> dict[str, Print]:
    """Return what a change of anything in it would change, for every stack that is in no other."""
    every = list(stacks)
    inner: dict[str, list[Stack]] = {}
    for stack in every:
        if stack.parent:
            inner.setdefault(stack.parent, []).append(stack)
    found: dict[str, Print] = {}
    for root in every:
        if root.parent:
            continue
        tree, place = [root], 0
        while place < len(tree):
            tree += inner.get(tree[place].id, ())
            place += 1
        found[root.id] = tuple(sorted((s.id, s.status, s.updated or "") for s in tree))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The members of a stack as they were at some time."""

    mark: Print
    at_s: float
    """Monotonic."""
    resources: Sequence[Resource]


@dataclass(slots=True)
class Roster:
    """Shared by all threads of a profile; holds nothing of stacks that are in no list any more."""

    _known: dict[str, Known] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, ident: str, mark: Print) -> Known | None:
        """Return what is known of a stack that is so; None where it has changed since."""
        with self._lock:
            known = self._known.get(ident)
        return known if known is not None and known.mark == mark else None

    def note(self, ident: str, known: Known) -> None:
        """Remember the members of a stack."""
        with self._lock:
            self._known[ident] = known

    def keep(self, present: Mapping[str, Print]) -> None:
        """Forget every stack that is not there."""
        with self._lock:
            for ident in [ident for ident in self._known if ident not in present]:
                del self._known[ident]
