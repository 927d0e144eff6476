"""Tables of what happened and was said: incidents, decisions, events, notifications, pauses."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Table

from yaffle.store.tables import columns

proofs = Table(
    "proofs",
    columns.metadata,
    columns.ident(),
    columns.ref("incident_id", index=True),
    columns.ref("action_id"),
    columns.ref("node_id", index=True),
    columns.word("physical_id"),
    columns.word("method", None),
    columns.text("evidence"),
    columns.word("by", None),
    columns.us("at_us", index=True),
    columns.flag("waived", default=False),
)

incidents = Table(
    "incidents",
    columns.metadata,
    columns.ident(),
    columns.ref("node_id", index=True),
    columns.word("node_name"),
    columns.ref("cluster_id", index=True),
    columns.word("cluster_name"),
    columns.word("state", None, index=True),
    columns.word("cause"),
    columns.word_or_null("hold_reason"),
    columns.json_or_null("hold_numbers"),
    columns.text("reason"),
    columns.us_or_null("first_fail_us"),
    columns.us("opened_us", index=True),
    columns.us_or_null("decided_us"),
    columns.us_or_null("started_us"),
    columns.us_or_null("recovered_us"),
    columns.us_or_null("ended_us", index=True),
    columns.us_or_null("acknowledged_us"),
    columns.word("acknowledged_by"),
    columns.ref_or_null("action_id"),
    columns.text("evidence"),
    # Of a node's: the incident of its host, where it failed with it.
    columns.ref_or_null("parent_id", index=True),
    # The node's id (a host's key) while the incident is open: one open incident per node and host.
    Column("open_key", columns.Words(36), nullable=True, unique=True),
    *columns.owner(),
)

decisions = Table(
    "decisions",
    columns.metadata,
    columns.seq(),
    columns.ref("cluster_id", index=True),
    columns.ref("node_id", index=True),
    columns.ref_or_null("incident_id", index=True),
    columns.word("kind", None),
    columns.word_or_null("reason"),
    columns.json("numbers"),
    columns.json("inputs"),
    columns.ref("policy_id"),
    columns.word("policy_version"),
    columns.us("at_us", index=True),
    columns.us_or_null("until_us"),
    sqlite_autoincrement=True,
)

events = Table(
    "events",
    columns.metadata,
    columns.seq(),
    Column("id", columns.Words(36), nullable=False, unique=True),
    columns.us("at_us", index=True),
    columns.number("level", 20),
    columns.word("otype", None),
    columns.ref("oid", index=True),
    columns.word("oname"),
    columns.ref("cluster_id", index=True),
    columns.ref_or_null("node_id", index=True),
    columns.ref_or_null("incident_id", index=True),
    columns.word("action"),
    columns.word("status"),
    columns.text("reason"),
    columns.json("data"),
    *columns.owner(),
    sqlite_autoincrement=True,
)

outbox = Table(
    "outbox",
    columns.metadata,
    columns.seq(),
    # Stays the same on every attempt, so that receivers can deduplicate.
    Column("id", columns.Words(36), nullable=False, unique=True),
    Column("event_seq", BigInteger, nullable=False, index=True),
    columns.ref_or_null("incident_id"),
    columns.word("notifier", None),
    columns.word("topic", None),
    columns.json("body"),
    columns.number("attempts", 0),
    columns.us("next_us"),
    columns.word("state", "pending"),
    columns.text("last_error"),
    columns.us("created_us"),
    columns.us_or_null("done_us", index=True),
    Index(None, "state", "next_us"),
    # For "is an earlier message about this incident still waiting?".
    Index(None, "notifier", "incident_id", "state", "seq"),
    sqlite_autoincrement=True,
)

pauses = Table(
    "pauses",
    columns.metadata,
    columns.ident(),
    columns.word("kind", None),
    columns.word("scope", None),
    columns.ref("target_id", index=True),
    # The names of a host, with blanks between them; null for every other scope.
    columns.text_or_null("host"),
    columns.word("owner"),
    columns.text("reason"),
    columns.us("starts_us"),
    columns.us_or_null("expires_us"),
    columns.us_or_null("lifted_us", index=True),
    columns.word("lifted_by"),
)

releases = Table(
    "releases",
    columns.metadata,
    columns.ident(),
    columns.ref("cluster_id", index=True),
    columns.word("by", None),
    columns.text("reason"),
    columns.us("created_us"),
    columns.us("expires_us"),
)
