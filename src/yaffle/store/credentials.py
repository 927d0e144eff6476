"""Credentials of projects as rows: sealed when they come, sealed when they go; nothing here opens one."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import delete, insert, select, update

from yaffle.store.records import load
from yaffle.store.tables import credentials

if TYPE_CHECKING:
    from sqlalchemy import Connection, Select


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
    """Store a credential in place of the one before it; return whether there was one."""
    found = conn.execute(delete(credentials).where(credentials.c.id == row.id)).rowcount > 0
    values = {name: getattr(row, name) for name in CredentialRow.__slots__}
    conn.execute(insert(credentials).values(**values))
    return found


def of_project(conn: Connection, cloud: str, project: str) -> Sequence[CredentialRow]:
    """Return what there is for a project in a cloud: what works first, and by hand before trusts."""
    rows = _rows(
        conn,
        select(credentials).where(credentials.c.project == project, credentials.c.cloud == cloud),
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
