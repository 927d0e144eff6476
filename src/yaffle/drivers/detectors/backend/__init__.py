"""Detectors that read through the node's profile: how the node is, and how its host is."""

from yaffle.drivers.detectors.backend.hypervisor import HypervisorDetector
from yaffle.drivers.detectors.backend.status import StatusDetector

__all__ = ["HypervisorDetector", "StatusDetector"]
