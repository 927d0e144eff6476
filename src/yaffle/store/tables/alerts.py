"""Tables of failed hosts, and of the alerts that tell recovery controllers of them."""

from __future__ import annotations

from sqlalchemy import Index, Table

from yaffle.store.tables import columns

host_failures = Table(
    "host_failures",
    columns.metadata,
    # Receivers know a repeat by it.
    columns.ident(),
    columns.word("hostname", None),
    columns.us("failure_us"),
    columns.us("generated_us"),
    columns.flag("on_shared_storage", default=False),
    columns.text("proof"),
    columns.word("source"),
    columns.ref("incident_id"),
    columns.us_or_null("cleared_us", index=True),
    columns.word("cleared_by"),
    # One failure for each host and time.
    Index(None, "hostname", "failure_us", unique=True),
)

alerts = Table(
    "alerts",
    columns.metadata,
    columns.seq(),
    columns.ref("failure_id"),
    columns.word("endpoint", None),
    columns.word("hostname", None),
    columns.word("state", "pending"),
    columns.number("attempts", 0),
    columns.us("next_us"),
    columns.us_or_null("refused_us"),
    columns.text("last_answer"),
    columns.us("created_us"),
    columns.us_or_null("done_us", index=True),
    # When its endpoint was told that somebody has taken the failure over, where it wants to be.
    columns.us_or_null("resolved_us"),
    columns.word("done_by"),
    columns.text("done_why"),
    Index(None, "failure_id", "endpoint", unique=True),
    Index(None, "state", "next_us"),
    # For "does an earlier failure of this host still wait for this endpoint?".
    Index(None, "endpoint", "hostname", "state", "seq"),
    sqlite_autoincrement=True,
)
