"""Lists of any length: the order first, then the rows in portions; and objects found by any name.

A list is read by its keys (the sorted columns and the id), never by offset, so what is inserted or
deleted meanwhile neither repeats nor skips anything else. Nothing holds a transaction between two
portions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sqlalchemy import and_, false, or_, select

from yaffle.errors import MultipleChoices, NotFound
from yaffle.store import dialects
from yaffle.store.catalog import is_prefix

if TYPE_CHECKING:
    from sqlalchemy import Column, ColumnElement, Connection, Table

KEYS_MAX: Final = 20_000
"""So many keys are read at once: a list without an index for its order is sorted as often."""

Key = tuple[object, ...]
"""The values of the sorted columns of one row; the last one is its id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """Description of a list and its order; `order` ends with a column that is unique."""

    table: Table
    where: tuple[ColumnElement[bool], ...] = ()
    order: tuple[tuple[Column[object], bool], ...]
    """Column, and whether it descends. Nulls come first, and last where it descends."""

    def key_of(self, conn: Connection, ident: str) -> Key | None:
        """Return the key of the row with that id, whether it is listed or not; None for no row."""
        row = conn.execute(select(*self._columns).where(self.table.c.id == ident)).one_or_none()
        return None if row is None else tuple(row)

    def keys(self, conn: Connection, after: Key | None, limit: int | None) -> Sequence[Key]:
        """Return the keys that follow `after`, at most `limit` and at most KEYS_MAX."""
        query = select(*self._columns).where(*self.where).order_by(*self._ordering(conn))
        if after is not None:
            query = query.where(_beyond(self.order, after))
        most = KEYS_MAX if limit is None else min(limit, KEYS_MAX)
        return [tuple(row) for row in conn.execute(query.limit(most))]

    @property
    def _columns(self) -> tuple[Column[object], ...]:
        return (*(column for column, _ in self.order), self.table.c.id)

    def _ordering(self, conn: Connection) -> list[ColumnElement[object]]:
        says_where = dialects.kind_of(conn).nulls_are_largest
        return [_directed(column, descends, says_where) for column, descends in self.order]


def _directed(column: Column[object], descends: bool, says_where: bool) -> ColumnElement[object]:
    """Say where nulls go only where the database would put them elsewhere: indexes know no more."""
    ordered = column.desc() if descends else column.asc()
    if not (column.nullable and says_where):
        return ordered
    return ordered.nulls_last() if descends else ordered.nulls_first()


def _beyond(order: Sequence[tuple[Column[object], bool]], after: Key) -> ColumnElement[bool]:
    """Return the condition of coming after a key."""
    steps: list[ColumnElement[bool]] = []
    for place, (column, descends) in enumerate(order):
        same = [_equal(c, v) for (c, _), v in zip(order[:place], after[:place], strict=True)]
        steps.append(and_(*same, _follows(column, descends, after[place])))
    beyond = or_(*steps)
    first, descends = order[0]
    if after[0] is None or first.nullable:
        return beyond
    # Says nothing new, but lets an index begin at the right place.
    bound = first <= after[0] if descends else first >= after[0]
    return and_(bound, beyond)


def _equal(column: Column[object], value: object) -> ColumnElement[bool]:
    return column.is_(None) if value is None else column == value


def _follows(column: Column[object], descends: bool, value: object) -> ColumnElement[bool]:
    if descends:
        if value is None:
            return false()
        return or_(column < value, column.is_(None)) if column.nullable else column < value
    return column.is_not(None) if value is None else column > value


def find(
    conn: Connection,
    table: Table,
    ident: str,
    *,
    word: str,
    where: Sequence[ColumnElement[bool]] = (),
) -> str:
    """Return the id of the object that `ident` names: its id, its name, or an id's beginning.

    Only objects that satisfy `where` are seen. Raises NotFound or MultipleChoices in the words
    that clients of the clustering API know.
    """
    conditions = [table.c.id == ident]
    if "name" in table.c:
        conditions.append(table.c.name == ident)
    if is_prefix(ident):
        conditions.append(table.c.id.startswith(ident))
    for condition in conditions:
        found = conn.execute(select(table.c.id).where(condition, *where).limit(2)).scalars().all()
        if len(found) == 1:
            return str(found[0])
        if found:
            raise MultipleChoices(
                f"Multiple results found matching the query criteria '{ident}'."
                " Please be more specific."
            )
    raise NotFound(f"The {word} '{ident}' could not be found.")
