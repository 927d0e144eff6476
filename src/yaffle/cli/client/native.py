"""Speaks to a running server: its clustering API, and its own for what that has no words for.

Whatever changes profiles, policies, clusters, nodes, receivers and actions goes through the
clustering API, as any other client's wishes do. Health, decisions, incidents, marks, maintenance and
the storm limit are known to Yaffle's own API only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, Self

from yaffle.cli.client.clustering import Clustering
from yaffle.cli.client.transport import Refused, Row, ServerAway, Wire
from yaffle.errors import DependencyError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Api", "Refused", "Row", "ServerAway", "inner", "items", "rows"]

PREFIX: Final = "/yaffle/v1"


class Api:
    """A client of our own API, as a context manager. Every method raises ServerAway and Refused."""

    def __init__(
        self,
        server: str | None = None,
        token_file: Path | None = None,
        *,
        os_cloud: str | None = None,
        folder: Path | None = None,
    ) -> None:
        """`os_cloud`: whose Keystone says who we are.

        `folder`: the state directory of the server that is meant, where it is that one or none.
        """
        self._wire = Wire(server, token_file, os_cloud=os_cloud, folder=folder)
        self.url = self._wire.url
        self.v1 = Clustering(self._wire)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._wire.__exit__()

    def get(self, *path: str, **query: object) -> Row:
        """Return the object at `path` (parts, quoted here) below /yaffle/v1."""
        return self._wire.ask("GET", (PREFIX, *path), query=query).body

    def post(self, *path: str, body: Row | None = None) -> Row:
        """Create, or ask for something."""
        return self._wire.ask("POST", (PREFIX, *path), body=body or {}).body

    def put(self, *path: str, body: Row) -> Row:
        """Replace."""
        return self._wire.ask("PUT", (PREFIX, *path), body=body).body

    def patch(self, *path: str, body: Row) -> Row:
        """Change a part."""
        return self._wire.ask("PATCH", (PREFIX, *path), body=body).body

    def delete(self, *path: str, body: Row | None = None) -> Row:
        """Remove."""
        return self._wire.ask("DELETE", (PREFIX, *path), body=body).body

    def answers(self) -> bool:
        """Whether a server answers at all."""
        try:
            self._wire.ask("GET", (PREFIX,))
        except ServerAway:
            return False
        except Refused:
            return True
        return True


def rows(answer: Row, key: str) -> list[Row]:
    """Return the list under `key`; raise DependencyError where the server speaks differently."""
    found = answer.get(key)
    if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
        raise DependencyError(f"the server's answer has no list {key!r}: is it another version?")
    return found


def inner(row: Row, key: str) -> Row:
    """Return the object under `key`; empty where there is none."""
    found = row.get(key)
    return found if isinstance(found, dict) else {}


def items(row: Row, key: str) -> Iterator[Row]:
    """Yield the objects of the list under `key`; none where there is no list."""
    found = row.get(key)
    for item in found if isinstance(found, list) else ():
        if isinstance(item, dict):
            yield item
