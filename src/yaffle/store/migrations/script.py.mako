"""${message}."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Expand first: engines of the version before run on this schema too (DESIGN §3)."""
    ${upgrades if upgrades else "pass"}
