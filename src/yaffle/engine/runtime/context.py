"""The engine's context: store, clock, drivers, settings and wake-ups."""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from yaffle.core.addresses import AddressRules
from yaffle.core.health.host_fencing import HostFencePolicy
from yaffle.core.health.host_verdict import HostPatience
from yaffle.core.planning.budgets import BudgetLimit, Scope
from yaffle.core.scaling.sizes import CEILING
from yaffle.engine.runtime.disk_space import DiskSpace
from yaffle.engine.runtime.evidence_index import EvidenceIndex
from yaffle.engine.runtime.metrics import Metrics
from yaffle.engine.runtime.step_deadlines import Deadlines
from yaffle.integrations.secret_box import IdKeys
from yaffle.model.operations import Promise
from yaffle.store.prune import Retention

if TYPE_CHECKING:
    from yaffle.config import BudgetsSettings, EngineSettings
    from yaffle.model.machine_identity import MachineIdentity
    from yaffle.ports import (
        AlertDriver,
        Clock,
        Detector,
        Fencer,
        HostMonitor,
        Notifier,
        Profile,
        Workflow,
    )
    from yaffle.store.database import Store


LOCAL_PROCESS: Final = "yaffle.local.process-1.0"
"""The one type that has to be allowed before it is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drivers:
    """Every driver by the name under which documents and rows speak of it."""

    profiles: Mapping[str, Profile]
    detectors: Mapping[str, Detector]
    fencers: Mapping[str, Fencer] = field(default_factory=dict)
    workflows: Mapping[str, Workflow] = field(default_factory=dict)
    notifiers: Mapping[str, Notifier] = field(default_factory=dict)
    alerts: Mapping[str, AlertDriver] = field(default_factory=dict)
    """By the name of the endpoint, not of the driver."""
    host_monitors: Mapping[str, HostMonitor] = field(default_factory=dict)
    """By the name in the settings, not of the driver."""

    def lacks(self, kind: str) -> str:
        """Say that the driver of a profile type is not here, and what brings it; empty where it is."""
        if kind in self.profiles:
            return ""
        return f"the driver of profile type {kind} ({how_to_have(kind)})"


def how_to_have(kind: str) -> str:
    """Say what makes a profile type available."""
    if kind == LOCAL_PROCESS:
        return "start `yaffle serve` with --allow-local-process"
    if kind.startswith("os."):
        return f'set up [drivers."{kind}"] in the configuration'
    return "install its package"


class Wakeup:
    """Wakes one waiter early. A ring that is lost costs one poll interval, never an event."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def ring(self) -> None:
        """Wake the waiter, or make its next wait return at once."""
        self._event.set()

    async def wait(self, seconds: float) -> bool:
        """Wait for a ring, at most `seconds`; return whether it rang."""
        try:
            async with asyncio.timeout(max(seconds, 0)):
                await self._event.wait()
        except TimeoutError:
            return False
        self._event.clear()
        return True


