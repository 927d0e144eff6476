"""The one description of every table; migrations are compared with it, repositories import it.

Times are int64 µs UTC (`_us`), ids UUIDv4 text, JSON columns plain JSON. Columns with a default may
be left out of an insert. The few foreign keys are those that a deletion must never break; history
(actions, incidents, decisions, events) outlives what it speaks of and has none.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

metadata: Final = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)

SEQ: Final = BigInteger().with_variant(Integer(), "sqlite")
"""SQLite counts by itself only in a column that is spelt INTEGER; and only with its AUTOINCREMENT
does it not give the number of a deleted last row to the next one."""


def _id(name: str = "id") -> Column[str]:
    return Column(name, String(36), primary_key=True)


def _seq() -> Column[int]:
    return Column("seq", SEQ, primary_key=True, autoincrement=True)


def _ref(name: str, *, index: bool = False) -> Column[str]:
    """Another object's id, or empty for none; not enforced."""
    return Column(name, String(36), nullable=False, default="", index=index)


def _ref_or_null(name: str, *, index: bool = False) -> Column[str]:
    return Column(name, String(36), nullable=True, index=index)


def _word(name: str, default: str | None = "", *, index: bool = False) -> Column[str]:
    """A name or one word of a closed enum."""
    return Column(name, String(255), nullable=False, default=default, index=index)


def _word_or_null(name: str) -> Column[str]:
    return Column(name, String(255), nullable=True)


def _text(name: str) -> Column[str]:
    return Column(name, Text, nullable=False, default="")


def _json(name: str) -> Column[object]:
    """An object; an empty one when left out."""
    return Column(name, JSON(none_as_null=True), nullable=False, default=dict)


def _json_or_null(name: str) -> Column[object]:
    return Column(name, JSON(none_as_null=True), nullable=True)


def _us(name: str, *, index: bool = False) -> Column[int]:
    return Column(name, BigInteger, nullable=False, index=index)


def _us_or_null(name: str, *, index: bool = False) -> Column[int]:
    return Column(name, BigInteger, nullable=True, index=index)


def _int(name: str, default: int) -> Column[int]:
    return Column(name, Integer, nullable=False, default=default)


def _epoch(name: str = "epoch") -> Column[int]:
    """0 where nobody has ever held it."""
    return Column(name, BigInteger, nullable=False, default=0)


def _flag(name: str, *, default: bool) -> Column[bool]:
    return Column(name, Boolean, nullable=False, default=default)


def _owner() -> tuple[Column[str], ...]:
    """Whose it is: on every API object row from the first migration (DESIGN §3)."""
    return (_word("project", index=True), _word("user"), _word("domain"))


counters = Table(
    "counters", metadata, Column("name", String(64), primary_key=True), _epoch("value")
)

engines = Table(
    "engines",
    metadata,
    _id(),
    _word("host"),
    _int("pid", 0),
    _epoch(),
    _us("started_us"),
    _us("seen_us"),
    _us_or_null("stopped_us"),
)

profiles = Table(
    "profiles",
    metadata,
    _id(),
    _word("name", None, index=True),
    _word("type", None),
    _json("spec"),
    _json("metadata"),
    *_owner(),
    _us("created_us"),
    _us_or_null("updated_us"),
)

policies = Table(
    "policies",
    metadata,
    _id(),
    _word("name", None, index=True),
    _word("type", None),
    _json("spec"),
    _text("source"),
    Column("warnings", JSON(none_as_null=True), nullable=False, default=list),
    _json("metadata"),
    *_owner(),
    _us("created_us"),
    _us_or_null("updated_us"),
)

clusters = Table(
    "clusters",
    metadata,
    _id(),
    _word("name", None, index=True),
    Column("profile_id", String(36), ForeignKey("profiles.id"), nullable=False, index=True),
    # A stored fact, never derived from how many members happen to be well (DESIGN §2).
    _int("desired_capacity", 0),
    _int("min_size", 0),
    _int("max_size", -1),
    _int("next_index", 1),
    _word("status", "INIT"),
    _text("status_reason"),
    _int("timeout_s", 3600),
    _json("metadata"),
    _json("config"),
    _json("data"),
    *_owner(),
    _us_or_null("init_us"),
    _us("created_us"),
    _us_or_null("updated_us"),
)

