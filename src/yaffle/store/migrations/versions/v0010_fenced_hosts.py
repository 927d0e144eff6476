"""What it takes to fence lost hosts: how far that is, for each monitored host.

Only adds, so that engines of the schema before can go on beside it (expand, then contract); they fence
no hosts, as before.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add a column."""
    op.add_column("monitored_hosts", sa.Column("fence", sa.JSON(), nullable=True))
