"""Table of a resize of ours: what comes next, first match wins, read by the tests as it stands.

Nova carries a resize out in two acts. `resize` moves the server to a host with room for the new
flavor, mostly another one, and keeps the old disk (VERIFY_RESIZE); `confirmResize` gives that up,
`revertResize` goes back to it. We never revert: the guest has run on the new disk since, perhaps for
hours, and all that it has written would be lost. What was asked for stands in Nova's record of acts,
so that whoever looks, also after a takeover, asks for each act once. In VERIFY_RESIZE Nova shows no
task, also while a confirmation is carried out, and a second one is refused (400).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from yaffle.drivers.profiles.nova_server.tracking.action_progress import over, wrong_with

if TYPE_CHECKING:
    from yaffle.integrations.openstack.servers.documents import Action, Fault

RESIZE: Final = "resize"
CONFIRM: Final = "confirmResize"
REVERT: Final = "revertResize"
VERIFY: Final = "VERIFY_RESIZE"
_SECONDS: Final = len("2026-01-01T00:00:00")
"""Of a stamp of Nova's; what follows differs from document to document."""


class Stage(StrEnum):
    """The progress of an act, by Nova's record."""

    NONE = "none"
    OPEN = "open"
    """Recorded, and not known to have ended."""
    OVER = "over"
    WRONG = "wrong"
    """A part of it has failed; another host may have taken over from that."""


class Move(StrEnum):
    """The next move of a resize."""

    ASK = "ask"
    """Nothing has been asked for yet."""
    WAIT = "wait"
    CONFIRM = "confirm"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A server that is to be resized, and what was asked for since its mark was written."""

    status: str
    idle: bool
    fits: bool
    """It has the flavor that it is to have."""
    told: bool = False
    """Nova says what went wrong with it in the act that was begun last, or has not for long."""
    resize: Stage = Stage.NONE
    """Ours."""
    confirm: Stage = Stage.NONE
    """Whoever asked for it: Nova itself does, where an operator has set a time for that."""
    revert: Stage = Stage.NONE
    """Somebody else's, always."""

    @property
    def open(self) -> bool:
        """Whether one of them is under way."""
        return Stage.OPEN in (self.resize, self.confirm, self.revert)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One state of a resize; None means any."""

    move: Move
    why: str
    """For a person."""
    status: str | None = None
    idle: bool | None = True
    fits: bool | None = None
    told: bool | None = None
    open: bool | None = None
    resize: frozenset[Stage] | None = None
    confirm: frozenset[Stage] | None = None
    revert: frozenset[Stage] | None = None

    def is_of(self, seen: Seen) -> bool:
        """Whether a resize is so."""
        return (
            self.status in (None, seen.status)
            and self.idle in (None, seen.idle)
            and self.fits in (None, seen.fits)
            and self.told in (None, seen.told)
            and self.open in (None, seen.open)
            and (self.resize is None or seen.resize in self.resize)
            and (self.confirm is None or seen.confirm in self.confirm)
            and (self.revert is None or seen.revert in self.revert)
        )


_NONE: Final = frozenset({Stage.NONE})
_WRONG: Final = frozenset({Stage.WRONG})
_OPEN: Final = frozenset({Stage.OPEN})
_ASKED: Final = frozenset({Stage.OPEN, Stage.OVER})

ROWS: Final[tuple[Row, ...]] = (
    Row(move=Move.WAIT, why="something is being done to it", idle=False),
    Row(
        move=Move.FAILED,
        why="a resize that this update has not asked for waits to be confirmed or reverted",
        status=VERIFY,
        resize=_NONE,
    ),
    Row(move=Move.DONE, why="it has that flavor", fits=True, resize=_NONE),
    Row(move=Move.ASK, why="not asked for yet", resize=_NONE),
    # A host writes ERROR first, then what went wrong, and that the act has ended at last.
    Row(
        move=Move.WAIT,
        why="the resize has failed, and Nova has not said why yet",
        status="ERROR",
        told=False,
        open=True,
    ),
    Row(move=Move.FAILED, why="the resize has failed", status="ERROR"),
    Row(
        move=Move.FAILED,
        why="it waits to be confirmed with a flavor that is not the one asked for",
        status=VERIFY,
        fits=False,
    ),
    Row(move=Move.WAIT, why="it is being reverted", status=VERIFY, revert=_ASKED),
    Row(
        move=Move.FAILED,
        why="resized, and neither confirmed nor reverted",
        status=VERIFY,
        revert=_WRONG,
    ),
    Row(move=Move.CONFIRM, why="resized, to be confirmed", status=VERIFY, confirm=_NONE),
    Row(move=Move.FAILED, why="resized, and not confirmed", status=VERIFY, confirm=_WRONG),
    Row(move=Move.WAIT, why="it is being confirmed", status=VERIFY),
    Row(move=Move.DONE, why="resized", fits=True),
    Row(move=Move.FAILED, why="the resize was reverted", revert=_ASKED | _WRONG),
    # Recorded a moment ago: no host has taken it up, or what failed is not undone yet.
    Row(move=Move.WAIT, why="not taken up yet", resize=_OPEN),
    Row(move=Move.FAILED, why="Nova has left it with the old flavor"),
)


def row_of(seen: Seen) -> Row:
    """Return the row that a resize is in; the last one takes what is left."""
    return next(row for row in ROWS if row.is_of(seen))


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Our resize, and what was asked for after it."""

    resize: Action | None = None
    confirm: Action | None = None
    revert: Action | None = None

    def explained_by(self, fault: Fault | None) -> bool:
        """Whether a fault is of the act that was begun last: an older one says nothing of that.

        Nova keeps what went wrong with a server, and shows it again when the next act goes wrong,
        until it has written down why that did.
        """
        begun = (act.start_time for act in (self.resize, self.confirm, self.revert) if act)
        return fault is not None and fault.created[:_SECONDS] >= max(begun, default="")[:_SECONDS]


def record_of(acts: Sequence[Action], before: str, user_id: str) -> Record:
    """Find them among the acts, the newest first, that are newer than the act `before`.

    A resize that another user asked for is not ours, and neither is what followed on one.
    """
    since = list(takewhile(lambda act: not before or act.request_id != before, acts))
    newest = next((i for i, act in enumerate(since) if act.action == RESIZE), None)
    if newest is None or since[newest].user_id != user_id:
        return Record()
    later = {act.action: act for act in reversed(since[:newest])}
    return Record(resize=since[newest], confirm=later.get(CONFIRM), revert=later.get(REVERT))


def stage_of(act: Action | None) -> Stage:
    """Return how far an act is, its events included."""
    if act is None:
        return Stage.NONE
    if wrong_with(act):
        return Stage.WRONG
    return Stage.OVER if over(act) else Stage.OPEN