bindings = Table(
    "bindings",
    metadata,
    _id(),
    Column("cluster_id", String(36), ForeignKey("clusters.id"), nullable=False),
    Column("policy_id", String(36), ForeignKey("policies.id"), nullable=False, index=True),
    _word("policy_type", None),
    _flag("enabled", default=True),
    _int("priority", 500),
    _json("data"),
    _us("created_us"),
    _us_or_null("updated_us"),
    UniqueConstraint("cluster_id", "policy_id"),
)

nodes = Table(
    "nodes",
    metadata,
    _id(),
    _word("name", None, index=True),
    Column("cluster_id", String(36), ForeignKey("clusters.id"), nullable=True, index=True),
    _int("index", -1),
    _word("role"),
    Column("profile_id", String(36), ForeignKey("profiles.id"), nullable=False, index=True),
    _word("physical_id", index=True),
    # Three words, never one (DESIGN §2): the engine's, ours, the backend's.
    _word("status", "INIT", index=True),
    _text("status_reason"),
    _word("health", "initializing"),
    _text("health_reason"),
    _flag("gray", default=False),
    _us_or_null("health_us"),
    _word("backend_status"),
    _json("attributes"),
    _json("metadata"),
    _json("data"),
    _flag("tainted", default=False),
    _us_or_null("grace_us"),
    _us_or_null("seen_us"),
    Column("mark_reason", Text, nullable=True),
    _word("mark_by"),
    _us_or_null("mark_us"),
    _int("attempts", 0),
    _us_or_null("attempt_us"),
    _us_or_null("next_attempt_us"),
    _us_or_null("exhausted_us"),
    _us_or_null("healthy_us"),
    # Optimistic: an update names the version it read and adds one.
    _int("version", 1),
    *_owner(),
    _us_or_null("init_us"),
    _us("created_us"),
    _us_or_null("updated_us"),
)

watches = Table(
    "watches",
    metadata,
    Column(
        "cluster_id",
        String(36),
        ForeignKey("clusters.id", ondelete="CASCADE"),
        primary_key=True,
    ),
    _ref("owner", index=True),
    _epoch(),
    Column("lease_us", BigInteger, nullable=False, default=0),
    Column("claimed_us", BigInteger, nullable=False, default=0),
)

actions = Table(
    "actions",
    metadata,
    _id(),
    _word("name"),
    _word("action", None),
    _ref("target", index=True),
    _ref_or_null("cluster_id", index=True),
    _ref_or_null("node_id", index=True),
    _ref_or_null("incident_id", index=True),
    _word("cause"),
    _word("status", None),
    _text("status_reason"),
    _json("inputs"),
    _json("outputs"),
    _json("data"),
    # The node's id while the action is active, NULL once it has ended: the database itself refuses
    # a second active action on one node, whatever bug or race asks for it.
    Column("lock_key", String(36), nullable=True, unique=True),
    _ref("owner"),
    _epoch(),
    Column("lease_us", BigInteger, nullable=False, default=0),
    Column("cancel_reason", Text, nullable=True),
    _int("timeout_s", 3600),
    _us_or_null("start_us"),
    _us_or_null("end_us", index=True),
    _us("created_us"),
    _us_or_null("updated_us"),
    *_owner(),
    Index(None, "status", "lease_us", "created_us"),
)

steps = Table(
    "steps",
    metadata,
    Column("action_id", String(36), ForeignKey("actions.id", ondelete="CASCADE"), primary_key=True),
    Column("seq", Integer, primary_key=True, autoincrement=False),
    _int("rung", 0),
    _word("stage", None),
    _word("operation"),
    _ref("operation_id"),
    _word("phase", None),
    _word_or_null("result"),
    _text("detail"),
    _json("data"),
    _epoch(),
    _us("intent_us"),
    _us_or_null("submitted_us"),
    _us_or_null("ended_us"),
    _us("deadline_us"),
)

