"""Judges bad days of hosts by what was recorded outside of Yaffle: by BMCs, a controller, a tormentor.

Rules are pure functions of a `History`; none asks the code under test what it thinks, except for what it
says itself at the end. What the documents promise, and so what is judged:

- Whoever is told has a proof: a working BMC had said `off`, asked by the cluster or by our fencers.
- Each *outage* is told. It is what lies between two starts of a host, and in which a BMC switched it off
  for the cluster or for us; the cluster may ask several times, and each success may be a failure.
- Within a minute an own fence and whatever else proves the host off are one failure (`watch-hosts.md`).
- An `off` whose asker did not live to say so proves nothing to anybody: a member that was harmed before
  the cluster had noted its fencing, an engine that was killed, a BMC that answered us too late. Where
  such a host has been started by hand before it was fenced again, nobody can tell that it was off.
- We switch off whom the cluster has missed for so long as the settings say. That may be a host that is
  well: Pacemaker moves connections, and its controller stands still while a host does not answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

HAND: Final = "hand"
MACHINE: Final = "the machine"
"""Whom a deed is done to that holds up everybody: the tests' own machine, by others who work on it."""
SOUND: Final = frozenset({"well", "slow", "lies"})
"""How a BMC may be whose word is a proof: that one lies nobody can tell whose host is silent."""
BEFORE_S: Final = 2.0
"""A failure's time is a whole second, and no earlier than the `off` that it is of."""
AFTER_S: Final = 15.0
"""So much later may a fencing be completed than its BMC is done: there is a mark to be written."""
STUCK_S: Final = 170.0
"""And so much later where a member was away: Pacemaker waits 72 s for each that does not write it."""
MINUTE_S: Final = 60.0
LIVED_S: Final = 5.0
"""So long after an `off` its asker may be needed for anybody to hear of it."""
LONG_AFTER_S: Final = 90.0
"""So long after it was brought back a harmed host may still be fenced for that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Power:
    """What a power controller recorded of one request."""

    at_s: float
    done_s: float
    verb: str
    host: str
    by: str
    bmc: str = "well"
    said: str = "ok"

    @property
    def off(self) -> bool:
        """Whether a working BMC switched its host off for whoever may fence."""
        return self.verb == "off" and self.said == "ok" and self.by != HAND and self.bmc in SOUND

    @property
    def proof(self) -> bool:
        """Whether a working BMC said that its host is off."""
        read = self.verb == "status" and self.said == "off" and self.by != HAND
        return self.off or (read and self.bmc in SOUND)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """What was done to a host, a member or an engine (`whom`), and until when it lasted.

    Whoever takes an engine's database away harms that engine.
    """

    at_s: float
    what: str
    whom: str
    end_s: float

    def within(self, begin_s: float, end_s: float) -> bool:
        """Whether it lasted at any moment of that time."""
        return self.at_s <= end_s and begin_s <= self.end_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What reached the recovery controller; `accepted`: and it said so."""

    at_s: float
    ident: str
    hostname: str
    failure_s: int
    accepted: bool = True
    document: str = ""


@dataclass(kw_only=True)
class History:
    """All that was recorded."""

    names: Mapping[str, str]
    """What recovery controllers call each host."""
    members: Sequence[str]
    powers: Sequence[Power] = ()
    deeds: Sequence[Deed] = ()
    requests: Sequence[Request] = ()
    waiting: Sequence[str] = ()
    """Alerts that are not accepted, as Yaffle lists them at the end."""
    missed: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)
    """When a member did not count a host among its cluster, by host: from when until when."""
    patience_s: float = 0.0
    states: Mapping[str, str] = field(default_factory=dict)
    """How Yaffle calls each host at the end."""

    def faults(self) -> list[str]:
        """Return every broken rule."""
        return [f"{rule.__name__[1:]}: {fault}" for rule in RULES for fault in rule(self)]

    def of(self, host: str) -> list[Power]:
        """Return what was recorded of one host, in the order in which it was done."""
        return sorted((p for p in self.powers if p.host == host), key=lambda p: p.done_s)

    def told(self, host: str) -> list[Request]:
        """Return what the controller has heard of one host."""
        return [r for r in self.requests if r.hostname == self.names[host]]

    def ours(self, power: Power) -> bool:
        """Whether one of our fencers asked."""
        return power.by != HAND and power.by not in self.members

    def fits(self, power: Power, failure_s: int) -> bool:
        """Whether a failure of that time may be of this `off`."""
        begin_s, end_s = power.at_s - BEFORE_S, power.done_s + AFTER_S
        if not self.ours(power) and any(self.harmed(one, begin_s, end_s) for one in self.members):
            end_s = power.done_s + STUCK_S
        return begin_s <= failure_s <= end_s

    def missed_for_long(self, power: Power) -> bool:
        """Whether the cluster had missed a host for so long that we may switch it off."""
        return any(
            begin_s + self.patience_s - BEFORE_S <= power.at_s <= end_s + BEFORE_S
            for begin_s, end_s in self.missed.get(power.host, ())
        )

    def story(self) -> list[str]:
        """Return all that happened, a line for each, in order."""
        lines = [(d.at_s, f"{d.whom}: {d.what}, until {d.end_s:.2f}") for d in self.deeds]
        lines += [
            (p.done_s, f"{p.host}: {p.verb} by {p.by}, BMC {p.bmc}: {p.said}") for p in self.powers
        ]
        lines += [
            (r.at_s, f"{r.hostname}: told {r.ident[:8]} of {r.failure_s}, accepted: {r.accepted}")
            for r in self.requests
        ]
        return [f"{at_s:.2f} {line}" for at_s, line in sorted(lines)]

    def harmed(self, whom: str, begin_s: float, end_s: float) -> bool:
        """Whether anything was done to somebody in that time."""
        return any(d.whom == whom and d.within(begin_s, end_s) for d in self.deeds)


