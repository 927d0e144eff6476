"""Create every table of the first version.

Frozen: once released it says what 0.1 was, whatever `tables.py` becomes.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

# MariaDB's TEXT ends at 64 KB, and its FLOAT after seven digits.
TEXT = sa.Text().with_variant(mysql.MEDIUMTEXT(), "mysql", "mariadb")
FLOAT = sa.Float().with_variant(mysql.DOUBLE(asdecimal=False), "mysql", "mariadb")


def upgrade() -> None:  # noqa: PLR0915 - one statement per table and index
    """Build on an empty database."""
    op.create_table(
        "actions",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("action", sa.String(length=255), nullable=False),
        sa.Column("target", sa.String(length=36), nullable=False),
        sa.Column("cluster_id", sa.String(length=36), nullable=True),
        sa.Column("node_id", sa.String(length=36), nullable=True),
        sa.Column("incident_id", sa.String(length=36), nullable=True),
        sa.Column("cause", sa.String(length=255), nullable=False),
        sa.Column("status", sa.String(length=255), nullable=False),
        sa.Column("status_reason", TEXT, nullable=False),
        sa.Column("inputs", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("outputs", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("data", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("lock_key", sa.String(length=36), nullable=True),
        sa.Column("owner", sa.String(length=36), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("lease_us", sa.BigInteger(), nullable=False),
        sa.Column("cancel_reason", TEXT, nullable=True),
        sa.Column("timeout_s", sa.Integer(), nullable=False),
        sa.Column("start_us", sa.BigInteger(), nullable=True),
        sa.Column("end_us", sa.BigInteger(), nullable=True),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.Column("updated_us", sa.BigInteger(), nullable=True),
        sa.Column("project", sa.String(length=255), nullable=False),
        sa.Column("user", sa.String(length=255), nullable=False),
        sa.Column("domain", sa.String(length=255), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_actions")),
        sa.UniqueConstraint("lock_key", name=op.f("uq_actions_lock_key")),
    )
    op.create_index(op.f("ix_actions_cluster_id"), "actions", ["cluster_id"], unique=False)
    op.create_index(op.f("ix_actions_end_us"), "actions", ["end_us"], unique=False)
    op.create_index(op.f("ix_actions_incident_id"), "actions", ["incident_id"], unique=False)
    op.create_index(op.f("ix_actions_node_id"), "actions", ["node_id"], unique=False)
    op.create_index(op.f("ix_actions_project"), "actions", ["project"], unique=False)
    op.create_index(
        op.f("ix_actions_status_lease_us_created_us"),
        "actions",
        ["status", "lease_us", "created_us"],
        unique=False,
    )
    op.create_index(op.f("ix_actions_target"), "actions", ["target"], unique=False)
    op.create_table(
        "budgets",
        sa.Column("scope", sa.String(length=64), nullable=False),
        sa.Column("key", sa.String(length=255), nullable=False),
        sa.Column("tokens", FLOAT, nullable=False),
        sa.Column("updated_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("scope", "key", name=op.f("pk_budgets")),
    )
    op.create_table(
        "counters",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("value", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_counters")),
    )
    op.create_table(
        "debris",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("node_id", sa.String(length=36), nullable=False),
        sa.Column("physical_id", sa.String(length=255), nullable=False),
        sa.Column("profile_type", sa.String(length=255), nullable=False),
        sa.Column("target", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.Column("next_us", sa.BigInteger(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("done_us", sa.BigInteger(), nullable=True),
        sa.Column("last_error", TEXT, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_debris")),
    )
    op.create_index(
        op.f("ix_debris_done_us_next_us"), "debris", ["done_us", "next_us"], unique=False
    )
    op.create_index(op.f("ix_debris_node_id"), "debris", ["node_id"], unique=False)
    op.create_table(
        "decisions",
        sa.Column(
            "seq",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("cluster_id", sa.String(length=36), nullable=False),
        sa.Column("node_id", sa.String(length=36), nullable=False),
        sa.Column("incident_id", sa.String(length=36), nullable=True),
        sa.Column("kind", sa.String(length=255), nullable=False),
        sa.Column("reason", sa.String(length=255), nullable=True),
        sa.Column("numbers", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("inputs", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("policy_id", sa.String(length=36), nullable=False),
        sa.Column("policy_version", sa.String(length=255), nullable=False),
        sa.Column("at_us", sa.BigInteger(), nullable=False),
        sa.Column("until_us", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_decisions")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_decisions_at_us"), "decisions", ["at_us"], unique=False)
    op.create_index(op.f("ix_decisions_cluster_id"), "decisions", ["cluster_id"], unique=False)
    op.create_index(op.f("ix_decisions_incident_id"), "decisions", ["incident_id"], unique=False)
    op.create_index(op.f("ix_decisions_node_id"), "decisions", ["node_id"], unique=False)
    op.create_table(
        "engines",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("started_us", sa.BigInteger(), nullable=False),
        sa.Column("seen_us", sa.BigInteger(), nullable=False),
        sa.Column("stopped_us", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_engines")),
    )
    op.create_table(
        "events",
        sa.Column(
            "seq",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("at_us", sa.BigInteger(), nullable=False),
        sa.Column("level", sa.Integer(), nullable=False),
        sa.Column("otype", sa.String(length=255), nullable=False),
        sa.Column("oid", sa.String(length=36), nullable=False),
        sa.Column("oname", sa.String(length=255), nullable=False),
        sa.Column("cluster_id", sa.String(length=36), nullable=False),
        sa.Column("node_id", sa.String(length=36), nullable=True),
        sa.Column("incident_id", sa.String(length=36), nullable=True),
        sa.Column("action", sa.String(length=255), nullable=False),
        sa.Column("status", sa.String(length=255), nullable=False),
        sa.Column("reason", TEXT, nullable=False),
        sa.Column("data", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("project", sa.String(length=255), nullable=False),
        sa.Column("user", sa.String(length=255), nullable=False),
        sa.Column("domain", sa.String(length=255), nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_events")),
        sa.UniqueConstraint("id", name=op.f("uq_events_id")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_events_at_us"), "events", ["at_us"], unique=False)
    op.create_index(op.f("ix_events_cluster_id"), "events", ["cluster_id"], unique=False)
    op.create_index(op.f("ix_events_incident_id"), "events", ["incident_id"], unique=False)
    op.create_index(op.f("ix_events_node_id"), "events", ["node_id"], unique=False)
    op.create_index(op.f("ix_events_oid"), "events", ["oid"], unique=False)
    op.create_index(op.f("ix_events_project"), "events", ["project"], unique=False)
    op.create_table(
        "incidents",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("node_id", sa.String(length=36), nullable=False),
        sa.Column("node_name", sa.String(length=255), nullable=False),
        sa.Column("cluster_id", sa.String(length=36), nullable=False),
        sa.Column("cluster_name", sa.String(length=255), nullable=False),
        sa.Column("state", sa.String(length=255), nullable=False),
        sa.Column("cause", sa.String(length=255), nullable=False),
        sa.Column("hold_reason", sa.String(length=255), nullable=True),
        sa.Column("hold_numbers", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("reason", TEXT, nullable=False),
        sa.Column("first_fail_us", sa.BigInteger(), nullable=True),
        sa.Column("opened_us", sa.BigInteger(), nullable=False),
        sa.Column("decided_us", sa.BigInteger(), nullable=True),
        sa.Column("started_us", sa.BigInteger(), nullable=True),
        sa.Column("recovered_us", sa.BigInteger(), nullable=True),
        sa.Column("ended_us", sa.BigInteger(), nullable=True),
        sa.Column("acknowledged_us", sa.BigInteger(), nullable=True),
        sa.Column("acknowledged_by", sa.String(length=255), nullable=False),
        sa.Column("action_id", sa.String(length=36), nullable=True),
        sa.Column("evidence", TEXT, nullable=False),
        sa.Column("open_key", sa.String(length=36), nullable=True),
        sa.Column("project", sa.String(length=255), nullable=False),
        sa.Column("user", sa.String(length=255), nullable=False),
        sa.Column("domain", sa.String(length=255), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_incidents")),
        sa.UniqueConstraint("open_key", name=op.f("uq_incidents_open_key")),
    )
    op.create_index(op.f("ix_incidents_cluster_id"), "incidents", ["cluster_id"], unique=False)
    op.create_index(op.f("ix_incidents_ended_us"), "incidents", ["ended_us"], unique=False)
    op.create_index(op.f("ix_incidents_node_id"), "incidents", ["node_id"], unique=False)
    op.create_index(op.f("ix_incidents_opened_us"), "incidents", ["opened_us"], unique=False)
    op.create_index(op.f("ix_incidents_project"), "incidents", ["project"], unique=False)
    op.create_index(op.f("ix_incidents_state"), "incidents", ["state"], unique=False)
    op.create_table(
        "outbox",
        sa.Column(
            "seq",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("event_seq", sa.BigInteger(), nullable=False),
        sa.Column("notifier", sa.String(length=255), nullable=False),
        sa.Column("topic", sa.String(length=255), nullable=False),
        sa.Column("body", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_us", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(length=255), nullable=False),
        sa.Column("last_error", TEXT, nullable=False),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.Column("done_us", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_outbox")),
        sa.UniqueConstraint("id", name=op.f("uq_outbox_id")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_outbox_done_us"), "outbox", ["done_us"], unique=False)
    op.create_index(op.f("ix_outbox_event_seq"), "outbox", ["event_seq"], unique=False)
    op.create_index(op.f("ix_outbox_state_next_us"), "outbox", ["state", "next_us"], unique=False)
    op.create_table(
        "pauses",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("kind", sa.String(length=255), nullable=False),
        sa.Column("scope", sa.String(length=255), nullable=False),
        sa.Column("target_id", sa.String(length=36), nullable=False),
        sa.Column("owner", sa.String(length=255), nullable=False),
        sa.Column("reason", TEXT, nullable=False),
        sa.Column("starts_us", sa.BigInteger(), nullable=False),
        sa.Column("expires_us", sa.BigInteger(), nullable=True),
        sa.Column("lifted_us", sa.BigInteger(), nullable=True),
        sa.Column("lifted_by", sa.String(length=255), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_pauses")),
    )
    op.create_index(op.f("ix_pauses_lifted_us"), "pauses", ["lifted_us"], unique=False)
    op.create_index(op.f("ix_pauses_target_id"), "pauses", ["target_id"], unique=False)
    op.create_table(
        "policies",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("type", sa.String(length=255), nullable=False),
        sa.Column("spec", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("source", TEXT, nullable=False),
        sa.Column("warnings", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("metadata", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("project", sa.String(length=255), nullable=False),
        sa.Column("user", sa.String(length=255), nullable=False),
        sa.Column("domain", sa.String(length=255), nullable=False),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.Column("updated_us", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_policies")),
    )
    op.create_index(op.f("ix_policies_name"), "policies", ["name"], unique=False)
    op.create_index(op.f("ix_policies_project"), "policies", ["project"], unique=False)
    op.create_table(
        "profiles",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("type", sa.String(length=255), nullable=False),
        sa.Column("spec", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("metadata", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("project", sa.String(length=255), nullable=False),
        sa.Column("user", sa.String(length=255), nullable=False),
        sa.Column("domain", sa.String(length=255), nullable=False),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.Column("updated_us", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_profiles")),
    )
    op.create_index(op.f("ix_profiles_name"), "profiles", ["name"], unique=False)
    op.create_index(op.f("ix_profiles_project"), "profiles", ["project"], unique=False)
    op.create_table(
        "proofs",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("incident_id", sa.String(length=36), nullable=False),
        sa.Column("action_id", sa.String(length=36), nullable=False),
        sa.Column("node_id", sa.String(length=36), nullable=False),
        sa.Column("physical_id", sa.String(length=255), nullable=False),
        sa.Column("method", sa.String(length=255), nullable=False),
        sa.Column("evidence", TEXT, nullable=False),
        sa.Column("by", sa.String(length=255), nullable=False),
        sa.Column("at_us", sa.BigInteger(), nullable=False),
        sa.Column("waived", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_proofs")),
    )
    op.create_index(op.f("ix_proofs_at_us"), "proofs", ["at_us"], unique=False)
    op.create_index(op.f("ix_proofs_incident_id"), "proofs", ["incident_id"], unique=False)
    op.create_index(op.f("ix_proofs_node_id"), "proofs", ["node_id"], unique=False)
    op.create_table(
        "releases",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("cluster_id", sa.String(length=36), nullable=False),
        sa.Column("by", sa.String(length=255), nullable=False),
        sa.Column("reason", TEXT, nullable=False),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.Column("expires_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_releases")),
    )
    op.create_index(op.f("ix_releases_cluster_id"), "releases", ["cluster_id"], unique=False)
    op.create_table(
        "clusters",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("profile_id", sa.String(length=36), nullable=False),
        sa.Column("desired_capacity", sa.Integer(), nullable=False),
        sa.Column("min_size", sa.Integer(), nullable=False),
        sa.Column("max_size", sa.Integer(), nullable=False),
        sa.Column("next_index", sa.Integer(), nullable=False),
        sa.Column("status", sa.String(length=255), nullable=False),
        sa.Column("status_reason", TEXT, nullable=False),
        sa.Column("timeout_s", sa.Integer(), nullable=False),
        sa.Column("metadata", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("config", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("data", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("project", sa.String(length=255), nullable=False),
        sa.Column("user", sa.String(length=255), nullable=False),
        sa.Column("domain", sa.String(length=255), nullable=False),
        sa.Column("init_us", sa.BigInteger(), nullable=True),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.Column("updated_us", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["profile_id"], ["profiles.id"], name=op.f("fk_clusters_profile_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_clusters")),
    )
    op.create_index(op.f("ix_clusters_name"), "clusters", ["name"], unique=False)
    op.create_index(op.f("ix_clusters_profile_id"), "clusters", ["profile_id"], unique=False)
    op.create_index(op.f("ix_clusters_project"), "clusters", ["project"], unique=False)
    op.create_table(
        "steps",
        sa.Column("action_id", sa.String(length=36), nullable=False),
        sa.Column("seq", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("rung", sa.Integer(), nullable=False),
        sa.Column("stage", sa.String(length=255), nullable=False),
        sa.Column("operation", sa.String(length=255), nullable=False),
        sa.Column("operation_id", sa.String(length=36), nullable=False),
        sa.Column("phase", sa.String(length=255), nullable=False),
        sa.Column("result", sa.String(length=255), nullable=True),
        sa.Column("detail", TEXT, nullable=False),
        sa.Column("data", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("intent_us", sa.BigInteger(), nullable=False),
        sa.Column("submitted_us", sa.BigInteger(), nullable=True),
        sa.Column("ended_us", sa.BigInteger(), nullable=True),
        sa.Column("deadline_us", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["action_id"], ["actions.id"], name=op.f("fk_steps_action_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("action_id", "seq", name=op.f("pk_steps")),
    )
    op.create_table(
        "bindings",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("cluster_id", sa.String(length=36), nullable=False),
        sa.Column("policy_id", sa.String(length=36), nullable=False),
        sa.Column("policy_type", sa.String(length=255), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("data", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.Column("updated_us", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["cluster_id"], ["clusters.id"], name=op.f("fk_bindings_cluster_id")
        ),
        sa.ForeignKeyConstraint(["policy_id"], ["policies.id"], name=op.f("fk_bindings_policy_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_bindings")),
        sa.UniqueConstraint(
            "cluster_id", "policy_id", name=op.f("uq_bindings_cluster_id_policy_id")
        ),
    )
    op.create_index(op.f("ix_bindings_policy_id"), "bindings", ["policy_id"], unique=False)
    op.create_table(
        "nodes",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("cluster_id", sa.String(length=36), nullable=True),
        sa.Column("index", sa.Integer(), nullable=False),
        sa.Column("role", sa.String(length=255), nullable=False),
        sa.Column("profile_id", sa.String(length=36), nullable=False),
        sa.Column("physical_id", sa.String(length=255), nullable=False),
        sa.Column("status", sa.String(length=255), nullable=False),
        sa.Column("status_reason", TEXT, nullable=False),
        sa.Column("health", sa.String(length=255), nullable=False),
        sa.Column("health_reason", TEXT, nullable=False),
        sa.Column("gray", sa.Boolean(), nullable=False),
        sa.Column("health_us", sa.BigInteger(), nullable=True),
        sa.Column("backend_status", sa.String(length=255), nullable=False),
        sa.Column("attributes", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("metadata", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("data", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("tainted", sa.Boolean(), nullable=False),
        sa.Column("grace_us", sa.BigInteger(), nullable=True),
        sa.Column("seen_us", sa.BigInteger(), nullable=True),
        sa.Column("mark_reason", TEXT, nullable=True),
        sa.Column("mark_by", sa.String(length=255), nullable=False),
        sa.Column("mark_us", sa.BigInteger(), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("attempt_us", sa.BigInteger(), nullable=True),
        sa.Column("next_attempt_us", sa.BigInteger(), nullable=True),
        sa.Column("exhausted_us", sa.BigInteger(), nullable=True),
        sa.Column("healthy_us", sa.BigInteger(), nullable=True),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("project", sa.String(length=255), nullable=False),
        sa.Column("user", sa.String(length=255), nullable=False),
        sa.Column("domain", sa.String(length=255), nullable=False),
        sa.Column("init_us", sa.BigInteger(), nullable=True),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.Column("updated_us", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["cluster_id"], ["clusters.id"], name=op.f("fk_nodes_cluster_id")),
        sa.ForeignKeyConstraint(["profile_id"], ["profiles.id"], name=op.f("fk_nodes_profile_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_nodes")),
    )
    op.create_index(op.f("ix_nodes_cluster_id"), "nodes", ["cluster_id"], unique=False)
    op.create_index(op.f("ix_nodes_name"), "nodes", ["name"], unique=False)
    op.create_index(op.f("ix_nodes_physical_id"), "nodes", ["physical_id"], unique=False)
    op.create_index(op.f("ix_nodes_profile_id"), "nodes", ["profile_id"], unique=False)
    op.create_index(op.f("ix_nodes_project"), "nodes", ["project"], unique=False)
    op.create_index(op.f("ix_nodes_status"), "nodes", ["status"], unique=False)
    op.create_table(
        "watches",
        sa.Column("cluster_id", sa.String(length=36), nullable=False),
        sa.Column("owner", sa.String(length=36), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("lease_us", sa.BigInteger(), nullable=False),
        sa.Column("claimed_us", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["cluster_id"], ["clusters.id"], name=op.f("fk_watches_cluster_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("cluster_id", name=op.f("pk_watches")),
    )
    op.create_index(op.f("ix_watches_owner"), "watches", ["owner"], unique=False)
