"""Tables of what engines do: epochs, leases, actions with their steps, budgets, orphans."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, Table

from yaffle.store.tables import columns

counters = Table(
    "counters",
    columns.metadata,
    Column("name", columns.Words(64), primary_key=True),
    columns.epoch("value"),
)

engines = Table(
    "engines",
    columns.metadata,
    columns.ident(),
    columns.word("host"),
    columns.number("pid", 0),
    columns.epoch(),
    columns.us("started_us"),
    columns.us("seen_us"),
    columns.us_or_null("stopped_us"),
    # The newest schema that this engine's program knows; no contraction while an older one lives.
    Column("schema", Integer, nullable=False, default=0, server_default="0"),
    Column("version", columns.Words(255), nullable=False, default="", server_default=""),
)

blindness = Table(
    "blindness",
    columns.metadata,
    Column("cluster_id", columns.Words(36), primary_key=True),
    # This engine could not see the cluster's nodes, and leaves it to others until then.
    Column("engine_id", columns.Words(36), primary_key=True),
    columns.us("since_us"),
    columns.us("until_us"),
)

duties = Table(
    "duties",
    columns.metadata,
    Column("name", columns.Words(64), primary_key=True),
    columns.ref("owner"),
    columns.epoch(),
    Column("lease_us", BigInteger, nullable=False, default=0),
)

watches = Table(
    "watches",
    columns.metadata,
    Column(
        "cluster_id",
        columns.Words(36),
        ForeignKey("clusters.id", ondelete="CASCADE"),
        primary_key=True,
    ),
    columns.ref("owner", index=True),
    columns.epoch(),
    Column("lease_us", BigInteger, nullable=False, default=0),
    Column("claimed_us", BigInteger, nullable=False, default=0),
)

actions = Table(
    "actions",
    columns.metadata,
    columns.ident(),
    columns.word("name"),
    columns.word("action", None),
    columns.ref("target", index=True),
    columns.ref_or_null("cluster_id", index=True),
    columns.ref_or_null("node_id", index=True),
    columns.ref_or_null("incident_id", index=True),
    # The action whose part this is; the last part to end wakes it.
    columns.ref("parent_id"),
    columns.word("cause"),
    columns.word("status", None),
    columns.text("status_reason"),
    columns.json("inputs"),
    columns.json("outputs"),
    columns.json("data"),
    # The node's id while the action is active, NULL once it has ended: the database itself refuses
    # a second active action on one node, whatever bug or race asks for it.
    Column("lock_key", columns.Words(36), nullable=True, unique=True),
    columns.ref("owner"),
    columns.epoch(),
    Column("lease_us", BigInteger, nullable=False, default=0),
    # A waiting action goes on by then at the latest.
    columns.us_or_null("wake_us"),
    columns.text_or_null("cancel_reason"),
    columns.number("timeout_s", 3600),
    columns.us_or_null("start_us"),
    columns.us_or_null("end_us", index=True),
    columns.us("created_us"),
    columns.us_or_null("updated_us"),
    *columns.owner(),
    Index(None, "status", "lease_us", "created_us"),
    Index(None, "parent_id", "status"),
    columns.in_order(),
)

steps = Table(
    "steps",
    columns.metadata,
    Column(
        "action_id",
        columns.Words(36),
        ForeignKey("actions.id", ondelete="CASCADE"),
        primary_key=True,
    ),
    Column("seq", Integer, primary_key=True, autoincrement=False),
    columns.number("rung", 0),
    columns.word("stage", None),
    columns.word("operation"),
    columns.ref("operation_id"),
    columns.word("phase", None),
    columns.word_or_null("result"),
    columns.text("detail"),
    columns.json("data"),
    columns.epoch(),
    columns.us("intent_us"),
    columns.us_or_null("submitted_us"),
    columns.us_or_null("ended_us"),
    columns.us("deadline_us"),
)

budgets = Table(
    "budgets",
    columns.metadata,
    Column("scope", columns.Words(64), primary_key=True),
    Column("key", columns.Words(255), primary_key=True),
    Column("tokens", columns.FLOAT, nullable=False),
    columns.us("updated_us"),
)

debris = Table(
    "debris",
    columns.metadata,
    columns.ident(),
    columns.ref("node_id", index=True),
    columns.word("physical_id"),
    columns.word("profile_type", None),
    columns.json("target"),
    columns.us("created_us"),
    columns.us("next_us"),
    columns.number("attempts", 0),
    columns.us_or_null("done_us"),
    columns.text("last_error"),
    Index(None, "done_us", "next_us"),
)
