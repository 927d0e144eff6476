"""The table of objections: whether a rung may act on a node whose state somebody may want.

"Nobody asked for it", "the backend does not tell who did" and "the backend could not be asked" are
three things. Only the first is a licence for every rung. What is not told licenses a rung that
leaves copy and disk as they are; what could not be asked licenses none: it is asked again.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from yaffle.model.operations import Actor, Hindrance
from yaffle.model.policy import RungKind

if TYPE_CHECKING:
    from yaffle.model.operations import Cause, Reading
    from yaffle.model.policy import RecoveryAction


class Objection(StrEnum):
    """The objections to an act."""

    NONE = "none"
    LOCKED = "locked"
    """Somebody keeps everybody from changing it."""
    WISHED = "wished"
    """Somebody asked the backend for the state that it is in."""
    UNTOLD = "untold"
    """The backend does not tell whether somebody did."""
    UNASKED = "unasked"
    """The backend gave no usable answer."""
    OVER = "over"
    """What was seen of it is so no more: it is looked at again before anything else."""


class Harm(StrEnum):
    """Harm that an act may do."""

    KEEPS = "keeps"
    """The copy and its disk stay as they are."""
    LOSES = "loses"
    """The copy, or its disk, is given up, or what happens is not ours to know: a workflow."""


OBJECTION: Final = "objection"
"""In the journal of a step: what spoke against it, where something did."""
_O, _H = Objection, Harm

MAY_ACT: Final[Mapping[tuple[Objection, Harm], bool]] = MappingProxyType(
    {
        (_O.NONE, _H.KEEPS): True,
        (_O.NONE, _H.LOSES): True,
        (_O.LOCKED, _H.KEEPS): False,
        (_O.LOCKED, _H.LOSES): False,
        (_O.WISHED, _H.KEEPS): False,
        (_O.WISHED, _H.LOSES): False,
        # To start what a user has stopped is an annoyance; to delete it is not to be made good.
        (_O.UNTOLD, _H.KEEPS): True,
        (_O.UNTOLD, _H.LOSES): False,
        (_O.UNASKED, _H.KEEPS): False,
        (_O.UNASKED, _H.LOSES): False,
        (_O.OVER, _H.KEEPS): False,
        (_O.OVER, _H.LOSES): False,
    }
)

BY_ACTOR: Final[Mapping[Actor, Objection]] = MappingProxyType(
    {
        Actor.USER: _O.WISHED,
        Actor.OURSELVES: _O.WISHED,
        Actor.NOBODY: _O.NONE,
        Actor.UNKNOWN: _O.UNTOLD,
        Actor.UNASKED: _O.UNASKED,
    }
)


BY_HINDRANCE: Final[Mapping[Hindrance, Objection]] = MappingProxyType(
    {
        Hindrance.NONE: _O.NONE,
        Hindrance.UNASKED: _O.UNASKED,
        Hindrance.BARRED: _O.LOCKED,
        Hindrance.OVER: _O.OVER,
    }
)
"""What the end of an act that has failed says against a stronger one."""


CHEAP: Final = frozenset({"REBOOT", "RESTORE", "RESUME", "START", "UNPAUSE", "UNRESCUE"})
"""Operations that leave copy and disk as they are. Of any other one that is not known: an update of a
stack, say, replaces a server that somebody has stopped."""


def harm_of(rung: RecoveryAction) -> Harm:
    """Return what a rung may cost."""
    cheap = rung.kind is RungKind.BUILTIN and rung.in_place and rung.name in CHEAP
    return Harm.KEEPS if cheap else Harm.LOSES


def of_reading(reading: Reading) -> tuple[Objection, str]:
    """Return the objection that a reading raises to an act, and why."""
    if not reading.asked:
        return Objection.UNASKED, reading.detail
    if reading.kept:
        return Objection.LOCKED, reading.kept
    return Objection.NONE, ""


def may_be_wished(reading: Reading) -> bool:
    """Whether somebody may have asked for a state, and wants to have the copy again."""
    return reading.asked and reading.exists and reading.up is not True


def of_cause(cause: Cause, *, acted: bool) -> Objection:
    """Return the objection that a state's cause raises; `acted`: this recovery has acted already.

    A deletion, and a state that no request leads to, are no wish to have the copy again as it is.
    """
    if cause.actor is Actor.OURSELVES and acted:
        return Objection.NONE
    found = BY_ACTOR[cause.actor]
    return found if cause.keeps or found is Objection.UNASKED else Objection.NONE
