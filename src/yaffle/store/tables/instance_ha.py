"""Tables of the instance-HA API: failover segments with their hosts, and what monitors have notified."""

from __future__ import annotations

from sqlalchemy import Column, Index, Table

from yaffle.store.tables import columns


def _numbered() -> tuple[Column[int], Column[str]]:
    """Return the number that Masakari's clients are shown as `id`, and the id that they ask by."""
    return columns.seq(), Column("id", columns.Words(36), nullable=False, unique=True)


failover_segments = Table(
    "failover_segments",
    columns.metadata,
    *_numbered(),
    Column("name", columns.Words(255), nullable=False, unique=True),
    columns.word("service_type", None),
    columns.word("recovery_method", None),
    columns.text_or_null("description"),
    columns.flag("enabled", default=True),
    columns.us("created_us"),
    columns.us_or_null("updated_us"),
    sqlite_autoincrement=True,
)

failover_hosts = Table(
    "failover_hosts",
    columns.metadata,
    *_numbered(),
    Column("name", columns.Words(255), nullable=False, unique=True),
    columns.ref("segment_id", index=True),
    columns.word_or_null("type"),
    columns.text_or_null("control_attributes"),
    columns.flag("reserved", default=False),
    columns.flag("on_maintenance", default=False),
    # Kept in reserve before: the id of the host that it has taken over from; else empty.
    columns.ref("spare_for", index=True),
    columns.us("created_us"),
    columns.us_or_null("updated_us"),
    sqlite_autoincrement=True,
)

ha_notifications = Table(
    "ha_notifications",
    columns.metadata,
    *_numbered(),
    columns.word("type", None),
    columns.word("host", None, index=True),
    # Both empty where it came by another API than Masakari's, which knows of no segments.
    columns.ref("host_id", index=True),
    columns.ref("segment_id", index=True),
    # By which API it came, and as whose word: what that is worth, the settings say.
    columns.word("origin", None),
    columns.word("sender"),
    columns.json("payload"),
    # By the sender's clock.
    columns.us("generated_us"),
    columns.word("status", None, index=True),
    columns.text_or_null("message"),
    columns.us("created_us"),
    columns.us_or_null("updated_us"),
    columns.us_or_null("ended_us", index=True),
    # For "has the same been told lately?".
    Index(None, "host_id", "type", "generated_us"),
    sqlite_autoincrement=True,
)

vm_moves = Table(
    "vm_moves",
    columns.metadata,
    *_numbered(),
    columns.ref("notification_id", index=True),
    columns.ref("node_id"),
    columns.word("instance_id"),
    columns.word("instance_name"),
    columns.word("source_host"),
    columns.word_or_null("dest_host"),
    columns.word("status", None),
    columns.text_or_null("message"),
    columns.us_or_null("started_us"),
    columns.us_or_null("ended_us"),
    columns.us("created_us"),
    columns.us_or_null("updated_us"),
    sqlite_autoincrement=True,
)
