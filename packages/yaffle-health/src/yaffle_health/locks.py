"""A lock that stays a lock of the operating system, whatever eventlet or gevent have patched."""

from __future__ import annotations

import _thread

# `_thread.RLock` is what neither library replaces (they replace threading's, and allocate_lock).
# A green lock would hand the wait to a hub, and the endpoint's thread has none. Nothing inside our
# locked sections can switch greenlets, so a green program never waits for itself here.
# Re-entrant, because a signal handler may interrupt the very thread that holds it.
NativeRLock = _thread.RLock
