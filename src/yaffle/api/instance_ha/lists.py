"""Lists of the instance-HA API: filters, `limit` and `marker`, `sort_key` and `sort_dir`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from yaffle.api.clustering.table import Param
from yaffle.errors import BadRequest
from yaffle.store.listing import Listing

if TYPE_CHECKING:
    from sqlalchemy import Column, ColumnElement, Connection, Table

    from yaffle.api.clustering.request import ApiRequest
    from yaffle.api.instance_ha.views import Shown

MOST: Final = 1000
"""Masakari's `osapi_max_limit`: at most so many are answered at once."""
DIRECTIONS: Final = ("asc", "desc")
WORDS: Final = {
    **dict.fromkeys(("1", "t", "true", "on", "y", "yes"), True),
    **dict.fromkeys(("0", "f", "false", "off", "n", "no"), False),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Noun:
    """A kind of object that is listed."""

    plural: str
    table: Table
    filters: Mapping[str, Column[object]]
    renamed: Mapping[str, str]
    """Names of columns where the API has others than the table."""
    shown: Callable[[Connection, Sequence[str]], Mapping[str, Shown]]
    """Returns those objects by id; what is gone is left out."""
    extra: tuple[Param, ...] = ()

    @property
    def params(self) -> tuple[Param, ...]:
        """The query parameters of the list; others are passed over, as Masakari does."""
        chosen = (
            Param(name=name, text=f"Only those with this {name}.", schema={"type": "string"})
            for name in self.filters
        )
        return (*chosen, *self.extra, *PAGES)

    def column(self, key: str) -> Column[object]:
        """Return the column that a sort key names; raise BadRequest for none."""
        name = self.renamed.get(key, "" if key in self.renamed.values() else key)
        column: Column[object] | None = self.table.c.get(name)
        if column is None:
            raise BadRequest(f"Sort key supplied is invalid: {key[:100]}")
        return column


PAGES: Final = (
    Param(
        name="limit",
        text=f"At most so many, and at most {MOST}.",
        schema={"type": "integer", "minimum": 0},
    ),
    Param(
        name="marker",
        text="Only what comes after the object with this id.",
        schema={"type": "string", "format": "uuid"},
    ),
    Param(
        name="sort_key",
        text="By which key to sort; repeated, by several. Default: `created_at`.",
        schema={"type": "string"},
        repeatable=True,
    ),
    Param(
        name="sort_dir",
        text="`asc` or `desc`, for each key. Default: `desc`.",
        schema={"type": "string"},
        repeatable=True,
    ),
)


async def listed(
    call: ApiRequest, noun: Noun, *more: ColumnElement[bool]
) -> Mapping[str, Sequence[Shown]]:
    """Return the list that the query asks for; raise BadRequest where it cannot be understood."""
    order, limit = _order(call, noun), _limit(call)
    where = (*more, *_filtered(call, noun))
    marker = call.one("marker")

    def work(conn: Connection) -> Sequence[Shown]:
        asked = Listing(table=noun.table, where=where, order=order)
        after = None
        if marker is not None and (after := asked.key_of(conn, marker)) is None:
            raise BadRequest(f"Marker {marker[:100]} could not be found.")
        idents = [str(key[-1]) for key in asked.keys(conn, after, limit)] if limit else []
        found = noun.shown(conn, idents)
        return [found[ident] for ident in idents if ident in found]

    return {noun.plural: await call.read(work)}


def truth(name: str, text: str) -> bool:
    """Return what a word says that is true or false; raise BadRequest for any other."""
    known = WORDS.get(text.strip().lower())
    if known is None:
        words = ", ".join(f"'{word}'" for word in sorted(WORDS))
        raise BadRequest(
            f"Invalid value for {name}: Unrecognized value '{text[:100]}', acceptable values are:"
            f" {words}"
        )
    return known


def _filtered(call: ApiRequest, noun: Noun) -> list[ColumnElement[bool]]:
    conditions = []
    for name, column in noun.filters.items():
        given = call.one(name)
        if given is not None:
            value = truth(name, given) if column.type.python_type is bool else given
            conditions.append(column == value)
    return conditions


def _order(call: ApiRequest, noun: Noun) -> tuple[tuple[Column[object], bool], ...]:
    keys = list(call.query.get("sort_key", ())) or ["created_at"]
    given = list(call.query.get("sort_dir", ())) or ["desc"]
    if any(word.strip() not in DIRECTIONS for word in given):
        raise BadRequest("Invalid input received: Unknown sort direction, must be 'asc' or 'desc'")
    if len(given) > len(keys):
        raise BadRequest("Invalid input received: Sort direction size exceeds sort key size")
    # As Masakari: the first direction is that of the keys without one.
    descends = [word.strip() == "desc" for word in given]
    descends += [descends[0]] * (len(keys) - len(given))
    columns = [noun.column(key.strip()) for key in keys]
    last = noun.table.c.seq
    pairs = dict(zip(columns, descends, strict=True)) | {last: descends[0]}
    return tuple(pairs.items())


def _limit(call: ApiRequest) -> int:
    text = call.one("limit")
    if text is None:
        return MOST
    try:
        limit = int(text)
    except ValueError:
        raise BadRequest("Invalid input received: limit must be an integer") from None
    if limit < 0:
        raise BadRequest("Invalid input received: limit must be >= 0")
    return min(limit, MOST)
