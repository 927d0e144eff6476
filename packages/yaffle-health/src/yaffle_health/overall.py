"""The rules that make one word out of many checks (seed 4, "Definitions"), as a pure function."""

from __future__ import annotations

from collections.abc import Collection

from yaffle_health.model import Check, Status


def overall(checks: Collection[Check]) -> Status:
    """Judge all checks together, in this order:

    1. no checks: pass (a process that has just started must not be restarted for it);
    2. a live check fails: fail;
    3. every check has expired: fail;
    4. a live check warns, or some check has expired: warn;
    5. otherwise pass.
    """
    live = [check.status for check in checks if not check.expired]
    if not checks:
        return Status.PASS
    if Status.FAIL in live or not live:
        return Status.FAIL
    if Status.WARN in live or len(live) < len(checks):
        return Status.WARN
    return Status.PASS
