"""Judges heartbeats: a host is lost when two vantage points miss it that hear most of the others.

Silence proves nothing. A vantage point that hears nobody, or few of those that another hears, is cut off
itself; and a host that anybody hears is not lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from yaffle.model.host_heartbeat import HeardHost, VantagePoint
from yaffle.model.host_state import HostFencing, HostReport, HostSighting, MonitorBlind, Seen

NAMES_MAX: Final = 5
MISSED: Final = 3
"""So many heartbeats have to be missing."""
CLEAN_S: Final = 900
"""A host that was shut down starts anew within so long, or nobody can tell any more."""
POINTS_MIN: Final = 2
"""So many vantage points have to miss a host."""
SECOND_US: Final = 1_000_000
ONE_END_S: Final = 10.0
"""An agent that ends closes all its connections; its last heartbeats were no further apart."""
SLACK_S: Final = 5.0
DISK_S: Final = 60.0
"""A disk that has taken no write for so long is said to be stuck."""
EVERY_MAX_S: Final = 15.0
EXPIRES_S: Final = 14 * 86_400
"""A certificate that ends so soon is said to."""
CLOCK_S: Final = 5.0
"""Clocks that are so far apart are said to be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatPatience:
    """When a host is missed, and when it is back."""

    lost_after_s: float = 15.0
    rise: int = 3
    """So many heartbeats in a row, and a host that was missed is up."""
    reconnect_s: float = 20.0
    """So long agents take to come back to a vantage point that has restarted: they resolve its name, and
    try two addresses."""
    fresh_s: float = 20.0
    """What was stored so long ago says nothing of now, nor after three times the time between two."""

    def missed_after_s(self, every_s: float) -> float:
        """Return after how long a silence a host is missed whose heartbeats are so far apart."""
        return max(self.lost_after_s, MISSED * every_s)

    @property
    def listening_s(self) -> float:
        """Return for how long a vantage point has to have listened before it misses anybody."""
        return self.lost_after_s + self.reconnect_s


