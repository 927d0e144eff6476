"""Judges a monitored host: is it up, lost, proved off; is that a failure that has to be told?

Level-triggered: what is judged is all that a monitor sees now beside what has been told before, so a
change that nobody was there to see is found at the next look (seed 3: no failure is lost).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from yaffle.model.host_state import HostFencing, HostSighting, HostState, Seen

SAME_S: Final = 5
"""What two places write of the time of one fencing may be so far apart."""
SECOND_US: Final = 1_000_000
KEPT_MAX: Final = 64
"""So many fencings of one host are remembered that its monitor does not show any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPatience:
    """For how long a host may be lost, and how old news of one may be that is back."""

    unfenced_after_s: float = 180.0
    late_s: float = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownHost:
    """What is known of a host from the looks before."""

    state: HostState
    since_us: int
    told: tuple[int, ...] = ()
    """The fencings that have been judged (seconds since the epoch), so that none is told twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostVerdict:
    """What becomes of the host."""

    known: KnownHost
    tell: tuple[HostFencing, ...] = ()
    """Each is a failure of its own."""
    pass_over: tuple[HostFencing, ...] = field(default=())
    """Fencings that are not told."""
    because: str = ""
    """Why they are not."""
    unknown: bool = False
    """How the host is now is not known; its state is what it was."""


def judge(
    known: KnownHost | None,
    sighting: HostSighting,
    fencings: Sequence[HostFencing],
    now_us: int,
    terms: HostPatience,
) -> HostVerdict:
    """Judge one look at one host; `fencings` are those of this host that the monitor remembers.

    Fencings are told apart by when they were completed, and none is taken for old by it: two members of
    one cluster may have clocks that are a minute apart. What is told is in that order.
    """
    told = () if known is None else known.told
    fencings = (*fencings, *_unshown(known, sighting, fencings, now_us))
    new = tuple(f for f in fencings if not is_judged(f, told))
    # Whoever was proved off comes back by starting anew: that is no second failure.
    back = tuple(f for f in new if f.restart and known and known.state is HostState.FENCED)
    new = tuple(f for f in new if f not in back)
    tell, pass_over, because = _rule(known, sighting, new, now_us, terms)
    state = _state(known, sighting, now_us=now_us, terms=terms)
    since_us = known.since_us if known is not None and known.state is state else now_us
    if known is not None and _still_lost(known.state, state):
        since_us = known.since_us
    shown = {f.at_s for f in fencings}
    # What the monitor has forgotten it may show again a moment later; what it shows is never forgotten.
    gone = sorted(at for at in told if at not in shown)[-KEPT_MAX:]
    judged = {f.at_s for f in (*tell, *pass_over, *back)}
    return HostVerdict(
        known=KnownHost(
            state=state,
            since_us=since_us,
            told=tuple(sorted({*gone, *shown.intersection(told), *judged})),
        ),
        # A monitor may show the newest first, and whoever is told hears of one host in order.
        tell=tuple(sorted(tell, key=lambda fencing: fencing.at_s)),
        pass_over=pass_over if because else (),
        because=because,
        unknown=sighting.seen is Seen.STARTING and state in _PLAIN.values(),
    )


def is_judged(fencing: HostFencing, told: Sequence[int]) -> bool:
    """Whether a fencing is one of those that have been judged."""
    return any(_same(fencing, at_s) for at_s in told)


_Fencings = tuple[HostFencing, ...]


def _unshown(
    known: KnownHost | None, sighting: HostSighting, fencings: Sequence[HostFencing], now_us: int
) -> _Fencings:
    """Return the fencing that the host is off by, where the history does not show it.

    Histories are kept in memory: one that was lost must not take the news of a failure with it. Where
    nobody says when it was, it was when the host was found to be lost.
    """
    if sighting.word:
        return ()
    at_s = sighting.off_s
    if sighting.off and at_s is None and not fencings:
        since_us = now_us if known is None else known.since_us
        told = known is not None and (
            known.state is HostState.FENCED
            or any(at >= since_us // SECOND_US - SAME_S for at in known.told)
        )
        lost = known is not None and _still_lost(known.state, HostState.LOST)
        at_s = None if told else (since_us if lost else now_us) // SECOND_US
    if at_s is None or any(_same(f, at_s) for f in fencings):
        return ()
    proof = f"{sighting.why}; its history does not show by whom"
    return (HostFencing(host=sighting.host, at_s=at_s, proof=proof),)


def _same(fencing: HostFencing, at_s: int) -> bool:
    """Whether what is known under a time is this fencing."""
    return -SAME_S <= at_s - fencing.at_s <= SAME_S + fencing.within_s


def _rule(
    known: KnownHost | None,
    sighting: HostSighting,
    new: _Fencings,
    now_us: int,
    terms: HostPatience,
) -> tuple[_Fencings, _Fencings, str]:
    """Return which fencings are told, which are passed over, and why where that is news; others wait.

    Whoever is told starts the host's instances elsewhere. So a host that is lost is told when it is
    proved off *now*: it may have come back after a fencing, and be cut off with its instances running.
    """
    if not new:
        return (), (), ""
    if known is None:
        # Of a host that nobody has looked at before, only what it suffers from now is news.
        latest = max(new, key=lambda f: f.at_s)
        if sighting.off:
            tell = tuple(f for f in new if f is latest or f.owed)
            return tell, tuple(f for f in new if f not in tell), ""
        if sighting.seen not in _PLAIN:
            return (), (), ""
        return tuple(f for f in new if f.owed), tuple(f for f in new if not f.owed), ""
    if known.state is HostState.MAINTENANCE and sighting.seen is Seen.MAINTENANCE:
        return (), new, "the host is under maintenance"
    if sighting.off:
        return new, (), ""
    if sighting.seen is not Seen.UP:
        return (), (), ""
    late_us = now_us - int(terms.late_s * SECOND_US)
    late = tuple(
        f for f in new if f.at_s * SECOND_US < late_us and not f.owed and not _seen_lost(known, f)
    )
    because = "the host is up again, and nobody saw it in time" if late else ""
    return tuple(f for f in new if f not in late), late, because


def _seen_lost(known: KnownHost, fencing: HostFencing) -> bool:
    """Whether the fencing ended a loss that was seen all the time: that is no old story."""
    began_s = known.since_us // SECOND_US - SAME_S
    return _still_lost(known.state, known.state) and fencing.at_s >= began_s


def _still_lost(before: HostState, after: HostState) -> bool:
    lost = {HostState.LOST, HostState.UNFENCED}
    return before in lost and after in lost


_PLAIN: Final = {
    Seen.UP: HostState.UP,
    Seen.STOPPED: HostState.STOPPED,
    Seen.MAINTENANCE: HostState.MAINTENANCE,
}


def _state(
    known: KnownHost | None, sighting: HostSighting, *, now_us: int, terms: HostPatience
) -> HostState:
    if sighting.seen in {Seen.UP, Seen.MAINTENANCE}:
        return _PLAIN[sighting.seen]
    if sighting.off:
        return HostState.FENCED
    if sighting.seen in _PLAIN:
        return _PLAIN[sighting.seen]
    before = None if known is None else known.state
    if sighting.seen is Seen.STARTING and before is not None and before in _PLAIN.values():
        return before
    if before is HostState.FENCED:
        return HostState.FENCED
    if known is None or not _still_lost(known.state, HostState.LOST):
        return HostState.LOST
    long = now_us - known.since_us >= terms.unfenced_after_s * SECOND_US
    return HostState.UNFENCED if long else HostState.LOST
