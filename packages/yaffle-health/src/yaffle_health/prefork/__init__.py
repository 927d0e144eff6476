"""Prefork servers: a socket for each worker, and one view of them all.

After a fork only one process can own a port, and which one is chance: the others go unwatched, or the
master answers with a state of its own that never changes. So each worker listens on a UNIX socket
named after its process id in one directory, and the view asks them all.
"""

from __future__ import annotations

from yaffle_health.prefork.serving import gather, serve_worker
from yaffle_health.prefork.workers import Workers

__all__ = ["Workers", "gather", "serve_worker"]
