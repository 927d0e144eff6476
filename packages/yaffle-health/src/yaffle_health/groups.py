"""Which checks a probe asks about: `live` must never mean a neighbour's trouble, `ready` means all.

A liveness probe restarts the process, so a database in it restarts a whole fleet when the database
stumbles. Hence: nothing is in `live` or `start` unless it was declared so; everything is in `ready`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from yaffle_health.errors import UnknownGroup

LIVE: Final = "live"
READY: Final = "ready"
START: Final = "start"
STANDARD: Final = frozenset({LIVE, READY, START})
# An item declared to these counts as failing until it has been heard for the first time.
AWAITED: Final = frozenset({READY, START})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """What a service said about an item beforehand; ages and times as in `model.Check`.

    `component_id` None speaks for every component of the name that has no declaration of its own.
    `fail_after_s`: silence of that length is a failure in itself (a heart that stopped), and one of
    `warn_after_s` a warning.
    """

    name: str
    component_id: str | None
    groups: frozenset[str]
    ttl_s: float | None
    fail_after_s: float | None
    warn_after_s: float | None = None


class Groups:
    """The groups of one manager: the three standard ones and those that the service named."""

    def __init__(self, listed: Mapping[str, Iterable[str]] | None = None) -> None:
        """`listed` fixes a group to exactly these item names; it may redefine `ready`, too."""
        self._listed = {group: frozenset(names) for group, names in (listed or {}).items()}
        self._declared: set[str] = set()

    @property
    def known(self) -> frozenset[str]:
        """Every name that `?group=` accepts."""
        return STANDARD | self._listed.keys() | self._declared

    def learn(self, groups: Iterable[str]) -> None:
        """Take in the groups of a declaration."""
        self._declared |= set(groups)

    def holds(self, group: str | None, name: str, declared: frozenset[str]) -> bool:
        """Whether an item so named and so declared is in the group; None is the whole process."""
        if group is None or group in declared:
            return True
        if group in self._listed:
            return name in self._listed[group]
        return group == READY

    def demand(self, group: str | None) -> None:
        """Raise UnknownGroup for a name that nobody declared: a probe's spelling mistake that was
        answered with pass would go unnoticed until the night it matters."""
        if group is not None and group not in self.known:
            raise UnknownGroup(group, self.known)


def warn_of_unknown(known: Collection[str], **options: str | None) -> None:
    """Log which of these options name a group that is not there; it may still be declared."""
    for option, group in options.items():
        if group is not None and group not in known:
            # Imported when there is something to say, as everywhere in the manager's half.
            import logging

            logging.getLogger("yaffle_health").warning(
                "[healthcheck] %s = %r: no such group so far, and whoever asks gets 404; there are %s",
                option,
                group,
                ", ".join(sorted(known)),
            )
