"""The clustering API, `/v1`, as commands use it: objects, whole lists, and work that goes on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from yaffle.errors import DependencyError

if TYPE_CHECKING:
    from yaffle.cli.client.transport import Answer, Row, Wire

PREFIX: Final = "/v1"
PAGE: Final = 1000
"""Objects per request: a list of any length is read without one answer that takes minutes."""
_VERSION: Final = {"OpenStack-API-Version": "clustering 1.14"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """Work that the server has begun."""

    action: str
    """Id of the action that does it."""
    body: Row
    """The object as it was before; empty where nothing is said."""


class Clustering:
    """A client of the clustering API: raises ServerAway and Refused; parts of paths are quoted here."""

    def __init__(self, wire: Wire, *, page: int = PAGE) -> None:
        self._wire = wire
        self._page = page

    def get(self, *path: str, **query: object) -> Row:
        """Return the answer at `path`."""
        return self._ask("GET", path, query=query).body

    def post(self, *path: str, body: Row) -> Row:
        """Create something that is there at once."""
        return self._ask("POST", path, body=body).body

    def patch(self, *path: str, body: Row, **query: object) -> Row:
        """Change something at once."""
        return self._ask("PATCH", path, body=body, query=query).body

    def delete(self, *path: str) -> None:
        """Remove something that is gone at once."""
        self._ask("DELETE", path)

    def start(self, method: str, *path: str, body: Row | None = None) -> Started:
        """Ask for what takes its time."""
        answer = self._ask(method, path, body=body)
        action = answer.location.rpartition("/")[2]
        if not action:
            raise DependencyError(
                "the server does not say which action does it: is it another version?"
            )
        return Started(action=action, body=answer.body)

    def act(self, noun: str, ident: str, verb: str, data: Mapping[str, object]) -> Started:
        """Ask a cluster or node for one of its actions; what is None is left out."""
        given = {key: value for key, value in data.items() if value is not None}
        return self.start("POST", noun, ident, "actions", body={verb: given})

    def listed(
        self,
        noun: str,
        query: Mapping[str, object],
        *,
        limit: int | None = None,
        marker: str | None = None,
    ) -> list[Row]:
        """Return the whole list, or its first `limit`, after `marker`; it is asked for in pages."""
        found: list[Row] = []
        for row in self._rows(noun, marker, limit, query):
            found.append(row)
            if len(found) == limit:
                break
        return found

    def _rows(
        self, noun: str, marker: str | None, limit: int | None, query: Mapping[str, object]
    ) -> Iterator[Row]:
        """Yield row after row, none of them twice."""
        key = noun.replace("-", "_")
        passed: set[str] = set()
        trail: list[str] = []
        size = self._page if limit is None else min(limit, self._page)
        while size:
            page = self._list(noun, key, {**query, "limit": size, "marker": marker})
            fresh = [row for row in page if row.get("id") not in passed]
            yield from fresh
            if len(page) < size:
                return
            trail += [str(row.get("id")) for row in fresh]
            passed.update(trail[-len(fresh) :])
            if not fresh:
                # The marker was deleted, and the list began anew: go on after the one before it.
                trail.pop()
            if not trail:
                raise DependencyError("the list changed faster than it could be read; ask again")
            marker = trail[-1]

    def _list(self, noun: str, key: str, query: Mapping[str, object]) -> list[Row]:
        found = self._ask("GET", (noun,), query=query).body.get(key)
        if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
            raise DependencyError(
                f"the server's answer has no list {key!r}: is it another version?"
            )
        return found

    def _ask(
        self,
        method: str,
        path: tuple[str, ...],
        *,
        body: Row | None = None,
        query: Mapping[str, object] | None = None,
    ) -> Answer:
        return self._wire.ask(method, (PREFIX, *path), body=body, query=query, headers=_VERSION)
