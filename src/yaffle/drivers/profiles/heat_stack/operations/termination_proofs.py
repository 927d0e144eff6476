"""Termination proofs kept: a large stack is proved to have ended bit by bit."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

KEPT: Final = 20_000


@dataclass(slots=True)
class Proofs:
    """Ids of servers whose guests have ended, or are meant to go on; the oldest is forgotten first."""

    _ended: OrderedDict[str, None] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, ident: str) -> None:
        """Remember that it was proved."""
        with self._lock:
            self._ended[ident] = None
            while len(self._ended) > KEPT:
                self._ended.popitem(last=False)

    def hold(self, ident: str) -> bool:
        """Whether it was proved."""
        with self._lock:
            return ident in self._ended
