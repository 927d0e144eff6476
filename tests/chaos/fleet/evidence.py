"""What was seen of a fleet from outside, as plain values: the judge reads these and nothing else.

All times are µs of this machine's wall clock, which is the database's too; an engine whose own clock
was stepped writes other times into rows, so no rule goes by what a row says of when.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.chaos.diary import Made
from tests.chaos.receiver import News

SECOND = 1_000_000
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Holder:
    """A watch's row, or an action's: who has it, under which epoch, until when."""

    owner: str
    epoch: int
    lease_us: int


@dataclass(frozen=True, slots=True)
class Session:
    """An engine's row."""

    pid: int
    epoch: int
    seen_us: int
    stopped_us: int | None


@dataclass(frozen=True, slots=True)
class Look:
    """One moment of the database; `db_us` is its clock just before, None where it did not answer."""

    at_us: int
    db_us: int | None
    watches: Mapping[str, Holder] = field(default_factory=dict)
    """Cluster → its watch; a cluster without a row has an empty holder."""
    running: Mapping[str, Holder] = field(default_factory=dict)
    """Action → who carries it out."""
    sessions: Mapping[str, Session] = field(default_factory=dict)
    stopped: bool = False
    """Whether a global stop is in force."""
    era: int = 0
    """Counts how often the database went back to an older state."""


@dataclass(frozen=True, slots=True)
class Change:
    """A row that look number `look` found new or different."""

    look: int
    table: str
    key: str
    before: Row | None
    after: Row


@dataclass(frozen=True, slots=True)
class Sight:
    """Which processes there were: node → (pid, kernel's state); noted when it changes."""

    at_us: int
    nodes: Mapping[str, tuple[tuple[int, str], ...]]


@dataclass(frozen=True, slots=True)
class Deed:
    """Something that was done to the fleet; it disturbs from `at_us` to `end_us`."""

    at_us: int
    what: str
    whom: str = ""
    end_us: int = 0


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time."""

    begin_us: int
    end_us: int

    @property
    def s(self) -> float:
        return (self.end_us - self.begin_us) / SECOND

    def __str__(self) -> str:
        return f"{self.begin_us / SECOND:.3f}..{self.end_us / SECOND:.3f} ({self.s:.2f} s)"


CUT_OFF = "cut off from nodes"
"""An engine has to find that out first."""


@dataclass(frozen=True, slots=True)
class State:
    """From `at_us` on an engine was able to watch and write, or was not.

    None: nothing keeps it from that any more, and it is able once its session is seen renewed.
    """

    at_us: int
    word: str
    able: bool | None


@dataclass(kw_only=True)
class History:
    """Everything that is known of one run."""

    lease_s: float
    detect_s: float
    """The bound that is printed for the policy's detection, and what deciding may take."""
    looks: Sequence[Look] = ()
    changes: Sequence[Change] = ()
    sights: Sequence[Sight] = ()
    late: Sequence[tuple[int, int]] = ()
    """(when, by how much): the machine kept the fleet's processes waiting for a processor (µs)."""
    deeds: Sequence[Deed] = ()
    engines: Mapping[str, Sequence[State]] = field(default_factory=dict)
    pids: Mapping[int, str] = field(default_factory=dict)
    """Pid → the engine's name in this test."""
    made: Sequence[Made] = ()
    violations: Sequence[str] = ()
    arrived_us: Mapping[str, int] = field(default_factory=dict)
    """Message → when it reached the receiver."""
    news: Sequence[News] = ()
    """What the receiver has accepted, in the order in which it first came."""
    forged: Sequence[str] = ()
    falls: Sequence[str] = ()
    """Which processes have ended though nobody asked them to."""
    tables: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    """What was left in the end: actions, steps, proofs, incidents, events, outbox."""

    def late_s(self, begin_us: int, end_us: int) -> float:
        """For how long the fleet's processes waited for a processor in that stretch, in all."""
        first = bisect.bisect_left(self.late, (begin_us, 0))
        last = bisect.bisect_right(self.late, (end_us, 2**62))
        return sum(by for _, by in self.late[first:last]) / SECOND

    def able(self, name: str, begin_us: int, end_us: int) -> bool:
        """Whether nothing kept an engine from working at any time of that stretch."""
        states = self.engines.get(name, ())
        before = [s for s in states if s.at_us <= begin_us][-1:]
        during = [s for s in states if begin_us < s.at_us <= end_us]
        return bool(before) and all(s.able is True for s in (*before, *during))

    def anybody(self, begin_us: int, end_us: int) -> bool:
        """Whether some engine was able throughout."""
        return any(self.able(name, begin_us, end_us) for name in self.engines)

    def unable(self, name: str, at_us: int) -> Sequence[State]:
        """Return what has kept an engine from working up to `at_us`; empty where it can."""
        found: list[State] = []
        for state in self.engines.get(name, ()):
            if state.at_us > at_us:
                break
            found = [] if state.able else [*found, state]
        return found

    def __post_init__(self) -> None:
        self.engines = {name: self._seen_at_work(name) for name in self.engines}

    def _seen_at_work(self, name: str) -> Sequence[State]:
        """Add when each engine was seen to renew its session since it was let go."""
        states = self.engines[name]
        found: list[State] = []
        for number, state in enumerate(states):
            found.append(state)
            end_us = states[number + 1].at_us if number + 1 < len(states) else 2**62
            if state.able is None and (seen_us := self._renewed_us(name, state.at_us)) < end_us:
                found.append(State(seen_us, "at work", able=True))
        return found

    def _renewed_us(self, name: str, after_us: int) -> int:
        first = bisect.bisect_left(self.looks, after_us, key=lambda look: look.at_us)
        for look in self.looks[first:]:
            for session in look.sessions.values():
                mine = self.pids.get(session.pid) == name and session.stopped_us is None
                if mine and session.seen_us >= after_us:
                    return look.at_us
        return 2**62

    def disturbances(self) -> Sequence[Span]:
        """Return when somebody disturbed the fleet as a whole, in order and not overlapping."""
        found: list[Span] = []
        for deed in sorted(self.deeds, key=lambda d: d.at_us):
            end_us = deed.end_us or deed.at_us
            if found and deed.at_us <= found[-1].end_us:
                found[-1] = Span(found[-1].begin_us, max(end_us, found[-1].end_us))
            else:
                found.append(Span(deed.at_us, end_us))
        return found

    def calm(self, within: Span) -> Iterator[Span]:
        """Yield the stretches of `within` in which nothing disturbed the fleet."""
        begin_us = within.begin_us
        for one in self.disturbances():
            if one.end_us <= within.begin_us or one.begin_us >= within.end_us:
                continue
            if one.begin_us > begin_us:
                yield Span(begin_us, one.begin_us)
            begin_us = max(begin_us, one.end_us)
        if begin_us < within.end_us:
            yield Span(begin_us, within.end_us)
