"""The one description of every table; migrations are compared with it, repositories import it.

Times are int64 µs UTC (`_us`), ids UUIDv4 text, JSON columns plain JSON. Columns with a default may
be left out of an insert. The few foreign keys are those that a deletion must never break; history
(actions, incidents, decisions, events) outlives what it speaks of and has none.
"""

from yaffle.store.tables.alerts import alerts, host_failures
from yaffle.store.tables.catalogue import (
    bindings,
    clusters,
    nodes,
    policies,
    profiles,
    receivers,
)
from yaffle.store.tables.columns import metadata
from yaffle.store.tables.credentials import credentials
from yaffle.store.tables.history import (
    decisions,
    events,
    incidents,
    outbox,
    pauses,
    proofs,
    releases,
)
from yaffle.store.tables.hosts import host_monitors, monitored_hosts, vantage_points
from yaffle.store.tables.instance_ha import (
    failover_hosts,
    failover_segments,
    ha_notifications,
    vm_moves,
)
from yaffle.store.tables.work import (
    actions,
    blindness,
    budgets,
    counters,
    debris,
    duties,
    engines,
    steps,
    watches,
)

__all__ = [
    "metadata",
    "host_monitors",
    "monitored_hosts",
    "vantage_points",
    "failover_segments",
    "failover_hosts",
    "ha_notifications",
    "vm_moves",
    "counters",
    "engines",
    "profiles",
    "policies",
    "clusters",
    "bindings",
    "nodes",
    "receivers",
    "credentials",
    "watches",
    "blindness",
    "duties",
    "actions",
    "steps",
    "proofs",
    "incidents",
    "decisions",
    "events",
    "outbox",
    "host_failures",
    "alerts",
    "pauses",
    "releases",
    "budgets",
    "debris",
]