def outages(powers: Sequence[Power]) -> list[list[Power]]:
    """Return the `off`s of one host, those together between which it was not started."""
    found: list[list[Power]] = []
    begun = False
    for power in powers:
        if power.verb == "on" and power.said == "ok":
            begun = False
        elif power.off:
            if not begun:
                found.append([])
            found[-1].append(power)
            begun = True
    return found


def excused(history: History, power: Power) -> bool:
    """Whether nobody lived to tell of an `off`."""
    begin_s, end_s = power.at_s - BEFORE_S, power.done_s + LIVED_S
    needed = history.members
    if history.ours(power):
        needed = sorted({d.whom for d in history.deeds if d.whom.startswith("engine")})
    late = history.ours(power) and power.bmc == "slow"
    return late or any(history.harmed(one, begin_s, end_s) for one in needed)


def _unproved(history: History) -> Iterator[str]:
    """Whoever is told has a proof that is older."""
    hosts = {hostname: host for host, hostname in history.names.items()}
    for request in history.requests:
        proofs = [p for p in history.of(hosts[request.hostname]) if p.proof]
        if not any(p.done_s <= request.at_s and history.fits(p, request.failure_s) for p in proofs):
            yield f"{request.hostname} failed at {request.failure_s}, told at {request.at_s:.2f}"


def _untold(history: History) -> Iterator[str]:
    """Each outage has been accepted."""
    for host in history.names:
        powers = history.of(host)
        accepted = {r.failure_s for r in history.told(host) if r.accepted}
        own = [p for p in powers if p.proof and history.ours(p)]
        by_us = {at for at in accepted if any(history.fits(p, at) for p in own)}
        for outage in outages(powers):
            near = accepted if any(history.ours(p) for p in outage) else by_us
            if any(history.fits(p, at) for p in outage for at in accepted):
                continue
            if any(abs(at - p.done_s) <= MINUTE_S for p in outage for at in near):
                continue
            if not all(excused(history, p) for p in outage):
                asked = ", ".join(f"{p.done_s:.2f} by {p.by}" for p in outage)
                yield f"{host} was switched off: {asked}; accepted: {sorted(accepted)}"


def _changed(history: History) -> Iterator[str]:
    """One id is one document, one failure is one id."""
    documents: dict[str, str] = {}
    idents: dict[tuple[str, int], str] = {}
    for request in history.requests:
        if documents.setdefault(request.ident, request.document) != request.document:
            yield f"{request.ident}: {documents[request.ident]}, then {request.document}"
        failure = (request.hostname, request.failure_s)
        if idents.setdefault(failure, request.ident) != request.ident:
            yield f"{failure} is {idents[failure]} and {request.ident}"


def _told_twice(history: History) -> Iterator[str]:
    """Each failure has an `off` of its own; where we only read that it is off, one for each outage."""
    for host in history.names:
        powers = history.of(host)
        slots = [p for p in powers if p.off]
        for read in (p for p in powers if p.proof and not p.off):
            since = [p.done_s for p in powers if p.verb == "on" and p.done_s < read.done_s]
            begun_s = max(since, default=0.0)
            if not any(begun_s < p.done_s <= read.done_s and history.ours(p) for p in slots):
                slots.append(read)
        slots.sort(key=lambda p: p.done_s)
        for failure_s in sorted({r.failure_s for r in history.told(host)}):
            mine = next((p for p in slots if history.fits(p, failure_s)), None)
            if mine is None:
                yield f"{host}: the failure at {failure_s} has no `off` that is not another one's"
            else:
                slots.remove(mine)


def _stray(history: History) -> Iterator[str]:
    """Nobody is switched off who is well, unless the cluster has trouble of its own."""
    for power in history.powers:
        if not power.off or power.host not in history.names:
            continue
        since_s = power.at_s - LONG_AFTER_S
        if history.ours(power):
            fine = history.missed_for_long(power)
        else:
            trouble = (MACHINE, *history.members)
            fine = any(history.harmed(one, since_s, power.at_s) for one in trouble)
        if not fine and not history.harmed(power.host, since_s, power.at_s):
            yield f"{power.host} was well, and {power.by} switched it off at {power.at_s:.2f}"


def _disordered(history: History) -> Iterator[str]:
    """The failures of one host arrive in their order."""
    for host in history.names:
        last_s = 0
        seen: set[str] = set()
        for request in sorted(history.told(host), key=lambda r: r.at_s):
            if request.ident in seen:
                continue
            seen.add(request.ident)
            if request.failure_s < last_s:
                yield f"{host}: the failure at {request.failure_s} came after the one at {last_s}"
            last_s = max(last_s, request.failure_s)


def _left(history: History) -> Iterator[str]:
    """At the end nothing waits, whatever was begun is accepted, and every host is up."""
    yield from history.waiting
    accepted = {r.ident for r in history.requests if r.accepted}
    yield from sorted({f"{r.ident} was never accepted" for r in history.requests} - {
        f"{ident} was never accepted" for ident in accepted
    })  # fmt: skip
    for host in history.names:
        if history.states.get(host) != "up":
            yield f"{host} is {history.states.get(host)}"


RULES: tuple[Callable[[History], Iterator[str]], ...] = (
    _unproved,
    _untold,
    _changed,
    _told_twice,
    _stray,
    _disordered,
    _left,
)
