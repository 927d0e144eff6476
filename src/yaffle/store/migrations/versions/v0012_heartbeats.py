"""What it takes to hear the heartbeats of hosts, and to have a host under maintenance.

Only adds, so that engines of the schema before can go on beside it (expand, then contract); they hear
no heartbeats, as before, and take the maintenance of a host for that of no node.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.mysql import MEDIUMTEXT

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add a table and a column."""
    text = sa.Text().with_variant(MEDIUMTEXT(), "mysql", "mariadb")
    op.add_column("pauses", sa.Column("host", text, nullable=True))
    word = sa.String(length=255)
    op.create_table(
        "vantage_points",
        sa.Column("monitor", word, nullable=False),
        sa.Column("name", word, nullable=False),
        sa.Column("at_us", sa.BigInteger(), nullable=False),
        sa.Column("said", text, nullable=False),
        sa.PrimaryKeyConstraint("monitor", "name", name=op.f("pk_vantage_points")),
    )
