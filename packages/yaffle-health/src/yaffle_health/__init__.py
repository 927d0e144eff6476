"""Every process can say how it is: items in memory, a decorator, and /health over TCP and UNIX."""

from __future__ import annotations

from yaffle_health.model import Check, Health, Service, Status

__all__ = ["Check", "Health", "Service", "Status"]
