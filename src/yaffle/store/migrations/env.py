"""Run by Alembic for each upgrade, on the connection and in the transaction that `migrate` opened."""

from __future__ import annotations

from alembic import context

from yaffle.store import dialects
from yaffle.store.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    # SQLite cannot alter most things in place: batch mode copies the table.
    render_as_batch=True,
    # SQLite does roll back DDL once BEGIN is ours (see dialects); Alembic assumes that it cannot.
    transactional_ddl=dialects.kind_of(context.config.attributes["connection"]).transactional_ddl,
)
with context.begin_transaction():
    context.run_migrations()
