"""Repository of projects' credentials; they are sealed outside, and nothing here opens one."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import and_, delete, exists, func, insert, select, update

from yaffle.model.credentials import CredentialKind
from yaffle.store import dialects, leases
from yaffle.store.rows import load
from yaffle.store.tables import credentials

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection, Select


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialRow:
    """One credential as it is stored."""

    id: str
    cloud: str
    kind: str
    reference: str
    sealed: str
    key_id: str
    project: str
    user: str
    created_us: int
    used_us: int | None
    refused_us: int | None
    refused_why: str


def ident_of(cloud: str, project: str, user: str, kind: str) -> str:
    """Return the id of the one row that there can be of these."""
    digest = hashlib.sha256(f"{cloud}\0{project}\0{user}\0{kind}".encode()).digest()
    return str(uuid.UUID(bytes=digest[:16], version=4))


def put(conn: Connection, row: CredentialRow) -> bool:
    """Store a credential in place of the one before it; return whether there was one.

    A trust stays as one that is superseded: in the cloud it is worth as much as before.
    """
    if row.kind == CredentialKind.TRUST:
        # What is the newest is no old one, whatever it was before.
        remove(conn, superseded_ident(row.cloud, row.project, row.user, row.reference))
    found = _superseded(conn, row) or remove(conn, row.id)
    values = {name: getattr(row, name) for name in CredentialRow.__slots__}
    conn.execute(insert(credentials).values(**values))
    return found


def _superseded(conn: Connection, row: CredentialRow) -> bool:
    """Make room for a trust; return whether there was another one in its place."""
    mine = (credentials.c.id == row.id, credentials.c.kind == CredentialKind.TRUST)
    old = next(iter(_rows(conn, select(credentials).where(*mine))), None)
    if old is None or old.reference == row.reference:
        return False
    ident = superseded_ident(old.cloud, old.project, old.user, old.reference)
    remove(conn, ident)
    # Its seal is that of a trust, and opens for nobody any more.
    conn.execute(
        update(credentials)
        .where(*mine)
        .values(
            id=ident,
            kind=CredentialKind.SUPERSEDED_TRUST,
            # From here on it counts how long engines may still use it, whoever asks, on one clock.
            created_us=dialects.now_us(),
            used_us=None,
            refused_us=None,
            refused_why="",
        )
    )
    return True


def superseded_ident(cloud: str, project: str, user: str, reference: str) -> str:
    """Return the id of the row of a trust in whose place there is a newer one."""
    return ident_of(cloud, project, user, f"{CredentialKind.SUPERSEDED_TRUST} {reference}")


def superseded(
    conn: Connection, cloud: str, project: str, user: str
) -> Sequence[tuple[CredentialRow, int]]:
    """Return a user's trusts in whose place there are newer ones, the oldest first.

    Each with the time since it was replaced (µs), by the database's clock.
    """
    rows = credentials.c
    mine = (rows.project == project, rows.cloud == cloud, rows.user == user)
    query = select(credentials).where(*mine, _is_old()).order_by(rows.created_us, rows.id)
    now_us = leases.now(conn)
    return [(row, now_us - row.created_us) for row in _rows(conn, query)]


def abandoned(
    conn: Connection, clouds: Sequence[str], *, for_us: int, rest_us: int, most: int
) -> Sequence[CredentialRow]:
    """Return trusts of those clouds that were replaced so long ago (µs) and are still there.

    Those that were tried within `rest_us` rest; those whose turn was longest ago come first.
    """
    rows, now_us = credentials.c, leases.now(conn)
    query = select(credentials).where(
        rows.cloud.in_(clouds),
        _is_old(),
        rows.created_us <= now_us - for_us,
        func.coalesce(rows.refused_us, 0) <= now_us - rest_us,
    )
    turn = func.coalesce(rows.refused_us, 0)
    return _rows(conn, query.order_by(turn, rows.created_us, rows.id).limit(most))


def _is_old() -> ColumnElement[bool]:
    """Whether a row is of a trust that may be deleted: never the one that is in use now."""
    newest = credentials.alias("newest")
    in_use = exists().where(
        newest.c.kind == CredentialKind.TRUST,
        newest.c.cloud == credentials.c.cloud,
        newest.c.reference == credentials.c.reference,
    )
    return and_(credentials.c.kind == CredentialKind.SUPERSEDED_TRUST, ~in_use)


def left_over(conn: Connection, before_us: int) -> Sequence[str]:
    """Return what clouds call the trusts that were superseded before then, and are still there."""
    rows = credentials.c
    query = select(rows.reference).where(
        rows.kind == CredentialKind.SUPERSEDED_TRUST, rows.created_us < before_us
    )
    return list(conn.execute(query.order_by(rows.created_us, rows.id)).scalars())


def of_project(conn: Connection, cloud: str, project: str) -> Sequence[CredentialRow]:
    """Return what there is for a project in a cloud: what works first, and by hand before trusts."""
    rows = _rows(
        conn,
        select(credentials).where(
            credentials.c.project == project,
            credentials.c.cloud == cloud,
            credentials.c.kind != CredentialKind.SUPERSEDED_TRUST,
        ),
    )
    return sorted(rows, key=_order)


def _order(row: CredentialRow) -> tuple[bool, int, str, int, str]:
    # Of those that were refused, the one that was refused longest ago; "application…" before "trust".
    return (
        row.refused_us is not None,
        row.refused_us or 0,
        row.kind,
        -row.created_us,
        row.id,
    )


def every(conn: Connection, *, project: str | None = None) -> Sequence[CredentialRow]:
    """Return all credentials, the oldest first; with `project` that one's."""
    query = select(credentials).order_by(credentials.c.created_us, credentials.c.id)
    return _rows(conn, query if project is None else query.where(credentials.c.project == project))


def by_id(conn: Connection, ident: str) -> CredentialRow | None:
    """Return one credential."""
    return next(iter(_rows(conn, select(credentials).where(credentials.c.id == ident))), None)


def remove(conn: Connection, ident: str) -> bool:
    """Forget a credential; return whether there was one."""
    return conn.execute(delete(credentials).where(credentials.c.id == ident)).rowcount > 0


def sealed_anew(conn: Connection, row: CredentialRow, *, sealed: str, key_id: str) -> bool:
    """Replace a seal, unless somebody has meanwhile; return whether it was done."""
    mine = (credentials.c.id == row.id, credentials.c.sealed == row.sealed)
    changed = update(credentials).where(*mine).values(sealed=sealed, key_id=key_id)
    return conn.execute(changed).rowcount > 0


def used(conn: Connection, ident: str, reference: str, now_us: int) -> None:
    """Write down that it has worked."""
    conn.execute(
        update(credentials)
        .where(credentials.c.id == ident, credentials.c.reference == reference)
        .values(used_us=now_us, refused_us=None, refused_why="")
    )


def refused(conn: Connection, ident: str, reference: str, now_us: int, why: str) -> None:
    """Write down that the backend would not have it; nothing of it is forgotten."""
    conn.execute(
        update(credentials)
        .where(credentials.c.id == ident, credentials.c.reference == reference)
        .values(refused_us=now_us, refused_why=why)
    )


def _rows(conn: Connection, query: Select[tuple[object, ...]]) -> list[CredentialRow]:
    return [load(CredentialRow, row) for row in conn.execute(query)]