def judge_heartbeats(
    points: Sequence[VantagePoint], now_us: int, terms: HeartbeatPatience
) -> HostReport | MonitorBlind:
    """Return how each host is that anybody has ever heard of.

    MonitorBlind where nobody hears anything, unless all have said goodbye: that is not the end of all.
    """
    fresh = [p for p in points if _is_fresh(p, now_us, terms)]
    heard = {point.name: _heard(point, terms) for point in fresh}
    hosts = sorted({host for point in points for host in point.hosts})
    expected = not hosts or any(not _last_words(host, points)[0] for host in hosts)
    if expected and not any(heard.values()):
        names = ", ".join(sorted(heard)) or "nobody"
        return MonitorBlind(why=f"no host is heard by any vantage point (listening: {names})")
    seeing = [point for point in fresh if _sees(point, heard, terms)]
    seen = {
        host: _sighting(host, points, fresh, seeing, now_us // SECOND_US, terms) for host in hosts
    }
    return HostReport(
        sightings=tuple(one for one in seen.values() if isinstance(one, HostSighting)),
        fencings=tuple(_restarts(points)),
        unknown={host: why for host, why in seen.items() if isinstance(why, str)},
        fault=_unmissed(seen, seeing),
    )


def _is_fresh(point: VantagePoint, now_us: int, terms: HeartbeatPatience) -> bool:
    kept_s = max(terms.fresh_s, 3 * min(point.every_s, EVERY_MAX_S))
    return abs(now_us - point.at_us) <= kept_s * SECOND_US


def _heard(point: VantagePoint, terms: HeartbeatPatience) -> frozenset[str]:
    """Return the hosts that a vantage point hears."""
    return frozenset(host for host, one in point.hosts.items() if _is_heard(one, terms))


def _is_heard(one: HeardHost, terms: HeartbeatPatience) -> bool:
    return one.silent_s < terms.missed_after_s(one.every_s) and not one.goodbye


def _sees(point: VantagePoint, heard: dict[str, frozenset[str]], terms: HeartbeatPatience) -> bool:
    """Whether whom it does not hear is missed, and it is not the one that is cut off."""
    others = frozenset[str]().union(*(those for name, those in heard.items() if name != point.name))
    own = heard[point.name]
    expected = own | others.intersection(point.hosts)
    return point.listening_s >= terms.listening_s and bool(own) and 2 * len(own) >= len(expected)


def _sighting(
    host: str,
    points: Sequence[VantagePoint],
    fresh: Sequence[VantagePoint],
    seeing: Sequence[VantagePoint],
    now_s: int,
    terms: HeartbeatPatience,
) -> HostSighting | str:
    """Return how a host is, or why nobody can tell. The first that holds counts."""
    missing = [point for point in seeing if host in point.hosts]
    hearing = [p for p in fresh if host in p.hosts and _is_heard(p.hosts[host], terms)]
    if hearing:
        up = any(p.hosts[host].beats >= terms.rise for p in hearing)
        why = f"heartbeats reach {_names(hearing)}"
        why += "" if len(missing) >= POINTS_MIN else f"; {_too_few(missing)}"
        clearest = max((p.hosts[host] for p in hearing), key=lambda one: one.beats)
        return HostSighting(
            host=host, seen=Seen.UP if up else Seen.STARTING, why=f"{why}{_ails(clearest, now_s)}"
        )
    refused = next((p.hosts[host].refused for p in fresh if _is_refused(p, host)), "")
    if refused:
        return f"it calls, and is refused: {refused}"
    goodbye, closed = _last_words(host, points)
    if goodbye:
        why = "its agent has said goodbye: it was shut down, or its agent was stopped"
        return HostSighting(host=host, seen=Seen.STOPPED, why=why)
    if closed:
        return (
            "its agent has ended without a goodbye, and the host was there to close the connection"
        )
    if len(missing) < POINTS_MIN:
        return f"it is not heard; {_too_few(missing)}"
    why = f"no heartbeat has reached {_names(missing)} for over {terms.lost_after_s:g} s"
    return HostSighting(host=host, seen=Seen.LOST, why=why)


def _is_refused(point: VantagePoint, host: str) -> bool:
    return host in point.hosts and bool(point.hosts[host].refused)


def _last_words(host: str, points: Sequence[VantagePoint]) -> tuple[bool, bool]:
    """Whether the last that anybody has heard of the host, by its own clock, is its goodbye; or that its
    side has closed the connection.
    """
    knowing = [point for point in points if host in point.hosts]
    latest = max(knowing, key=lambda p: p.at_us - p.hosts[host].silent_s * SECOND_US).hosts[host]
    said = [point.hosts[host] for point in knowing if point.hosts[host].boot == latest.boot]
    last_s, goodbye = max((one.uptime_s, one.goodbye) for one in said)
    # Whoever is closed alone has lost the host by a fault between them.
    return goodbye, all(one.closed for one in said if one.uptime_s >= last_s - ONE_END_S)


def _names(points: Sequence[VantagePoint]) -> str:
    return ", ".join(sorted(point.name for point in points))


def _too_few(missing: Sequence[VantagePoint]) -> str:
    """Return what to say of a host whose end would not be found."""
    who = _names(missing) or "nobody"
    return f"{who} would miss it, and that takes {POINTS_MIN} vantage points"


def _unmissed(seen: Mapping[str, HostSighting | str], seeing: Sequence[VantagePoint]) -> str:
    """Return why the end of some hosts would not be found; empty where every one's would be."""
    found = [
        host
        for host, one in seen.items()
        if (isinstance(one, str) or one.seen is not Seen.STOPPED)
        and sum(host in point.hosts for point in seeing) < POINTS_MIN
    ]
    if not found:
        return ""
    names = ", ".join(found[:NAMES_MAX]) + (", …" if len(found) > NAMES_MAX else "")
    return f"fewer than {POINTS_MIN} vantage points would miss {names}"


def _ails(one: HeardHost, now_s: int) -> str:
    """Return what a host that lives suffers from, in words that do not change with every second."""
    said = ""
    if one.disk_s >= DISK_S:
        said += "; its disk takes no writes"
    if abs(one.ahead_s) >= CLOCK_S:
        side = "ahead of" if one.ahead_s > 0 else "behind"
        said += f"; its clock is {side} ours"
    if 0 < one.expires_s < now_s + EXPIRES_S:
        day = datetime.fromtimestamp(one.expires_s, UTC).date()
        said += f"; its certificate ends on {day}, and then it is not heard"
    return said


def _restarts(points: Sequence[VantagePoint]) -> Iterator[HostFencing]:
    """Yield each start anew without a goodbye, once, by the time that the first to hear of it noted."""
    begun: dict[tuple[str, str], int] = {}
    for point in points:
        for host, one in point.hosts.items():
            for boot, at_s in one.restarts.items():
                if _was_clean(host, boot, at_s, points):
                    continue
                begun[host, boot] = min(at_s, begun.get((host, boot), at_s))
    for (host, _), at_s in sorted(begun.items()):
        when = datetime.fromtimestamp(at_s, UTC).isoformat()
        proof = f"heartbeat: it started anew at {when} without a goodbye, so what ran on it is gone"
        yield HostFencing(host=host, at_s=at_s, proof=proof, restart=True)


def _was_clean(host: str, boot: str, at_s: int, points: Sequence[VantagePoint]) -> bool:
    """Whether anybody has heard the goodbye that came before a boot."""
    for one, at_us in ((p.hosts[host], p.at_us) for p in points if host in p.hosts):
        said_s = at_us / SECOND_US - one.silent_s
        if one.cleaned == boot or (one.goodbye and 0 <= at_s - said_s + SLACK_S <= CLEAN_S):
            return True
    return False
