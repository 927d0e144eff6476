"""What the clustering API needs: parts of actions, receivers, projects, and specs as they were given.

Only adds, so that engines of the schema before can go on beside it (expand, then contract).
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

LISTED = ("profiles", "policies", "clusters", "nodes", "actions")
OWNED = (*LISTED, "events", "incidents")


def upgrade() -> None:
    """Add columns, indexes and one table; give what is there to the project of those without one."""
    json = sa.JSON(none_as_null=True)
    for table in ("profiles", "policies"):
        op.add_column(table, sa.Column("given", json, nullable=True))
    op.add_column(
        "actions", sa.Column("parent_id", sa.String(36), nullable=False, server_default="")
    )
    op.create_index(op.f("ix_actions_parent_id_status"), "actions", ["parent_id", "status"])
    op.add_column("actions", sa.Column("wake_us", sa.BigInteger(), nullable=True))
    op.add_column("bindings", sa.Column("last_op_us", sa.BigInteger(), nullable=True))
    for table in ("clusters", "nodes"):
        op.add_column(table, sa.Column("made_us", sa.BigInteger(), nullable=True))
        made = sa.table(table, sa.column("made_us"), sa.column("created_us"), sa.column("status"))
        op.execute(
            made.update()
            .where(made.c.status.not_in(("INIT", "CREATING")))
            .values(made_us=made.c.created_us)
        )
    for table in OWNED:
        owned = sa.table(table, sa.column("project"))
        op.execute(owned.update().where(owned.c.project == "").values(project="default"))
    op.create_index(op.f("ix_nodes_cluster_id_version"), "nodes", ["cluster_id", "version"])
    _receivers(json)
    for table in (*LISTED, "receivers"):
        op.create_index(
            op.f(f"ix_{table}_project_created_us_id"), table, ["project", "created_us", "id"]
        )


def _receivers(json: sa.JSON) -> None:
    op.create_table(
        "receivers",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("type", sa.String(length=255), nullable=False),
        sa.Column("cluster_id", sa.String(length=36), nullable=False),
        sa.Column("action", sa.String(length=255), nullable=False),
        sa.Column("actor", json, nullable=False),
        sa.Column("params", json, nullable=False),
        sa.Column("channel", json, nullable=False),
        sa.Column("project", sa.String(length=255), nullable=False),
        sa.Column("user", sa.String(length=255), nullable=False),
        sa.Column("domain", sa.String(length=255), nullable=False),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.Column("updated_us", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_receivers")),
    )
    op.create_index(op.f("ix_receivers_cluster_id"), "receivers", ["cluster_id"])
    op.create_index(op.f("ix_receivers_name"), "receivers", ["name"])
    op.create_index(op.f("ix_receivers_project"), "receivers", ["project"])
