"""Records the failure of a host that is proved off, and with it an alert for each recovery controller."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Final

from yaffle.store import alerts, events

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from yaffle.engine.runtime.context import EngineContext

RECORDED: Final = "HOST_FAILURE"
"""The action of the events of a failure: recorded, accepted, discarded."""
OPERATOR: Final = "operator"
"""The source of what a person says; every other one is a machine's."""
FENCER: Final = "fencer"
"""The source of what a fencer of ours has proved."""
FAILURES: Final = uuid.UUID("6f2f4f5e-3f0c-5d0e-9a55-0b1f8f6c8c1d")
"""The name space of their ids (RFC 9562, version 5)."""
SECOND_US: Final = 1_000_000
SAME_US: Final = 60_000_000
"""What two clocks may be apart: within it, what two machines have proved of a host is one failure."""


def record(
    ctx: EngineContext,
    conn: Connection,
    host: str,
    *,
    failure_us: int,
    proof: str,
    source: str,
    incident_id: str = "",
    now_us: int,
) -> tuple[str, bool]:
    """Record that a host failed and is off, with an alert for each endpoint; return its id, and if new.

    One failure for each host and second: whoever proves it again, or says so twice, gets the first.
    What two machines have proved within a minute is one as well; a person's word is taken as it is.
    """
    hostname = ctx.hosts.hostname(host)
    failure_us -= failure_us % SECOND_US
    if (present := alerts.failure_of(conn, hostname, failure_us)) is not None:
        return present, False
    if source != OPERATOR:
        other = alerts.near(conn, hostname, failure_us, within_us=SAME_US, but=source)
        if other is not None:
            return other, False
    # The same whoever records it: a controller recognises what a restored database tells once more.
    ident = str(uuid.uuid5(FAILURES, f"{hostname} {failure_us // SECOND_US}"))
    alerts.add(
        conn,
        {
            "id": ident,
            "hostname": hostname,
            "failure_us": failure_us,
            "generated_us": now_us - now_us % SECOND_US,
            "on_shared_storage": ctx.hosts.shares_storage(host),
            "proof": proof,
            "source": source,
            "incident_id": incident_id,
        },
        tuple(ctx.drivers.alerts),
        now_us,
    )
    events.append(
        conn,
        events.Subject(otype="HOST", oid=ident, oname=hostname, incident_id=incident_id or None),
        at_us=now_us,
        action=RECORDED,
        status="recorded",
        reason=f"host {hostname} failed and is off: {proof}"[:4000],
        level=events.ERROR,
        data={"failure": ident, "source": source, "endpoints": sorted(ctx.drivers.alerts)},
    )
    return ident, True
