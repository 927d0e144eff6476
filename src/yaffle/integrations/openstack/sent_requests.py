"""Memory of the operations that this process has sent, beyond what a server bears: bounded.

A successor lacks it, and reads the target instead. It says two things that no target can: that a
request of ours is on its way this very moment, and under which id Nova has accepted one.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from yaffle.model.ids import OperationId

KEPT: Final = 4096
THERE_S: Final = 30.0
"""Longer than the engine repeats a question: of a slow cloud each call learns a part, and none of it
may be forgotten before the last; and a storm asks once."""
TRYING_S: Final = 8.0
"""Who has not tried for so long begins to try anew: another engine may have been at it meanwhile. It
is longer than a call of the engine and the pause after it, and shorter than a lease."""
REFUSED_S: Final = 0.25
REFUSED_MAX_S: Final = 5.0
"""The pause after an act that the cloud refused (409), and what its doubling grows to. A kill has half
a minute to be proved: one that is allowed at last must not wait for most of that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A request that Nova has accepted, or may have got."""

    at_s: float
    """Monotonic."""
    ident: str = ""
    request_id: str = ""
    """Nova's own id of it; empty while it is not known to have been accepted."""
    host: str = ""
    """Where the server was, as far as we were told."""
    given_up: str = ""
    """Why no guest of it was left before this was asked for; a row of `termination_proof.GIVEN_UP`."""
    refused: bool = False
    """It never arrived, or Nova would not have it: there is nothing to wait for."""
    conflicts: int = 0
    """How often in a row it was refused for what the target is doing (409)."""
    why: str = ""
    """The last of these refusals, in the cloud's words."""
    again: bool = False
    """An earlier one of the same operation got no answer, and may come about all the same."""

    def pause_s(self, now_s: float) -> float:
        """Return how long the same act has to wait after refusals that may pass; 0 where it may go."""
        if not self.conflicts:
            return 0.0
        # The exponent is bounded first: 2.0 ** 2000 is an OverflowError, not infinity.
        pause_s = min(REFUSED_S * 2.0 ** min(self.conflicts - 1, 60), REFUSED_MAX_S)
        return max(0.0, self.at_s + pause_s - now_s)


@dataclass(slots=True)
class Names:
    """Ids that were found for names a moment ago: a submit that was late gets further next time."""

    kept_s: float = 30.0
    _found: dict[tuple[str, str], tuple[float, str]] = field(default_factory=dict)

    def of(self, what: str, given: str, now_s: float, look: Callable[[str], str]) -> str:
        """Return the id, looked up anew where it is not known or was found too long ago."""
        at_s, ident = self._found.get((what, given), (-self.kept_s, ""))
        if now_s - at_s < self.kept_s:
            return ident
        ident = look(given)
        if len(self._found) >= KEPT:
            self._found.clear()
        self._found[what, given] = now_s, ident
        return ident

    def anew(self, what: str, given: str, now_s: float, look: Callable[[str], str]) -> str:
        """As `of`, but looked up whatever is known: what is found is what counts from now on."""
        self._found.pop((what, given), None)
        return self.of(what, given, now_s, look)

    def forget(self) -> None:
        """Look all of them up anew: one of them may mean something else by now, or nothing."""
        self._found.clear()


@dataclass(slots=True)
class Reports:
    """The last reports of hosts that are proved off: one that reports again is not off."""

    _silent: dict[str, str] = field(default_factory=dict)
    _watched: OrderedDict[str, tuple[str, float, bool]] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def settle(self, host: str, report: str) -> None:
        """Note the report of a host that was off when it was read."""
        with self._lock:
            self._silent[host] = report

    def settled(self, host: str) -> str:
        """Return that report; empty where none is known."""
        with self._lock:
            return self._silent.get(host, "")

    def watch(self, who: str, report: str, now_s: float) -> tuple[float, bool]:
        """Return since when `who` sees this report, monotonic, and whether it has seen another one."""
        with self._lock:
            before, since_s, changed = self._watched.get(who, (report, now_s, False))
            if before != report:
                since_s, changed = now_s, True
            self._watched[who] = report, since_s, changed
            self._watched.move_to_end(who)
            while len(self._watched) > KEPT:
                self._watched.popitem(last=False)
            return since_s, changed


@dataclass(slots=True)
class SentRequests:
    """The requests sent, by operation id; the oldest is forgotten first."""

    names: Names = field(default_factory=Names)
    there: Names = field(default_factory=lambda: Names(kept_s=THERE_S))
    """What was found to be there a moment ago, of what servers are made of: never that it is not."""
    reports: Reports = field(default_factory=Reports)
    _sent: OrderedDict[OperationId, Sent] = field(default_factory=OrderedDict)
    _tried: OrderedDict[OperationId, tuple[float, float]] = field(default_factory=OrderedDict)
    """When each operation was tried, without a pause since, for the first time and for the last."""
    _underway: set[OperationId] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, operation_id: OperationId, sent: Sent) -> None:
        """Remember a request."""
        with self._lock:
            self._sent[operation_id] = sent
            self._sent.move_to_end(operation_id)
            while len(self._sent) > KEPT:
                self._sent.popitem(last=False)

    def of(self, operation_id: OperationId) -> Sent | None:
        """Return the newest request of an operation."""
        with self._lock:
            return self._sent.get(operation_id)

    def trying(self, operation_id: OperationId, now_s: float) -> float:
        """Note that an operation is tried; return since when it has been, monotonic."""
        with self._lock:
            first_s, last_s = self._tried.get(operation_id, (now_s, now_s))
            if now_s - last_s > TRYING_S:
                first_s = now_s
            self._tried[operation_id] = first_s, now_s
            self._tried.move_to_end(operation_id)
            while len(self._tried) > KEPT:
                self._tried.popitem(last=False)
            return first_s

    def may_have_arrived(self, operation_id: OperationId) -> bool:
        """Whether a request of that operation was sent that was not refused."""
        sent = self.of(operation_id)
        return sent is not None and not sent.refused

    def sent(self, request_id: str) -> bool:
        """Whether Nova has given that id to a request of ours."""
        with self._lock:
            return any(sent.request_id == request_id for sent in self._sent.values())

    @contextmanager
    def alone(self, operation_id: OperationId) -> Iterator[bool]:
        """Hold the operation for this thread; yields False where another one holds it."""
        with self._lock:
            mine = operation_id not in self._underway
            self._underway.add(operation_id)
        try:
            yield mine
        finally:
            if mine:
                with self._lock:
                    self._underway.discard(operation_id)
