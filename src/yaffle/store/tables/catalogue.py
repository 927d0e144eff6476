"""Tables of what users create: profiles, policies, clusters, bindings, nodes."""

from __future__ import annotations

from sqlalchemy import JSON, Column, ForeignKey, Index, Table, UniqueConstraint

from yaffle.store.tables import columns

profiles = Table(
    "profiles",
    columns.metadata,
    columns.ident(),
    columns.word("name", None, index=True),
    columns.word("type", None),
    columns.json("spec"),
    # As the user wrote it; `spec` has every default filled in.
    columns.json_or_null("given"),
    columns.json("metadata"),
    *columns.owner(),
    columns.us("created_us"),
    columns.us_or_null("updated_us"),
    columns.in_order(),
)

policies = Table(
    "policies",
    columns.metadata,
    columns.ident(),
    columns.word("name", None, index=True),
    columns.word("type", None),
    columns.json("spec"),
    columns.json_or_null("given"),
    columns.text("source"),
    Column("warnings", JSON(none_as_null=True), nullable=False, default=list),
    columns.json("metadata"),
    *columns.owner(),
    columns.us("created_us"),
    columns.us_or_null("updated_us"),
    columns.in_order(),
)

clusters = Table(
    "clusters",
    columns.metadata,
    columns.ident(),
    columns.word("name", None, index=True),
    Column("profile_id", columns.Words(36), ForeignKey("profiles.id"), nullable=False, index=True),
    # A stored fact, never derived from how many members happen to be well (design/state).
    columns.number("desired_capacity", 0),
    columns.number("min_size", 0),
    columns.number("max_size", -1),
    columns.number("next_index", 1),
    columns.word("status", "INIT"),
    columns.text("status_reason"),
    columns.number("timeout_s", 3600),
    columns.json("metadata"),
    columns.json("config"),
    columns.json("data"),
    *columns.owner(),
    columns.us_or_null("init_us"),
    columns.us("created_us"),
    # When its creation was completed; `created_us` is when the row was made.
    columns.us_or_null("made_us"),
    columns.us_or_null("updated_us"),
    columns.in_order(),
)

bindings = Table(
    "bindings",
    columns.metadata,
    columns.ident(),
    Column("cluster_id", columns.Words(36), ForeignKey("clusters.id"), nullable=False),
    Column("policy_id", columns.Words(36), ForeignKey("policies.id"), nullable=False, index=True),
    columns.word("policy_type", None),
    columns.flag("enabled", default=True),
    columns.number("priority", 500),
    columns.json("data"),
    columns.us_or_null("last_op_us"),
    columns.us("created_us"),
    columns.us_or_null("updated_us"),
    UniqueConstraint("cluster_id", "policy_id"),
)

nodes = Table(
    "nodes",
    columns.metadata,
    columns.ident(),
    columns.word("name", None, index=True),
    Column("cluster_id", columns.Words(36), ForeignKey("clusters.id"), nullable=True, index=True),
    columns.number("index", -1),
    columns.word("role"),
    Column("profile_id", columns.Words(36), ForeignKey("profiles.id"), nullable=False, index=True),
    columns.word("physical_id", index=True),
    # Three words, never one (design/state): the engine's, ours, the backend's.
    columns.word("status", "INIT", index=True),
    columns.text("status_reason"),
    columns.word("health", "initializing"),
    columns.text("health_reason"),
    columns.flag("gray", default=False),
    columns.us_or_null("health_us"),
    columns.word("backend_status"),
    columns.json("attributes"),
    columns.json("metadata"),
    columns.json("data"),
    columns.flag("tainted", default=False),
    columns.us_or_null("grace_us"),
    columns.us_or_null("seen_us"),
    columns.text_or_null("mark_reason"),
    columns.word("mark_by"),
    columns.us_or_null("mark_us"),
    columns.number("attempts", 0),
    columns.us_or_null("attempt_us"),
    columns.us_or_null("next_attempt_us"),
    columns.us_or_null("exhausted_us"),
    columns.us_or_null("healthy_us"),
    # Optimistic: an update names the version it read and adds one.
    columns.number("version", 1),
    *columns.owner(),
    columns.us_or_null("init_us"),
    columns.us("created_us"),
    columns.us_or_null("made_us"),
    columns.us_or_null("updated_us"),
    columns.in_order(),
    # What changes are noticed by: see `store.change_tokens`.
    Index(None, "cluster_id", "version"),
)

receivers = Table(
    "receivers",
    columns.metadata,
    # Whoever knows the id of a webhook may trigger it: it is a secret like a password, and no more
    # than its first characters and a digest are here (`store.receivers.stored_id`).
    columns.ident(),
    # The id itself, for whoever has the key; none in rows of before schema 0007, which `id` holds.
    columns.word_or_null("hidden"),
    columns.word("name", None, index=True),
    columns.word("type", None),
    columns.ref("cluster_id", index=True),
    columns.word("action"),
    columns.json("actor"),
    columns.json("params"),
    columns.json("channel"),
    columns.us_or_null("expires_us"),
    *columns.owner(),
    columns.us("created_us"),
    columns.us_or_null("updated_us"),
    columns.in_order(),
)
