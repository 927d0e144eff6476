"""Repository of receivers, whose id is a secret, and of their rate limits.

A row is stored under a digest of its id, which is enough to see that a call is right, and holds the
id hidden with a key that is not in the database, so that its URL can be shown again. Rows of before
schema 0007 have no `hidden` and stand under the id itself until `hide_old` has come to them.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from sqlalchemy import (
    String,
    and_,
    bindparam,
    delete,
    exists,
    func,
    insert,
    or_,
    select,
    update,
)

from yaffle.core.planning.budgets import Bucket, BudgetLimit, refill
from yaffle.store import catalog, events
from yaffle.store.rows import ReceiverRow, load
from yaffle.store.tables import budgets, receivers
from yaffle.store.tables import events as events_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import ColumnElement, Connection

    from yaffle.integrations.secret_box import IdKeys

SCOPE: Final = "receiver"
"""Whose buckets they are in the table of budgets."""
SHOWN: Final = 8
EXPIRED: Final = "RECEIVER_EXPIRE"
BATCH: Final = 500
NEVER_US: Final = -(2**62)
"""Nothing was made before it."""


# Built once: every guess costs this look, and to build it anew thrice as much.
_PLAIN: Final = and_(receivers.c.id == bindparam("ident"), receivers.c.hidden.is_(None))
_BY_ID: Final = select(receivers).where(or_(receivers.c.id == bindparam("place"), _PLAIN)).limit(1)


def masked(ident: str) -> str:
    """Return the beginning of a receiver's id: enough to know it by, too little to use it."""
    return f"{ident[:SHOWN]}…"


def stored_id(ident: str) -> str:
    """Return what a receiver stands under: its id's first eight characters, and a digest of the whole.

    The eight are told in events and found by as ever; 90 bits of chance are in the digest alone, which
    nobody finds by trying.
    """
    digest = hashlib.sha256(b"yaffle receiver\0" + ident.encode(errors="replace")).hexdigest()
    return "-".join((ident[:SHOWN], digest[:4], digest[4:8], digest[8:12], digest[12:24]))


def shown_id(keys: IdKeys, stored: str, hidden: str | None) -> str | None:
    """Return the id of a receiver; None where the key that would show it is not here."""
    if hidden is None:
        return stored
    return keys.show(hidden, stored, lambda ident: stored_id(ident) == stored)


def place_of(conn: Connection, keys: IdKeys, ident: str, *, project: str | None) -> str:
    """Return what the receiver stands under whose id, or more than eight characters of it, this is.

    Anything else is returned as it is: a name, a shorter beginning, or what that project has no
    receiver of (None looks in all of them).
    """
    place, query = stored_id(ident), select(receivers.c.id, receivers.c.hidden)
    if project is not None:
        query = query.where(receivers.c.project == project)
    if conn.execute(query.where(receivers.c.id == place)).first() is not None:
        return place
    if len(ident) > SHOWN and catalog.is_prefix(ident):
        for row in conn.execute(query.where(receivers.c.id.startswith(ident[:SHOWN]))):
            if (shown_id(keys, row.id, row.hidden) or "").startswith(ident):
                return str(row.id)
    return ident


def find(conn: Connection, keys: IdKeys, ident: str, *, project: str | None) -> ReceiverRow:
    """Return the receiver of that id, name or id prefix; `project` None looks in all of them.

    Raises NotFound and MultipleChoices, in the words that clients know.
    """
    place = place_of(conn, keys, ident, project=project)
    return catalog.find(conn, ReceiverRow, place, "receiver", project)


def by_id(
    conn: Connection, ident: str, *, now_us: int, age_us: int | None = None
) -> ReceiverRow | None:
    """Return the receiver of exactly that id that has not ended: no prefix opens a webhook.

    Neither does what the database holds of the id.
    """
    row = conn.execute(_BY_ID, {"place": stored_id(ident), "ident": ident}).first()
    if row is None:
        return None
    end_us = end_of(row.created_us, row.expires_us, age_us)
    return None if end_us is not None and end_us <= now_us else load(ReceiverRow, row)


def end_of(created_us: int, expires_us: int | None, age_us: int | None) -> int | None:
    """Return when a receiver ends: at its own end or at the age that none may pass; None for never."""
    ends = [expires_us, None if age_us is None else created_us + age_us]
    return min((end for end in ends if end is not None), default=None)


def add(conn: Connection, keys: IdKeys, values: Mapping[str, object]) -> None:
    """Insert one receiver by its id; buckets of receivers that went with their clusters go now."""
    known = select(receivers.c.id)
    conn.execute(delete(budgets).where(budgets.c.scope == SCOPE, budgets.c.key.not_in(known)))
    conn.execute(insert(receivers).values(**{**values, **_hidden(keys, str(values["id"]))}))


def _hidden(keys: IdKeys, ident: str) -> dict[str, object]:
    place = stored_id(ident)
    return {"id": place, "hidden": keys.hide(ident, place)}


