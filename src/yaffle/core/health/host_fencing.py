"""Chooses which lost hosts are switched off by our own fencers: those that nobody else has fenced.

Pacemaker loses fencings under load: such hosts stay lost, and their instances down. Its cluster, with a
quorum, has missed the host for long then; that is no proof, so whatever speaks against it keeps it. The
first rule that holds is told to people. A person who asks for one host lifts what the settings forbid,
and nothing that is seen of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from yaffle.model.host_state import HostFence, HostState, is_named

HEARD_S: Final = 60.0
"""What one engine hears of a host keeps all others from fencing it for so long, and for four looks."""
LONGEST_S: Final = 900.0
"""Nobody takes longer for one host, or waits longer before it is tried again."""
FAILED: Final = frozenset({HostState.LOST, HostState.UNFENCED, HostState.FENCED})
"""Hosts that count as failed at once: those that are fenced too, or a storm would end in a whole cloud
that is off, one after the other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFencePolicy:
    """What the settings allow."""

    fence_lost: bool = False
    share: float = 0.25
    domains: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Failure domains, and the patterns of their hosts' names."""

    def domain_of(self, names: Sequence[str]) -> str:
        """Return the first failure domain of a host with these names; empty where it is in none."""
        found = (
            domain
            for domain, patterns in self.domains.items()
            if any(is_named(name, patterns) for name in names)
        )
        return next(found, "")

    def most(self, hosts: int) -> int:
        """Return how many hosts may have failed at once; one always may."""
        return max(1, int(self.share * hosts))


@dataclass(frozen=True, slots=True, kw_only=True)
class LostHost:
    """A host that is lost, and what we see of it."""

    host: str
    state: HostState
    since_us: int
    domain: str = ""
    """Its failure domain; empty where it is in none."""
    device: str = ""
    """The address of the device that switches it, as our fencer names it; empty where none does."""
    busy: bool = False
    """Its own cluster is fencing it now."""
    missed: bool = True
    """Whether its monitor misses it now; else it was lost, and something is heard of it."""
    answering: int = 0
    """Nodes of ours on it that answered when they were asked last, and since it was lost."""
    said_up: bool = False
    """The backend of nodes on it, or another monitor, says that it is up."""
    fence: HostFence = field(default_factory=HostFence)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFleet:
    """All hosts of one monitor, and what is being done about them."""

    hosts: int
    failed: int
    policy: HostFencePolicy
    now_us: int
    domains: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """By failure domain: its hosts, and how many of them have failed."""
    stopped: bool = False
    """Whether somebody has stopped everything (`yaffle stop`)."""
    in_use: frozenset[str] = frozenset()
    """Devices that are asked now: two questions at once have made one of them fail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceRule:
    """A reason to leave a lost host as it is."""

    name: str
    keeps: Callable[[LostHost, HostFleet], bool]
    says: Callable[[LostHost, HostFleet], str]
    lifted: bool = False
    """Whether a person who asks for this host lifts it."""
    recorded: bool = True
    """Whether it is put on record; what is being done about the host has events of its own."""


def hears(*, answering: int, said_up: bool) -> str:
    """Return what speaks for a lost host's life; empty where nothing does."""
    if answering:
        return f"nodes on it answer, though it is lost: {answering}"
    return "the backend of nodes on it, or another monitor, says that it is up" if said_up else ""


def is_heard(fence: HostFence, now_us: int) -> bool:
    """Whether an engine has heard of the host lately; one that wrote by a clock far ahead has not."""
    return 0 < fence.heard_until_us - now_us <= LONGEST_S * 1_000_000


def _waits(host: LostHost, fleet: HostFleet) -> bool:
    """Whether its time has not come; one that was written by a clock far ahead has."""
    return 0 < host.fence.until_us - fleet.now_us <= LONGEST_S * 1_000_000


def _storm(hosts: int, failed: int, fleet: HostFleet, where: str = "") -> str:
    return (
        f"{failed} of {hosts} hosts{where} have failed at once, and hosts.fence_share lets"
        f" {fleet.policy.most(hosts)}: that may be the network's fault, or ours"
    )


