"""What many engines on one database need: what each runs, what each cannot see, and whose turn it is.

Only adds, so that engines of the schema before can go on beside it (expand, then contract).
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

OLDEST_PROGRAM = 3
"""Programs of schema 0002 do not wait for their turn, and would not refuse a newer schema politely."""


def upgrade() -> None:
    """Add columns and two tables; every write takes its turn from now on."""
    op.add_column("engines", sa.Column("schema", sa.Integer(), nullable=False, server_default="0"))
    op.add_column(
        "engines", sa.Column("version", sa.String(255), nullable=False, server_default="")
    )
    op.create_table(
        "blindness",
        sa.Column("cluster_id", sa.String(length=36), nullable=False),
        sa.Column("engine_id", sa.String(length=36), nullable=False),
        sa.Column("since_us", sa.BigInteger(), nullable=False),
        sa.Column("until_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("cluster_id", "engine_id", name=op.f("pk_blindness")),
    )
    op.create_table(
        "duties",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("owner", sa.String(length=36), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("lease_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_duties")),
    )
    counters = sa.table("counters", sa.column("name"), sa.column("value"))
    op.bulk_insert(
        counters,
        [{"name": "turn", "value": 0}, {"name": "oldest_program", "value": OLDEST_PROGRAM}],
    )