class Signals:
    """The wake-ups of one process; other processes are noticed by polling."""

    def __init__(self) -> None:
        self.actions = Wakeup()
        self.outbox = Wakeup()
        self.alerts = Wakeup()
        self.watches = Wakeup()
        """There is a cluster that nobody watches."""
        self.clusters = Wakeup()
        """Something of some cluster has changed: its watch is told once it is known which."""

    def changed(self) -> None:
        """Wake everything: rows that users or executors write have changed."""
        self.actions.ring()
        self.outbox.ring()
        self.alerts.ring()
        self.clusters.ring()


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotas:
    """Quotas of the installation."""

    clusters: int = 10_000
    """Of one project."""
    nodes: int = CEILING
    """Of one cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverTerms:
    """Terms that hold for every webhook."""

    rate: BudgetLimit = field(default=BudgetLimit(max_in_flight=1, burst=10, per_hour=3600.0))
    """How often each may be triggered, and how often unknown ones are answered as such."""
    keys: IdKeys = field(default=IdKeys(Path(os.devnull)))
    """What hides their ids in the database; without settings there is no key, and no receiver made."""
    age_us: int | None = None
    """None is called when it is older; None: as long as its own end is not there."""


STALE_S: Final = 60.0
"""A host whose monitor has seen nothing for so long is unknown; for four polls where those are slow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostTerms:
    """Terms of watching hosts, and of telling recovery controllers of failed ones."""

    responsible: str = ""
    """The endpoint whose acceptance settles a failure; empty where nobody is told."""
    on_shared_storage: bool = False
    exceptions: Mapping[str, bool] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    poll_s: float = 5.0
    patience: HostPatience = field(default_factory=HostPatience)
    fencing: HostFencePolicy = field(default_factory=HostFencePolicy)
    _domains: dict[str, str] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def stale_us(self) -> int:
        """Return for how long what a monitor saw last is taken for what is (µs)."""
        return int(max(STALE_S, 4 * self.poll_s) * 1_000_000)

    def hostname(self, host: str) -> str:
        """Return a host's fully qualified name."""
        return self.names.get(host, host)

    def names_of(self, host: str) -> tuple[str, ...]:
        """Return all names of a host, the given one first."""
        full = self.hostname(host)
        others = (name for name, other in self.names.items() if other == full)
        return tuple(dict.fromkeys((host, full, *others)))

    def domain_of(self, host: str) -> str:
        """Return the failure domain of a host, by whichever of its names; empty where it is in none."""
        if host not in self._domains:
            self._domains[host] = self.fencing.domain_of(self.names_of(host))
        return self._domains[host]

    def shares_storage(self, host: str) -> bool:
        """Whether the host's instances lie on shared storage, under whichever of its names."""
        default = self.exceptions.get(self.hostname(host), self.on_shared_storage)
        return self.exceptions.get(host, default)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineContext:
    """The dependencies of the engine, built by wiring, or by the simulation."""

    store: Store
    clock: Clock
    drivers: Drivers
    settings: EngineSettings
    budgets: Mapping[Scope, BudgetLimit]
    signals: Signals
    rng: random.Random
    new_id: Callable[[], str]
    host: str
    pid: int
    metrics: Metrics
    home: MachineIdentity | None = None
    """Where the nodes live that are processes of this very machine; None: they are not told apart."""
    alone: bool = True
    """Whether the database's file lock proves that no other engine lives."""
    retention: Retention = field(default_factory=Retention)
    quotas: Quotas = field(default_factory=Quotas)
    rules: AddressRules = field(default_factory=AddressRules)
    """Which addresses the engine itself may speak to on a policy's behalf."""
    deadlines: Deadlines = field(default_factory=Deadlines)
    tally: EvidenceIndex = field(default_factory=EvidenceIndex)
    followers: Counter[str] = field(default_factory=Counter)
    """By profile type, how many steps of ours are under way."""
    notify: tuple[str, ...] = ()
    """Names of the notifiers that are told of incidents."""
    receivers: ReceiverTerms = field(default_factory=ReceiverTerms)
    hosts: HostTerms = field(default_factory=HostTerms)
    room: DiskSpace = field(default_factory=DiskSpace)

    def lacks(self, kind: str) -> str:
        """Return what is missing here to heal nodes of a profile type; empty where nothing is."""
        missing = self.drivers.lacks(kind)
        here = not missing and Promise.STAYS_AT_HOME in self.drivers.profiles[kind].promises
        return missing or self.room.lacks(here=here)

    def able(self) -> Sequence[str]:
        """Return the profile types whose nodes can be healed from here."""
        return tuple(kind for kind in self.drivers.profiles if not self.lacks(kind))


def limits(budgets: BudgetsSettings) -> Mapping[Scope, BudgetLimit]:
    """Return the budgets' settings as the core wants them."""
    sections = {
        Scope.GLOBAL: budgets.total,
        Scope.PROJECT: budgets.project,
        Scope.DOMAIN: budgets.domain,
        Scope.HOST: budgets.host,
        Scope.CLUSTER: budgets.cluster,
    }
    return {
        scope: BudgetLimit(max_in_flight=s.max_in_flight, burst=s.burst, per_hour=s.per_hour)
        for scope, s in sections.items()
    }
