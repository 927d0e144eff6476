"""Sees hosts as other monitors have notified us of them: by the word of the senders that are trusted.

A sender that is not named here is not believed: what it tells is followed, and proves nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import takewhile
from typing import TYPE_CHECKING, ClassVar, Final

from yaffle.errors import StoreUnavailable
from yaffle.integrations.driver_settings import Section
from yaffle.ports.host_monitor import HostMonitor, HostReport, HostSighting, MonitorBlind, Seen

if TYPE_CHECKING:
    from yaffle.ports.context import DriverContext
    from yaffle.ports.notified_hosts import NotifiedHost


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifiedSettings:
    """Section `host_monitors.NAME` with `type = "notified"`."""

    senders: tuple[str, ...]
    """Whose word counts as proof that a host is off: the users as whom monitors notify, and names of
    `[host_senders]`. They have to fence a host, or to read its power, before they say that it failed."""

    @classmethod
    def read(cls, section: Section) -> NotifiedSettings:
        """Raise ConfigError for what is wrong or unknown."""
        settings = cls(senders=section.texts("senders"))
        section.finish()
        return settings


BACK_S: Final = 60
"""So long is a host seen up after somebody said that it is back: it was so then. Less than the time for
which a host is lost before anybody fences it, or the word would forbid that."""


class NotifiedMonitor:
    """Reads the words on each host, and goes by the latest."""

    type: ClassVar[str] = "notified"
    by_hand: ClassVar[str] = ""

    def __init__(self, context: DriverContext) -> None:
        section = Section(context.section or "host_monitors.notified", context.settings)
        self._senders = frozenset(NotifiedSettings.read(section).senders)
        self._notified, self._clock = context.notified, context.clock
        self._names = context.host_names

    async def look(self, *, deadline_s: float) -> HostReport | MonitorBlind:
        """Return the hosts that trusted senders have told of; the latest word on each counts."""
        if self._notified is None:
            return MonitorBlind(why="nothing is notified to this process")
        try:
            words = await self._notified.words()
        except StoreUnavailable as error:
            return MonitorBlind(why=str(error))
        by_host: dict[str, list[NotifiedHost]] = {}
        # One host may be told of by several names; of one second what is not "off" counts, which moves
        # nothing.
        for word in sorted(words, key=lambda word: (-word.at_s, bool(word.off))):
            by_host.setdefault(self._names.get(word.host, word.host), []).append(word)
        found = map(self._counting, by_host.values())
        return HostReport(
            sightings=tuple(_sighting(word) for word in found if word is not None), fencings=()
        )

    def _counting(self, words: Sequence[NotifiedHost]) -> NotifiedHost | None:
        """Return the word on a host that counts, of all, the latest first; None where none does.

        Who says the same after a trusted sender takes nothing from its word, who says another thing does.
        """
        latest = words[0]
        if latest.off:
            same = takewhile(lambda word: word.off, words)
            return next((word for word in same if word.sender in self._senders), None)
        recent = latest.at_s > self._clock.now_us() // 1_000_000 - BACK_S
        back = latest.off is False and latest.sender in self._senders
        return latest if back and recent else None


def _sighting(word: NotifiedHost) -> HostSighting:
    when = datetime.fromtimestamp(word.at_s, UTC).isoformat()
    said = "failed and is off" if word.off else "is back"
    why = f"{word.sender} has notified that it {said} since {when}"
    if not word.off:
        return HostSighting(host=word.host, seen=Seen.UP, why=why)
    return HostSighting(
        host=word.host, seen=Seen.LOST, why=why, off=True, off_s=word.at_s, word=True
    )


if TYPE_CHECKING:
    _conforms: type[HostMonitor] = NotifiedMonitor
