"""GET /health over TCP and UNIX sockets, from one thread that the host does not notice."""

from __future__ import annotations

from yaffle_health.server.endpoint import Endpoint

__all__ = ["Endpoint"]
