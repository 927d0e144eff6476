"""Detector that listens to the backend's own events, and asks where it cannot hear."""

from yaffle.drivers.detectors.lifecycle.detector import LifecycleDetector

__all__ = ["LifecycleDetector"]