def _domain_storm(host: LostHost, fleet: HostFleet) -> bool:
    hosts, failed = fleet.domains.get(host.domain, (0, 0))
    return failed > fleet.policy.most(hosts)


def _running(host: LostHost, fleet: HostFleet) -> bool:
    return host.fence.running and _waits(host, fleet)


RULES: Final = (
    FenceRule(
        name="no-device",
        keeps=lambda host, _: not host.device,
        says=lambda *_: "no device in drivers.HOST.devices switches it",
    ),
    FenceRule(
        name="running",
        keeps=_running,
        says=lambda host, _: host.fence.said or "it is being fenced",
        recorded=False,
    ),
    FenceRule(
        name="stopped",
        keeps=lambda _, fleet: fleet.stopped,
        says=lambda *_: "everything is stopped, as `yaffle status` says",
    ),
    FenceRule(
        name="busy",
        keeps=lambda host, _: host.busy,
        says=lambda *_: "its cluster is fencing it now",
    ),
    FenceRule(
        name="returning",
        keeps=lambda host, _: not host.missed,
        says=lambda *_: "it was lost, and its monitor is connecting to it now",
    ),
    FenceRule(
        name="answers",
        keeps=lambda host, _: host.answering > 0,
        says=lambda host, _: hears(answering=host.answering, said_up=False),
    ),
    FenceRule(
        name="said-up",
        keeps=lambda host, _: host.said_up,
        says=lambda *_: hears(answering=0, said_up=True),
    ),
    FenceRule(
        name="heard",
        keeps=lambda host, fleet: is_heard(host.fence, fleet.now_us),
        says=lambda host, _: f"an engine hears of it: {host.fence.heard}",
    ),
    FenceRule(
        name="storm",
        keeps=lambda _, fleet: fleet.failed > fleet.policy.most(fleet.hosts),
        says=lambda _, fleet: _storm(fleet.hosts, fleet.failed, fleet),
        lifted=True,
    ),
    FenceRule(
        name="domain-storm",
        keeps=_domain_storm,
        says=lambda host, fleet: _storm(
            *fleet.domains[host.domain], fleet, where=f" of {host.domain}"
        ),
        lifted=True,
    ),
    FenceRule(
        name="not-allowed",
        keeps=lambda _, fleet: not fleet.policy.fence_lost,
        says=lambda *_: "it would be fenced, if hosts.fence_lost were on",
        lifted=True,
    ),
    FenceRule(
        name="later",
        keeps=_waits,
        says=lambda host, _: host.fence.said,
        recorded=False,
    ),
    FenceRule(
        name="in-use",
        keeps=lambda host, fleet: host.device in fleet.in_use,
        says=lambda *_: "its device is asked for another host now",
        recorded=False,
    ),
)


@dataclass(frozen=True, slots=True)
class Kept:
    """Why a lost host is left as it is: the first rule that holds, and its words."""

    rule: FenceRule
    says: str


def choose(lost: Sequence[LostHost], fleet: HostFleet) -> tuple[list[str], Mapping[str, Kept]]:
    """Return the hosts to fence now, one for each device, and why not the others.

    Those that have been lost for longest come first. One that is lost for a short time is waited for,
    unless a person asks.
    """
    chosen: list[str] = []
    kept: dict[str, Kept] = {}
    in_use = set(fleet.in_use) | {host.device for host in lost if _running(host, fleet)}
    for host in sorted(lost, key=lambda one: (one.since_us, one.host)):
        asked = bool(host.fence.asked_by)
        if host.state is not HostState.UNFENCED and not asked:
            continue
        now = replace(fleet, in_use=frozenset(in_use))
        rule = next((r for r in RULES if not (asked and r.lifted) and r.keeps(host, now)), None)
        if rule is not None:
            kept[host.host] = Kept(rule, rule.says(host, now))
            continue
        chosen.append(host.host)
        in_use.add(host.device)
    return chosen, kept
