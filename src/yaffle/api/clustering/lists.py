"""List requests: parameters, and a streamed response of any length."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from sqlalchemy import select
from starlette.responses import Response, StreamingResponse

from yaffle.api.clustering.errors import HTTPBadRequest
from yaffle.api.clustering.request import ApiRequest, truth
from yaffle.api.clustering.table import Param
from yaffle.api.http.reply import encode
from yaffle.errors import Forbidden, NotFound
from yaffle.store import listing
from yaffle.store.listing import Key, Listing

if TYPE_CHECKING:
    from sqlalchemy import Column, ColumnElement, Connection, Select, Table

    from yaffle.api.clustering.microversion import Microversion
    from yaffle.api.clustering.validation import Schema

Shown = dict[str, object]
Fetch = Callable[["Connection", Sequence[str], "Microversion"], Mapping[str, Shown]]
"""Returns the objects of those ids, by id; what is gone is left out."""

LIMIT_MAX: Final = 2**53
SORT_KEYS_MAX: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """A query parameter that chooses rows by one column; repeated, it means "any of these"."""

    column: Column[object]
    text: str = ""
    words: frozenset[str] = frozenset()
    """What it may be; empty for anything."""
    convert: Callable[[str], object] = str
    through: Callable[[Sequence[str]], Select[tuple[str]]] | None = None
    """Returns the values of the column that these words lead to, where they are not its own."""

    def condition(self, name: str, values: Sequence[str]) -> ColumnElement[bool]:
        """Return the condition; raise HTTPBadRequest for a word that is none of those known."""
        for value in values:
            if self.words and value not in self.words:
                raise HTTPBadRequest(
                    f"Field value {value[:100]} is invalid",
                    hint=f"{name} is one of {', '.join(sorted(self.words))}",
                )
        if self.through is not None:
            return self.column.in_(self.through(values))
        return self.column.in_([self.convert(value) for value in values])

    @property
    def schema(self) -> Schema:
        """The schema of one value."""
        return {"type": "string", **({"enum": sorted(self.words)} if self.words else {})}


@dataclass(frozen=True, slots=True, kw_only=True)
class Noun:
    """A kind of object that is listed and shown."""

    word: str
    plural: str
    table: Table
    fetch: Fetch
    filters: Mapping[str, Filter]
    sorts: Mapping[str, Column[object]]
    order: tuple[Column[object], ...]
    """The default order; the last column is unique."""
    where: tuple[ColumnElement[bool], ...] = ()
    portion: int = 500
    """So many objects are read and written at once."""
    owned: bool = True
    """Whether its rows say whose they are; otherwise the caller has seen to that."""
    named_by: Column[object] | None = None
    """A column whose value may stand for the id of the newest object that has it."""
    place_of: Callable[[Connection, str], str] = lambda _conn, ident: ident
    """Returns what an object is stored under that has this id; what is no id is left as it is."""
    pages: bool = True
    """Whether `limit` and `marker` are known."""
    extra: tuple[Param, ...] = field(default=())

    @property
    def params(self) -> tuple[Param, ...]:
        """The query parameters of the list."""
        return (
            *self._filters(),
            *(PAGES if self.pages else ()),
            self._sort(),
            *GLOBAL,
            *self.extra,
        )

    def _filters(self) -> tuple[Param, ...]:
        return tuple(
            Param(
                name=name,
                text=f.text or f"Only those with this {name}; repeated, any of them.",
                schema=f.schema,
                repeatable=True,
            )
            for name, f in self.filters.items()
        )

    def _sort(self) -> Param:
        return Param(
            name="sort",
            text=f"`KEY[:asc|desc]`, several with commas; keys: {', '.join(self.sorts)}.",
            schema={"type": "string"},
        )


PAGES: Final = (
    Param(
        name="limit",
        text="At most so many; without it, all.",
        schema={"type": "integer", "minimum": 0},
    ),
    Param(
        name="marker",
        text="Only what comes after the object with this id; ask page after page with the last id.",
        schema={"type": "string", "format": "uuid"},
    ),
)
GLOBAL: Final = (
    Param(
        name="global_project",
        text="Objects of every project, for administrators; they see those in any case.",
        schema={"type": "string", "enum": ["true", "false", "True", "False"]},
    ),
)


def boolean(name: str) -> Callable[[str], bool]:
    """Return what reads `true` and `false` of that parameter."""
    return lambda value: truth(name, value)


def seen_by(call: ApiRequest, noun: Noun) -> tuple[ColumnElement[bool], ...]:
    """Return the condition that a row is the caller's to see."""
    scope = call.who.scope
    return () if scope is None or not noun.owned else (noun.table.c.project == scope,)


def found(call: ApiRequest, noun: Noun, conn: Connection, ident: str) -> str:
    """Return the id of an object that the caller may see; raise NotFound or MultipleChoices."""
    where = (*seen_by(call, noun), *noun.where)
    try:
        place = noun.place_of(conn, ident)
        return listing.find(conn, noun.table, place, word=noun.word, where=where)
    except NotFound:
        newest = None if noun.named_by is None else _newest(conn, noun, noun.named_by, ident, where)
        if newest is None:
            raise
        return newest


def _newest(
    conn: Connection,
    noun: Noun,
    column: Column[object],
    ident: str,
    where: Sequence[ColumnElement[bool]],
) -> str | None:
    latest = select(noun.table.c.id).where(column == ident, *where)
    order = [one.desc() for one in noun.order]
    found = conn.execute(latest.order_by(*order).limit(1)).scalar()
    return None if found is None else str(found)