proofs = Table(
    "proofs",
    metadata,
    _id(),
    _ref("incident_id", index=True),
    _ref("action_id"),
    _ref("node_id", index=True),
    _word("physical_id"),
    _word("method", None),
    _text("evidence"),
    _word("by", None),
    _us("at_us", index=True),
    _flag("waived", default=False),
)

incidents = Table(
    "incidents",
    metadata,
    _id(),
    _ref("node_id", index=True),
    _word("node_name"),
    _ref("cluster_id", index=True),
    _word("cluster_name"),
    _word("state", None, index=True),
    _word("cause"),
    _word_or_null("hold_reason"),
    _json_or_null("hold_numbers"),
    _text("reason"),
    _us_or_null("first_fail_us"),
    _us("opened_us", index=True),
    _us_or_null("decided_us"),
    _us_or_null("started_us"),
    _us_or_null("recovered_us"),
    _us_or_null("ended_us", index=True),
    _us_or_null("acknowledged_us"),
    _word("acknowledged_by"),
    _ref_or_null("action_id"),
    _text("evidence"),
    # The node's id while the incident is open: one open incident per node.
    Column("open_key", String(36), nullable=True, unique=True),
    *_owner(),
)

decisions = Table(
    "decisions",
    metadata,
    _seq(),
    _ref("cluster_id", index=True),
    _ref("node_id", index=True),
    _ref_or_null("incident_id", index=True),
    _word("kind", None),
    _word_or_null("reason"),
    _json("numbers"),
    _json("inputs"),
    _ref("policy_id"),
    _word("policy_version"),
    _us("at_us", index=True),
    _us_or_null("until_us"),
    sqlite_autoincrement=True,
)

events = Table(
    "events",
    metadata,
    _seq(),
    Column("id", String(36), nullable=False, unique=True),
    _us("at_us", index=True),
    _int("level", 20),
    _word("otype", None),
    _ref("oid", index=True),
    _word("oname"),
    _ref("cluster_id", index=True),
    _ref_or_null("node_id", index=True),
    _ref_or_null("incident_id", index=True),
    _word("action"),
    _word("status"),
    _text("reason"),
    _json("data"),
    *_owner(),
    sqlite_autoincrement=True,
)

outbox = Table(
    "outbox",
    metadata,
    _seq(),
    # Stays the same on every attempt, so that receivers can deduplicate.
    Column("id", String(36), nullable=False, unique=True),
    Column("event_seq", BigInteger, nullable=False, index=True),
    _word("notifier", None),
    _word("topic", None),
    _json("body"),
    _int("attempts", 0),
    _us("next_us"),
    _word("state", "pending"),
    _text("last_error"),
    _us("created_us"),
    _us_or_null("done_us", index=True),
    Index(None, "state", "next_us"),
    sqlite_autoincrement=True,
)

pauses = Table(
    "pauses",
    metadata,
    _id(),
    _word("kind", None),
    _word("scope", None),
    _ref("target_id", index=True),
    _word("owner"),
    _text("reason"),
    _us("starts_us"),
    _us_or_null("expires_us"),
    _us_or_null("lifted_us", index=True),
    _word("lifted_by"),
)

releases = Table(
    "releases",
    metadata,
    _id(),
    _ref("cluster_id", index=True),
    _word("by", None),
    _text("reason"),
    _us("created_us"),
    _us("expires_us"),
)

budgets = Table(
    "budgets",
    metadata,
    Column("scope", String(64), primary_key=True),
    Column("key", String(255), primary_key=True),
    Column("tokens", Float, nullable=False),
    _us("updated_us"),
)

debris = Table(
    "debris",
    metadata,
    _id(),
    _ref("node_id", index=True),
    _word("physical_id"),
    _word("profile_type", None),
    _json("target"),
    _us("created_us"),
    _us("next_us"),
    _int("attempts", 0),
    _us_or_null("done_us"),
    _text("last_error"),
    Index(None, "done_us", "next_us"),
)
