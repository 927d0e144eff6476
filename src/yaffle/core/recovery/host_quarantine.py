"""Host quarantine: whether a host that was evacuated may carry nodes again.

A host that was given up for dead and comes back brings its guests with it: the same servers run twice,
write to the same volumes and answer to the same addresses. So it is in quarantine from the first
server that is moved off it until the backend proves that none of the old copies is left there. That
the host is up again proves nothing:

    the host          an old copy may be there   nobody can say       all are gone
    away              wait                       wait                 over
    back, kept out    keep it out                keep it out          over
    up                danger                     danger               over
    nothing is told   wait                       wait                 wait

Nobody but a person lets it in, unless the operator has said that Yaffle may; and then only what was
proved to be switched off before a copy was started elsewhere, and has removed all of them since.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from hashlib import sha256
from types import MappingProxyType
from typing import Final

from yaffle.model.operations import OldCopy

CAUSE: Final = "host-quarantined"
"""What an incident is that keeps a host in quarantine; its page in the runbook has the same name."""
MOVED: Final = "EVACUATE"
"""The act that starts the same copy elsewhere and leaves the old one where it was."""
RECREATED: Final = "RECREATE"
ALIVE_S: Final = 60.0
"""A host that is kept out is back while its last report changes at least so often."""


class Seen(StrEnum):
    """State of the host as it is seen."""

    AWAY = "away"
    BACK = "back"
    """It reports again, and the backend keeps it out."""
    UP = "up"
    NOTHING = "nothing"
    """The backend could not be asked, or did not tell."""


class Old(StrEnum):
    """Remainder of all that was moved off the host."""

    LEFT = "left"
    UNTOLD = "untold"
    GONE = "gone"


class Do(StrEnum):
    """Consequence for the host."""

    WAIT = "wait"
    KEEP_OUT = "keep-out"
    """A person must not let it in yet; what stands in the way is told."""
    DANGER = "danger"
    """It carries nodes again, and an old copy may run there."""
    OVER = "over"


TABLE: Final[Mapping[tuple[Seen, Old], Do]] = MappingProxyType(
    {
        (Seen.AWAY, Old.LEFT): Do.WAIT,
        (Seen.AWAY, Old.UNTOLD): Do.WAIT,
        # The host itself wrote that down when it started, whatever has become of it since.
        (Seen.AWAY, Old.GONE): Do.OVER,
        (Seen.BACK, Old.LEFT): Do.KEEP_OUT,
        (Seen.BACK, Old.UNTOLD): Do.KEEP_OUT,
        (Seen.BACK, Old.GONE): Do.OVER,
        # Somebody has let it in. That it is up is no proof that it has cleaned up.
        (Seen.UP, Old.LEFT): Do.DANGER,
        (Seen.UP, Old.UNTOLD): Do.DANGER,
        (Seen.UP, Old.GONE): Do.OVER,
        (Seen.NOTHING, Old.LEFT): Do.WAIT,
        (Seen.NOTHING, Old.UNTOLD): Do.WAIT,
        (Seen.NOTHING, Old.GONE): Do.WAIT,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """One copy that was on the host when its node was moved off it, or made anew elsewhere."""

    physical_id: str
    name: str
    """Of the node."""
    node_id: str
    how: str
    """MOVED or RECREATED."""
    off: bool
    """A power switch proved that the host was off before another copy was started."""
    known: OldCopy = OldCopy.LEFT
    facts: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    """The attributes of its node then, by which its profile knows where to ask."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Result of one look at the host."""

    seen: Seen
    old: Old
    do: Do
    copies: tuple[Copy, ...]
    admit: bool
    """Whether Yaffle may let the host in, if its operator allows that at all."""


def seen_of(*, up: bool | None, barred: bool, reports: bool) -> Seen:
    """Return how the host is; `reports`: its last report changes."""
    if up is None:
        return Seen.NOTHING
    if up:
        return Seen.UP
    return Seen.BACK if barred and reports else Seen.AWAY


def with_copy(copies: Iterable[Copy], new: Copy) -> tuple[Copy, ...]:
    """Return the copies with one more; of one that was there before only the present counts."""
    return (*(c for c in copies if c.physical_id != new.physical_id), new)


def known(before: Copy, told: OldCopy) -> OldCopy:
    """Return what is known of a copy by now: that it is gone was proved once and for all.

    What was moved nowhere is no old copy, whoever thought so. What was made anew is one as long as
    the backend has it there.
    """
    if before.known is OldCopy.GONE:
        return OldCopy.GONE
    if told is OldCopy.PRESENT:
        return OldCopy.GONE if before.how == MOVED else OldCopy.LEFT
    return told


def old_of(copies: Iterable[Copy]) -> Old:
    """Return what is left of them all: one is enough."""
    found = {copy.known for copy in copies}
    if OldCopy.LEFT in found:
        return Old.LEFT
    return Old.UNTOLD if found - {OldCopy.GONE} else Old.GONE


def judge(seen: Seen, copies: Iterable[Copy], told: Mapping[str, OldCopy]) -> Finding:
    """Return what a look came to; of a copy that it says nothing about, nothing is known."""
    now = tuple(replace(c, known=known(c, told.get(c.physical_id, OldCopy.UNTOLD))) for c in copies)
    return standing(seen, now)


def standing(seen: Seen, copies: tuple[Copy, ...]) -> Finding:
    """Return what follows from what is known of the copies by now."""
    old = old_of(copies)
    return Finding(
        seen=seen,
        old=old,
        do=TABLE[seen, old],
        copies=copies,
        admit=old is Old.GONE and seen is Seen.BACK and all(c.off for c in copies),
    )


def key_of(host: str) -> str:
    """Return what keeps a host from having two open quarantines; as short as a node's id."""
    return f"back:{sha256(host.encode()).hexdigest()[:31]}"


def sentence(host: str, found: Finding, admit: str, done: str = "") -> str:
    """Return what stands in the way and what a person can do about it; `admit`: their command.

    `done`: what we have done about it ourselves.
    """
    left = [c for c in found.copies if c.known is not OldCopy.GONE]
    names = ", ".join(sorted(c.name for c in left)[:5]) + (", …" if len(left) > 5 else "")
    count = f"{len(left)} of {len(found.copies)} old copies ({names})"
    unknown = found.old is Old.UNTOLD
    what = (
        f"whether {count} are gone from it cannot be told" if unknown else f"{count} may be on it"
    )
    match found.do:
        case Do.OVER:
            return f"host {host} has no old copy left; {done or _how(found, admit)}"
        case Do.KEEP_OUT:
            return (
                f"host {host} is back and kept out: {what}. {_restart(unknown)}"
                f" Only then `{admit}`."
            )
        case Do.DANGER:
            return f"DANGER: host {host} carries nodes again, and {what}. {_restart(unknown)}"
        case Do.WAIT:
            told = "is away" if found.seen is Seen.AWAY else "is not told of"
            return f"host {host} {told}, and {what}; it must not be let in before they are gone"


def _how(found: Finding, admit: str) -> str:
    if found.seen is Seen.UP:
        return "it carries nodes already"
    return f"to let it carry nodes again: `{admit}`"


def _restart(unknown: bool) -> str:
    if unknown:
        return (
            "Nobody but a person can tell: look at the guests on the host itself, end those that"
            " are no more to be there, then acknowledge this incident."
        )
    return "Restart its compute service: it removes what was moved away when it starts."
