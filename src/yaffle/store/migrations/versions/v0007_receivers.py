"""What it takes to keep the ids of webhooks out of the database, and to let webhooks end.

Only adds, so that programs of the schema before can go on beside it (expand, then contract); what they
have stored and store meanwhile is hidden later, by `store.receivers.hide_old`, which needs a key.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add two columns."""
    op.add_column("receivers", sa.Column("hidden", sa.String(length=255), nullable=True))
    op.add_column("receivers", sa.Column("expires_us", sa.BigInteger(), nullable=True))
