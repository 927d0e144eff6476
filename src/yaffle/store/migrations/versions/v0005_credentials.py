"""What it takes to act for each project with that project's own credential: where those are kept.

Only adds, so that engines of the schema before can go on beside it (expand, then contract); they act
with the one cloud of their settings, as before.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.mysql import MEDIUMTEXT

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add one table."""
    text = sa.Text().with_variant(MEDIUMTEXT(), "mysql", "mariadb")
    op.create_table(
        "credentials",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("cloud", sa.String(length=255), nullable=False),
        sa.Column("kind", sa.String(length=255), nullable=False),
        sa.Column("reference", sa.String(length=255), nullable=False),
        sa.Column("sealed", text, nullable=False),
        sa.Column("key_id", sa.String(length=255), nullable=False),
        sa.Column("project", sa.String(length=255), nullable=False),
        sa.Column("user", sa.String(length=255), nullable=False),
        sa.Column("domain", sa.String(length=255), nullable=False),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.Column("used_us", sa.BigInteger(), nullable=True),
        sa.Column("refused_us", sa.BigInteger(), nullable=True),
        sa.Column("refused_why", text, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_credentials")),
    )
    op.create_index(op.f("ix_credentials_key_id"), "credentials", ["key_id"])
    op.create_index(op.f("ix_credentials_project"), "credentials", ["project"])
    op.create_index(
        op.f("ix_credentials_project_created_us_id"),
        "credentials",
        ["project", "created_us", "id"],
    )