def hide_old(conn: Connection, keys: IdKeys) -> int:
    """Hide the ids that programs before schema 0007 have stored as they are; return how many.

    Such programs do not know these receivers afterwards.
    """
    rows = conn.execute(select(receivers).where(receivers.c.hidden.is_(None))).all()
    for row in rows:
        new = _hidden(keys, row.id) | {"channel": {"alarm_url": base_of(row.channel)}}
        of_it = (budgets.c.scope == SCOPE, budgets.c.key == row.id)
        # An older program may have imported anew what it did not recognise.
        remove(conn, str(new["id"]))
        conn.execute(update(budgets).where(*of_it).values(key=new["id"]))
        conn.execute(update(receivers).where(receivers.c.id == row.id).values(**new))
    return len(rows)


def plain(conn: Connection) -> int:
    """Return how many ids are stored as they are."""
    query = select(func.count()).select_from(receivers).where(receivers.c.hidden.is_(None))
    return conn.execute(query).scalar_one()


def base_of(channel: Mapping[str, object]) -> str:
    """Return how the server is reached whose webhook this is: what its URL begins with."""
    return str(channel.get("alarm_url", "")).partition("/v1/webhooks/")[0]


def _ended(now: str, oldest: str) -> ColumnElement[bool]:
    """Return the condition that a receiver is over; `end_of` says the same of a row."""
    expired = and_(receivers.c.expires_us.is_not(None), receivers.c.expires_us <= bindparam(now))
    return or_(expired, receivers.c.created_us <= bindparam(oldest))


_TOLD: Final = (
    exists()
    .where(events_table.c.oid == func.substr(receivers.c.id, 1, SHOWN, type_=String) + "…")
    .where(
        events_table.c.action == EXPIRED,
        or_(
            events_table.c.at_us >= func.coalesce(receivers.c.expires_us, 0),
            receivers.c.created_us <= bindparam("oldest"),
        ),
    )
    .label("told")
)
_OVER: Final = (
    select(receivers, _TOLD)
    .where(_ended("now", "oldest"), or_(~_TOLD, _ended("forgotten", "oldest_forgotten")))
    .limit(BATCH)
)


def over(
    conn: Connection, *, now_us: int, age_us: int | None, kept_us: int
) -> Sequence[tuple[ReceiverRow, bool]]:
    """Return receivers that have ended untold, or `kept_us` ago: of each whether it was told."""
    oldest_us = NEVER_US if age_us is None else now_us - age_us
    asked = {
        "now": now_us,
        "oldest": oldest_us,
        "forgotten": now_us - kept_us,
        "oldest_forgotten": oldest_us - kept_us,
    }
    return [(load(ReceiverRow, row), bool(row.told)) for row in conn.execute(_OVER, asked)]


def sweep(conn: Connection, *, now_us: int, age_us: int | None, kept_us: int) -> None:
    """Tell of each receiver that has ended, once; delete those that ended `kept_us` ago."""
    for row, told in over(conn, now_us=now_us, age_us=age_us, kept_us=kept_us):
        if not told:
            about = events.Subject(
                otype="RECEIVER", oid=masked(row.id), oname=row.name, cluster_id=row.cluster_id,
                project=row.project, user=row.user, domain=row.domain,
            )  # fmt: skip
            reason = "its end has come: its URL opens nothing any more"
            events.append(conn, about, at_us=now_us, action=EXPIRED, status="end", reason=reason)
        end_us = end_of(row.created_us, row.expires_us, age_us)
        if end_us is not None and end_us <= now_us - kept_us:
            remove(conn, row.id)


def set_values(conn: Connection, ident: str, now_us: int, **values: object) -> None:
    """Change columns of a receiver."""
    conn.execute(
        update(receivers).where(receivers.c.id == ident).values(**values, updated_us=now_us)
    )


def remove(conn: Connection, ident: str) -> None:
    """Delete a receiver with its bucket."""
    conn.execute(delete(budgets).where(budgets.c.scope == SCOPE, budgets.c.key == ident))
    conn.execute(delete(receivers).where(receivers.c.id == ident))


def spend(conn: Connection, ident: str, limit: BudgetLimit, now_us: int) -> float | None:
    """Take one token from a receiver's bucket; return after how many seconds to ask again, or None.

    Nothing is written for a refusal: waiting fills the bucket all the same.
    """
    mine = (budgets.c.scope == SCOPE, budgets.c.key == ident)
    row = conn.execute(select(budgets.c.tokens, budgets.c.updated_us).where(*mine)).one_or_none()
    full = Bucket(tokens=float(limit.burst), updated_us=now_us)
    found = full if row is None else Bucket(tokens=row.tokens, updated_us=row.updated_us)
    bucket = refill(found, limit, now_us)
    if bucket.tokens < 1:
        return (1 - bucket.tokens) * 3600 / limit.per_hour
    values = {"tokens": bucket.tokens - 1, "updated_us": bucket.updated_us}
    if row is None:
        conn.execute(insert(budgets).values(scope=SCOPE, key=ident, **values))
    else:
        conn.execute(update(budgets).where(*mine).values(**values))
    return None
