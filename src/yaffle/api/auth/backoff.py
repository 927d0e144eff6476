"""Back-off for wrong passwords, by name and network, doubled each time.

A pair, not a name: guesses from elsewhere make nobody wait, or anybody could keep anybody out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from yaffle.api.auth.credential_cache import Source, make_room

FIRST_S: Final = 0.1
"""After one wrong password: a typing error costs nobody anything."""
MOST_S: Final = 30.0
FORGET_S: Final = 600.0
"""Wrong passwords older than this do not count any more."""


def delay_s(failures: int) -> float:
    """Return how long to wait after so many wrong passwords in a row."""
    return min(MOST_S, FIRST_S * 2.0 ** min(failures - 1, 16))


@dataclass(frozen=True, slots=True)
class _Record:
    failures: int
    last_s: float


class BackOff:
    """The record of wrong guesses: who, how often, and when they may try again."""

    def __init__(self) -> None:
        self._of: dict[Source, _Record] = {}

    def wait_s(self, source: Source, now_s: float) -> float:
        """Return how long that source has to wait now; 0 for who may try."""
        record = self._of.get(source)
        if record is None:
            return 0.0
        return max(0.0, record.last_s + delay_s(record.failures) - now_s)

    def judged(self, source: Source, now_s: float, *, good: bool) -> None:
        """Note whether what came from there was right."""
        before = self._of.pop(source, _Record(0, now_s))
        if good:
            return
        make_room(self._of)
        count = before.failures if now_s - before.last_s < FORGET_S else 0
        self._of[source] = _Record(count + 1, now_s)
