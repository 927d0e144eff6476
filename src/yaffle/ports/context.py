"""Driver context: what every driver is built from, by the one constructor that wiring calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from yaffle.model.machine_identity import MachineIdentity
from yaffle.ports.clock import Clock
from yaffle.ports.credentials import Credentials
from yaffle.ports.detector import UrlProber
from yaffle.ports.host_monitor import HostMonitor
from yaffle.ports.notified_hosts import NotifiedHosts
from yaffle.ports.profile import Profile
from yaffle.ports.vantage_points import VantagePoints


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverContext:
    """Handed to a driver's constructor; it takes what it needs."""

    clock: Clock
    state_dir: Path
    settings: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    """The driver's own section of the configuration; unknown keys are ConfigError."""
    section: str = ""
    """Where that section stands, for messages: `notifiers.ops`; empty where the driver knows best."""
    profiles: Mapping[str, Profile] = field(default_factory=lambda: MappingProxyType({}))
    """By type, for detectors and fencers that read through the profile."""
    host_monitors: Mapping[str, HostMonitor] = field(default_factory=lambda: MappingProxyType({}))
    """By name, for fencers that go by a fencing that somebody else has done."""
    host_clouds: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Name of a host monitor → the cloud that its hosts are of, where that is said."""
    cloud: str = ""
    """The same, of the host monitor that is built."""
    host_names: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Host, as a cloud or cluster calls it → its fully qualified name, where that is another."""
    notified: NotifiedHosts | None = None
    """What other monitors have notified of hosts; None where nothing is asked of drivers yet."""
    vantage_points: VantagePoints | None = None
    """Where what is heard of hosts is stored for other engines; None as before."""
    prober: UrlProber | None = None
    credentials: Credentials | None = None
    """What projects have handed to us; None where nobody keeps that."""
    home: MachineIdentity | None = None
    """This machine, for drivers whose nodes live on it; None where there is only one."""
    allow_networks: tuple[str, ...] = ()
    deny_networks: tuple[str, ...] | None = None
    """CIDR texts for `core.addresses.AddressRules`; None keeps its default."""
