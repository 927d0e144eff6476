"""Cuts an import into pieces that a server takes: in order, small enough, each with what it refers to."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from yaffle.cli.client.native import Row
from yaffle.core.imports.dump import ORDER

BYTES_MAX: Final = 400_000
"""Well below the smallest useful `server.max_body`; a single larger object goes alone."""
OBJECTS_MAX: Final = 400
REFERENCES: Final[Mapping[str, Mapping[str, str]]] = {
    "clusters": {"profile_id": "profiles"},
    "nodes": {"profile_id": "profiles", "cluster_id": "clusters"},
    "cluster_policies": {"cluster_id": "clusters", "policy_id": "policies"},
    "receivers": {"cluster_id": "clusters"},
}
"""Kind → column → the kind that it names."""

Key = tuple[str, str]


@dataclass
class Piece:
    """Objects of one kind, and what they need of other pieces."""

    kind: str
    rows: list[Row] = field(default_factory=list)
    needs: dict[Key, Row] = field(default_factory=dict)
    size: int = 0

    def body(self, assumable: set[Key]) -> dict[str, object]:
        """Return the body of a dry run; of what it needs only what would have been created."""
        assumed: dict[str, list[Row]] = {}
        for (kind, ident), row in self.needs.items():
            if (kind, ident) in assumable:
                assumed.setdefault(kind, []).append(row)
        return {self.kind: self.rows, **({"assumed": assumed} if assumed else {})}


class Pieces:
    """The objects of an import, and where to find what they refer to."""

    def __init__(self, lists: Mapping[str, Sequence[Row]]) -> None:
        self._lists = lists
        self._named = {
            (kind, str(row.get("id"))): row
            for kind in ("profiles", "policies", "clusters")
            for row in lists.get(kind, ())
        }

    def __iter__(self) -> Iterator[Piece]:
        """Yield pieces, every object after what it refers to."""
        for kind in ORDER:
            yield from self._of(kind)

    def _of(self, kind: str) -> Iterator[Piece]:
        piece = Piece(kind=kind)
        for row in self._lists.get(kind, ()):
            needs = dict(self._needs(kind, row))
            more = _size(row) + sum(_size(n) for k, n in needs.items() if k not in piece.needs)
            full = piece.size + more > BYTES_MAX or len(piece.rows) >= OBJECTS_MAX
            if piece.rows and full:
                yield piece
                piece = Piece(kind=kind)
                more = _size(row) + sum(map(_size, needs.values()))
            piece.rows.append(row)
            piece.needs |= needs
            piece.size += more
        if piece.rows:
            yield piece

    def _needs(self, kind: str, row: Row) -> Iterator[tuple[Key, Row]]:
        """Yield what an object refers to, and what that refers to."""
        for column, other in REFERENCES.get(kind, {}).items():
            key = (other, str(row.get(column)))
            found = self._named.get(key)
            if found is not None:
                yield from self._needs(other, found)
                yield key, found


def _size(row: Row) -> int:
    return len(json.dumps(row, default=str))
