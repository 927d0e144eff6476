"""What a failure of a whole host needs: the incident of a node names that of its host.

Only adds, so that engines of the schema before can go on beside it (expand, then contract); they
leave the column empty, and tell of each node by itself.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add one column and its index."""
    op.add_column("incidents", sa.Column("parent_id", sa.String(length=36), nullable=True))
    op.create_index(op.f("ix_incidents_parent_id"), "incidents", ["parent_id"])
