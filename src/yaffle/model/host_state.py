"""What a host monitor sees of hosts, and what is made of it: sightings, fencings, states."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase

from yaffle.model.msgspec_init import prepared


def is_named(host: str, patterns: Iterable[str]) -> bool:
    """Whether a host's name is one that these shell patterns are about."""
    return any(fnmatchcase(host, pattern) for pattern in patterns)


class Seen(StrEnum):
    """How a monitor sees a host."""

    UP = "up"
    LOST = "lost"
    """It was expected and does not answer. That is no proof of anything."""
    STARTING = "starting"
    """Its monitor is about to connect to it: where it was lost it still is, else it is unknown."""
    STOPPED = "stopped"
    """It was taken out of service on purpose."""
    MAINTENANCE = "maintenance"
    """Somebody works on it: whatever it does is no failure."""


class HostState(StrEnum):
    """The states of a monitored host."""

    UP = "up"
    LOST = "lost"
    FENCED = "fenced"
    """Lost, and proved to have been off since."""
    UNFENCED = "unfenced"
    """Lost for too long, and nobody has proved it off: its instances can be started nowhere."""
    STOPPED = "stopped"
    MAINTENANCE = "maintenance"


UNKNOWN = "unknown"
"""Shown for a host whose monitor sees nothing, or does not know of it now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSighting:
    """One host, as a monitor sees it now."""

    host: str
    seen: Seen
    why: str
    """One line: what the monitor goes by."""
    off: bool = False
    """Whether a fencing has proved it off since it was up last, and it is not back. An earlier fencing is
    no proof: the host has been back since, and may run although it is lost."""
    off_s: int | None = None
    """When that fencing was (seconds since the epoch); None where the monitor does not say."""
    busy: bool = False
    """Whether somebody is fencing it now."""
    word: bool = False
    """Whether that it is off is somebody's word, and not seen now: it holds only while nothing is heard
    of the host, and whoever gave it tells of the failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFencing:
    """A host was switched off and that succeeded, by the word of whoever did it."""

    host: str
    at_s: int
    """When that was completed, by the clock of whoever did it (seconds since the epoch)."""
    proof: str
    """One line: what was done, with which result, by whom."""
    owed: bool = False
    """A mark says that nobody has taken this failure over yet: it is told however old it is."""
    within_s: int = 0
    """The cluster may have completed it so many seconds after `at_s`: it is the same fencing."""
    restart: bool = False
    """Whether the proof is that the host started anew: of one that was proved off before, it says nothing
    new."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostMark:
    """A host's mark in its cluster: it failed, and no recovery controller has taken it over (seed 3)."""

    host: str
    name: str
    """The attribute that is the mark, in the cluster's own words."""
    value: str
    """What it says; it is cleared only while it says so."""
    at_s: tuple[int, ...] = ()
    """When the host failed (seconds since the epoch); empty where the mark does not say."""
    timeless: bool = False
    """Whether such a mark never says when: it is about the failure that the host is off by."""


@prepared
@dataclass(frozen=True, slots=True, kw_only=True)
class HostFence:
    """How far our own fencers are with a lost host; empty where nothing is done about it."""

    asked_by: str = ""
    """The person who has asked for it."""
    why: str = ""
    """That person's reason."""
    running: bool = False
    until_us: int = 0
    """While it runs: until when it is taken to. Else: when it may be tried again."""
    tries: int = 0
    said: str = ""
    """What came of it last, or why nothing is done."""
    held: tuple[str, ...] = ()
    """The rules that have kept the host since it was lost, each of which is on record once."""
    heard: str = ""
    """Why an engine has said that the host may live: each hears of its own nodes alone."""
    heard_until_us: int = 0
    """Until when that holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostReport:
    """All that a monitor sees: a host that is not named is unknown, never well."""

    sightings: tuple[HostSighting, ...]
    fencings: tuple[HostFencing, ...]
    """In any order; those that have been told before may be among them again, or not."""
    marks: tuple[HostMark, ...] = ()
    """The marks that are set now; what they say of failures is among the fencings as well."""
    unknown: Mapping[str, str] = field(default_factory=dict)
    """Hosts of which it cannot be told how they are, and why."""
    fault: str = ""
    """Why failures would not be found, though hosts are seen; empty where they would."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorBlind:
    """The monitor could not be asked, or what it said is worth nothing: every host is unknown."""

    why: str
