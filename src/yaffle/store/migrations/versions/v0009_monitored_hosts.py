"""What it takes to watch hosts through monitors: each host's state, and when each monitor last saw.

Only adds, so that engines of the schema before can go on beside it (expand, then contract); they watch
no hosts, as before.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.mysql import MEDIUMTEXT

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add two tables."""
    text = sa.Text().with_variant(MEDIUMTEXT(), "mysql", "mariadb")
    word = sa.String(length=255)
    op.create_table(
        "host_monitors",
        sa.Column("name", word, nullable=False),
        sa.Column("seen_us", sa.BigInteger(), nullable=False),
        sa.Column("fault", text, nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_host_monitors")),
    )
    op.create_table(
        "monitored_hosts",
        sa.Column("monitor", word, nullable=False),
        sa.Column("host", word, nullable=False),
        sa.Column("state", word, nullable=False),
        sa.Column("since_us", sa.BigInteger(), nullable=False),
        sa.Column("why", text, nullable=False),
        sa.Column("unseen_us", sa.BigInteger(), nullable=True),
        sa.Column("told", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("monitor", "host", name=op.f("pk_monitored_hosts")),
    )
