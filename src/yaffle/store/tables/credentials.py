"""Tables of what users handed to us so that we may act for them: sealed, with the key's id."""

from __future__ import annotations

from sqlalchemy import Table

from yaffle.store.tables import columns

credentials = Table(
    "credentials",
    columns.metadata,
    # Made of cloud, project, user and kind: of each of those there is one.
    columns.ident(),
    columns.word("cloud", None),
    columns.word("kind", None),
    # The backend's name of it, which is no secret.
    columns.word("reference", None),
    columns.text("sealed"),
    columns.word("key_id", None, index=True),
    *columns.owner(),
    columns.us("created_us"),
    columns.us_or_null("used_us"),
    columns.us_or_null("refused_us"),
    columns.text("refused_why"),
    columns.in_order(),
)
