"""What it takes to be told of failed hosts: failover segments, their hosts, notifications, moves.

Beside it when an endpoint was told that a failure is settled.

Only adds, so that engines of the schema before can go on beside it (expand, then contract); they follow
no notification, and the next one that can does.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.mysql import MEDIUMTEXT

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

WORD = sa.String(length=255)
IDENT = sa.String(length=36)
TEXT = sa.Text().with_variant(MEDIUMTEXT(), "mysql", "mariadb")
SEQ = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Add four tables and a column."""
    op.add_column("alerts", sa.Column("resolved_us", sa.BigInteger(), nullable=True))
    _segments()
    _hosts()
    _notifications()
    _moves()


def _table(name: str, *columns: sa.Column[Any], named: bool = False) -> None:
    unique = [sa.UniqueConstraint("id", name=op.f(f"uq_{name}_id"))]
    if named:
        unique.append(sa.UniqueConstraint("name", name=op.f(f"uq_{name}_name")))
    op.create_table(
        name,
        sa.Column("seq", SEQ, autoincrement=True, nullable=False),
        sa.Column("id", IDENT, nullable=False),
        *columns,
        sa.PrimaryKeyConstraint("seq", name=op.f(f"pk_{name}")),
        *unique,
        sqlite_autoincrement=True,
    )


def _times() -> tuple[sa.Column[Any], sa.Column[Any]]:
    return (
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.Column("updated_us", sa.BigInteger(), nullable=True),
    )


def _segments() -> None:
    _table(
        "failover_segments",
        sa.Column("name", WORD, nullable=False),
        sa.Column("service_type", WORD, nullable=False),
        sa.Column("recovery_method", WORD, nullable=False),
        sa.Column("description", TEXT, nullable=True),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        *_times(),
        named=True,
    )


def _hosts() -> None:
    _table(
        "failover_hosts",
        sa.Column("name", WORD, nullable=False),
        sa.Column("segment_id", IDENT, nullable=False),
        sa.Column("type", WORD, nullable=True),
        sa.Column("control_attributes", TEXT, nullable=True),
        sa.Column("reserved", sa.Boolean(), nullable=False),
        sa.Column("on_maintenance", sa.Boolean(), nullable=False),
        sa.Column("spare_for", IDENT, nullable=False),
        *_times(),
        named=True,
    )
    for column in ("segment_id", "spare_for"):
        op.create_index(op.f(f"ix_failover_hosts_{column}"), "failover_hosts", [column])


def _notifications() -> None:
    name = "ha_notifications"
    _table(
        name,
        sa.Column("type", WORD, nullable=False),
        sa.Column("host", WORD, nullable=False),
        sa.Column("host_id", IDENT, nullable=False),
        sa.Column("segment_id", IDENT, nullable=False),
        sa.Column("origin", WORD, nullable=False),
        sa.Column("sender", WORD, nullable=False),
        sa.Column("payload", sa.JSON(), nullable=False),
        sa.Column("generated_us", sa.BigInteger(), nullable=False),
        sa.Column("status", WORD, nullable=False),
        sa.Column("message", TEXT, nullable=True),
        *_times(),
        sa.Column("ended_us", sa.BigInteger(), nullable=True),
    )
    for column in ("host", "host_id", "segment_id", "status", "ended_us"):
        op.create_index(op.f(f"ix_{name}_{column}"), name, [column])
    told = op.f(f"ix_{name}_host_id_type_generated_us")
    op.create_index(told, name, ["host_id", "type", "generated_us"])


def _moves() -> None:
    _table(
        "vm_moves",
        sa.Column("notification_id", IDENT, nullable=False),
        sa.Column("node_id", IDENT, nullable=False),
        sa.Column("instance_id", WORD, nullable=False),
        sa.Column("instance_name", WORD, nullable=False),
        sa.Column("source_host", WORD, nullable=False),
        sa.Column("dest_host", WORD, nullable=True),
        sa.Column("status", WORD, nullable=False),
        sa.Column("message", TEXT, nullable=True),
        sa.Column("started_us", sa.BigInteger(), nullable=True),
        sa.Column("ended_us", sa.BigInteger(), nullable=True),
        *_times(),
    )
    op.create_index(op.f("ix_vm_moves_notification_id"), "vm_moves", ["notification_id"])
