"""Where the nodes of a failed host are moved to, by the recovery method of its segment (Masakari).

A segment may keep hosts in reserve: they are opened when one of its hosts has failed, and its nodes are
moved there. The other half of two methods is taken where the first has failed.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from yaffle.model.instance_ha import RecoveryMethod


class Destination(StrEnum):
    """Where to."""

    ANYWHERE = "anywhere"
    """Where the backend's scheduler says."""
    RESERVED = "reserved"


_ANYWHERE, _RESERVED = Destination.ANYWHERE, Destination.RESERVED

ORDER: Final[Mapping[RecoveryMethod, tuple[Destination, ...]]] = {
    RecoveryMethod.AUTO: (_ANYWHERE,),
    RecoveryMethod.RESERVED_HOST: (_RESERVED,),
    RecoveryMethod.AUTO_PRIORITY: (_ANYWHERE, _RESERVED),
    RecoveryMethod.RH_PRIORITY: (_RESERVED, _ANYWHERE),
}
"""By method, where the first attempt goes, and where the later ones."""


def destination(method: RecoveryMethod, attempt: int, *, left: bool) -> Destination | None:
    """Return where an attempt goes (the first is 1); None where only a reserved host would do.

    `left`: whether the segment has a reserved host for this failure.
    """
    order = ORDER[method]
    wanted = order[min(max(attempt, 1), len(order)) - 1]
    if wanted is Destination.ANYWHERE or left:
        return wanted
    return Destination.ANYWHERE if Destination.ANYWHERE in order else None
