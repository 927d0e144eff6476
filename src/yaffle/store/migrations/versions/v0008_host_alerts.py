"""What it takes to tell recovery controllers of failed hosts: the failures, and each endpoint's alerts.

Only adds, so that engines of the schema before can go on beside it (expand, then contract); they tell
nobody of hosts, as before.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.mysql import MEDIUMTEXT

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add two tables."""
    text = sa.Text().with_variant(MEDIUMTEXT(), "mysql", "mariadb")
    word = sa.String(length=255)
    op.create_table(
        "host_failures",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("hostname", word, nullable=False),
        sa.Column("failure_us", sa.BigInteger(), nullable=False),
        sa.Column("generated_us", sa.BigInteger(), nullable=False),
        sa.Column("on_shared_storage", sa.Boolean(), nullable=False),
        sa.Column("proof", text, nullable=False),
        sa.Column("source", word, nullable=False),
        sa.Column("incident_id", sa.String(length=36), nullable=False),
        sa.Column("cleared_us", sa.BigInteger(), nullable=True),
        sa.Column("cleared_by", word, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_host_failures")),
    )
    op.create_index(op.f("ix_host_failures_cleared_us"), "host_failures", ["cleared_us"])
    op.create_index(
        op.f("ix_host_failures_hostname_failure_us"),
        "host_failures",
        ["hostname", "failure_us"],
        unique=True,
    )
    seq = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "alerts",
        sa.Column("seq", seq, autoincrement=True, nullable=False),
        sa.Column("failure_id", sa.String(length=36), nullable=False),
        sa.Column("endpoint", word, nullable=False),
        sa.Column("hostname", word, nullable=False),
        sa.Column("state", word, nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_us", sa.BigInteger(), nullable=False),
        sa.Column("refused_us", sa.BigInteger(), nullable=True),
        sa.Column("last_answer", text, nullable=False),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.Column("done_us", sa.BigInteger(), nullable=True),
        sa.Column("done_by", word, nullable=False),
        sa.Column("done_why", text, nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_alerts")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_alerts_done_us"), "alerts", ["done_us"])
    op.create_index(
        op.f("ix_alerts_failure_id_endpoint"), "alerts", ["failure_id", "endpoint"], unique=True
    )
    op.create_index(op.f("ix_alerts_state_next_us"), "alerts", ["state", "next_us"])
    op.create_index(
        op.f("ix_alerts_endpoint_hostname_state_seq"),
        "alerts",
        ["endpoint", "hostname", "state", "seq"],
    )