async def one(call: ApiRequest, noun: Noun, ident: str) -> Shown:
    """Return one object as it is shown."""

    def work(conn: Connection) -> Shown:
        key = found(call, noun, conn, ident)
        return noun.fetch(conn, [key], call.version)[key]

    return await call.read(work)


async def listed(call: ApiRequest, noun: Noun, *more: ColumnElement[bool]) -> Response:
    """Return the list that the query asks for; a long one is streamed."""
    asked = Listing(
        table=noun.table,
        where=(*seen_by(call, noun), *noun.where, *more, *_filtered(call, noun)),
        order=_order(call, noun),
    )
    _global(call)
    limit = _limit(call)
    marker = _marker(call)
    parts = _Portions(call=call, noun=noun, asked=asked, limit=limit, marker=marker).run()
    begin = f'{{"{noun.plural}":['.encode()
    first = await anext(parts, b"")
    second = await anext(parts, b"") if first else b""
    if not second:
        return Response(begin + first + b"]}", media_type="application/json")
    return StreamingResponse(_chained(begin, first, second, parts), media_type="application/json")


def understand(call: ApiRequest, noun: Noun) -> None:
    """Raise HTTPBadRequest for a query that `listed` would refuse, before anything is looked up."""
    _filtered(call, noun)
    _order(call, noun)
    _global(call)


async def _chained(
    begin: bytes, first: bytes, second: bytes, rest: AsyncIterator[bytes]
) -> AsyncIterator[bytes]:
    yield begin + first
    yield b"," + second
    async for portion in rest:
        yield b"," + portion
    yield b"]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Portions:
    """The list in portions of encoded objects, commas between them; none of them is empty."""

    call: ApiRequest
    noun: Noun
    asked: Listing
    limit: int | None
    marker: str | None

    async def run(self) -> AsyncIterator[bytes]:
        """Yield portions; each is read in a transaction and a thread of its own."""
        left = self.limit
        after = await self._start()
        while left != 0:
            keys = await self.call.read(
                lambda conn, after=after, left=left: self.asked.keys(conn, after, left)  # type: ignore[misc]
            )
            for start in range(0, len(keys), self.noun.portion):
                idents = [str(key[-1]) for key in keys[start : start + self.noun.portion]]
                portion = await self.call.read(
                    lambda conn, idents=idents: self._encoded(conn, idents)  # type: ignore[misc]
                )
                if portion:
                    yield portion
            if len(keys) < listing.KEYS_MAX:
                return
            left = None if left is None else left - len(keys)
            after = keys[-1]

    async def _start(self) -> Key | None:
        if self.marker is None:
            return None
        marker = self.marker
        # What is gone has no place any more: the list begins at its beginning, as in Senlin.
        return await self.call.read(
            lambda conn: self.asked.key_of(conn, self.noun.place_of(conn, marker))
        )

    def _encoded(self, conn: Connection, idents: Sequence[str]) -> bytes:
        shown = self.noun.fetch(conn, idents, self.call.version)
        return b",".join(encode(shown[ident]) for ident in idents if ident in shown)


def _filtered(call: ApiRequest, noun: Noun) -> list[ColumnElement[bool]]:
    return [
        f.condition(name, call.query[name])
        for name, f in noun.filters.items()
        if name in call.query
    ]


def _order(call: ApiRequest, noun: Noun) -> tuple[tuple[Column[object], bool], ...]:
    wanted = _sorted_by(call.one("sort"), noun.sorts)
    chosen = [column for column, _ in wanted]
    # Equal keys, and a list without a wish, come in the order of creation.
    rest = [(column, False) for column in noun.order if column not in set(chosen)]
    return (*wanted, *rest)


def _sorted_by(
    text: str | None, sorts: Mapping[str, Column[object]]
) -> list[tuple[Column[object], bool]]:
    wanted: dict[str, tuple[Column[object], bool]] = {}
    for part in (text or "").split(",")[: SORT_KEYS_MAX + 1]:
        key, _, direction = part.strip().partition(":")
        if not key and not direction:
            continue
        if key not in sorts:
            raise HTTPBadRequest(f"Unsupported sort key '{key[:100]}' for 'sort'.")
        if direction not in {"", "asc", "desc"}:
            raise HTTPBadRequest(f"Unsupported sort dir '{direction[:100]}' for 'sort'.")
        wanted.setdefault(key, (sorts[key], direction == "desc"))
    return list(wanted.values())


def _global(call: ApiRequest) -> None:
    value = call.one("global_project")
    if value is not None and truth("global_project", value) and not call.who.is_admin:
        raise Forbidden("You are not authorized to complete this operation.")


def _limit(call: ApiRequest) -> int | None:
    text = call.one("limit")
    if text is None:
        return None
    if not (text.isascii() and text.removeprefix("-").isdigit() and len(text) < 20):
        raise HTTPBadRequest(f"The value for limit must be an integer: '{text[:100]}'.")
    if text.startswith("-") and int(text) < 0:
        raise HTTPBadRequest("Value must be >= 0 for field 'limit'.")
    return min(int(text), LIMIT_MAX)


def _marker(call: ApiRequest) -> str | None:
    text = call.one("marker")
    if text is None:
        return None
    try:
        return str(uuid.UUID(text))
    except ValueError:
        raise HTTPBadRequest(f"The value for marker is not a valid UUID: '{text[:100]}'.") from None
