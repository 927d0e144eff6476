"""What tests of the `masakari` alert driver share: hosts, failures, and the driver itself."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path

from yaffle.drivers.alerts.masakari import MasakariAlerts
from yaffle.engine.runtime.clock import SystemClock
from yaffle.model.host_failure import HostFailure
from yaffle.model.operations import Delivery
from yaffle.ports.context import DriverContext

NOW_S = 1_790_000_000


def host() -> str:
    """Return a name that no other test has."""
    return f"cmp-{uuid.uuid4().hex[:8]}.example.org"


def failure(hostname: str, *, generated_s: int = NOW_S) -> HostFailure:
    return HostFailure(
        id=str(uuid.uuid4()),
        hostname=hostname,
        failure_s=generated_s - 12,
        generated_s=generated_s,
        on_shared_storage=True,
        proof="read back: off",
    )


def at(clouds: Path, **settings: object) -> MasakariAlerts:
    given = {"cloud": "lab", "clouds_file": str(clouds), **settings}
    context = DriverContext(
        clock=SystemClock(), state_dir=Path(), settings=given, section="alerts.masakari"
    )
    return MasakariAlerts(context)


def send(ours: MasakariAlerts, what: HostFailure, deadline_s: float = 60) -> tuple[Delivery, str]:
    return asyncio.run(ours.send(what, deadline_s=deadline_s))
