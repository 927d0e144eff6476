"""Detector that listens to the backend's own events, and asks where it cannot hear."""

from yaffle.drivers.detectors.lifecycle.detector import LifecycleDetector
from yaffle.drivers.detectors.lifecycle.polling_fallback import Unheard

__all__ = ["LifecycleDetector", "Unheard"]
