"""Tables of monitored hosts, of the monitors that look at them, and of what vantage points hear."""

from __future__ import annotations

from sqlalchemy import Column, Table

from yaffle.store.tables import columns

host_monitors = Table(
    "host_monitors",
    columns.metadata,
    Column("name", columns.Words(255), primary_key=True),
    # When the latest look that saw anything began.
    columns.us("seen_us"),
    # Why nobody sees anything since, or failures would not be found; empty while all is well.
    columns.text("fault"),
)

monitored_hosts = Table(
    "monitored_hosts",
    columns.metadata,
    Column("monitor", columns.Words(255), primary_key=True),
    Column("host", columns.Words(255), primary_key=True),
    columns.word("state", None),
    columns.us("since_us"),
    columns.text("why"),
    # Since when its monitor does not know of it; null while it does.
    columns.us_or_null("unseen_us"),
    # The fencings that have been judged: seconds since the epoch.
    columns.json("told"),
    # How far our own fencers are with it (HostFence); null where nothing is done.
    columns.json_or_null("fence"),
)

vantage_points = Table(
    "vantage_points",
    columns.metadata,
    Column("monitor", columns.Words(255), primary_key=True),
    Column("name", columns.Words(255), primary_key=True),
    # When it stored this.
    columns.us("at_us"),
    # A VantagePoint as JSON.
    columns.text("said"),
)
