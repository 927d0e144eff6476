"""What it takes to tell the news of one incident in order: a message names its incident.

Only adds, so that engines of the schema before can go on beside it (expand, then contract); what they
write meanwhile names no incident, and may overtake as before.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column with its index, and name the incidents of what still waits."""
    op.add_column("outbox", sa.Column("incident_id", sa.String(length=36), nullable=True))
    outbox = sa.table(
        "outbox", sa.column("event_seq"), sa.column("incident_id"), sa.column("state")
    )
    events = sa.table("events", sa.column("seq"), sa.column("incident_id"))
    of_its_event = (
        sa.select(events.c.incident_id).where(events.c.seq == outbox.c.event_seq).scalar_subquery()
    )
    op.execute(
        sa.update(outbox).where(outbox.c.state != "accepted").values(incident_id=of_its_event)
    )
    op.create_index(
        op.f("ix_outbox_notifier_incident_id_state_seq"),
        "outbox",
        ["notifier", "incident_id", "state", "seq"],
    )
