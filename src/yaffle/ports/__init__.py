"""Ports: what the shell needs from outside, as Protocols; nobody inherits our code, mypy checks the fit.

Every call takes a `deadline_s`: the driver gives up by itself within that many seconds of being
called. Drivers turn what they expect (`OSError`, timeouts, error answers) into values; an exception
that escapes is a bug of the driver, logged with its traceback and treated as unknown.
"""

from yaffle.ports.alert_driver import AlertDriver, HostFailure, SupportsResolution
from yaffle.ports.clock import Clock, SteeredClock
from yaffle.ports.context import DriverContext
from yaffle.ports.detector import (
    Detector,
    ListenerStatus,
    Sink,
    StreamingDetector,
    SupportsClusterCheck,
    SupportsEventHints,
    SupportsListenerStatus,
    SupportsModeValidation,
    SupportsReset,
    UrlProber,
    UrlResult,
    UrlTarget,
    Whole,
)
from yaffle.ports.fencer import (
    Fencer,
    NeedsSettings,
    SupportsDeviceCheck,
    SupportsFenceExclusion,
    SupportsHostFence,
)
from yaffle.ports.host_monitor import (
    HostFencing,
    HostMark,
    HostMonitor,
    HostReport,
    HostSighting,
    MonitorBlind,
    Seen,
    SupportsMarks,
    SupportsWakeUp,
)
from yaffle.ports.notifier import Message, Notifier
from yaffle.ports.profile import (
    Profile,
    SupportsAdoption,
    SupportsCauseLookup,
    SupportsDescription,
    SupportsEvacuationStatus,
    SupportsHostNames,
    SupportsHostStatus,
    SupportsInventory,
    SupportsOrphanLookup,
    SupportsPooledReads,
    SupportsPreflight,
    SupportsProjects,
    SupportsReservedHosts,
    SupportsUndo,
)
from yaffle.ports.workflow import Workflow

__all__ = [
    "AlertDriver",
    "SupportsAdoption",
    "SupportsMarks",
    "SupportsWakeUp",
    "SupportsModeValidation",
    "Clock",
    "SupportsReservedHosts",
    "SupportsResolution",
    "SupportsUndo",
    "SupportsDescription",
    "Detector",
    "SupportsFenceExclusion",
    "SupportsDeviceCheck",
    "SupportsHostFence",
    "DriverContext",
    "HostFailure",
    "HostFencing",
    "HostMark",
    "HostMonitor",
    "HostReport",
    "HostSighting",
    "ListenerStatus",
    "SupportsListenerStatus",
    "Fencer",
    "SupportsPreflight",
    "SupportsEventHints",
    "SupportsHostNames",
    "SupportsHostStatus",
    "SupportsInventory",
    "Message",
    "MonitorBlind",
    "NeedsSettings",
    "Notifier",
    "SupportsPooledReads",
    "Profile",
    "SupportsReset",
    "SupportsProjects",
    "Seen",
    "Sink",
    "SteeredClock",
    "SupportsOrphanLookup",
    "StreamingDetector",
    "SupportsClusterCheck",
    "SupportsCauseLookup",
    "UrlProber",
    "UrlResult",
    "UrlTarget",
    "SupportsEvacuationStatus",
    "Whole",
    "Workflow",
]
