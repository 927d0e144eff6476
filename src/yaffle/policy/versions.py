"""Versions of policy types: which keys are where, from which version on; the shapes are pydantic's.

Every type of policy has one `Grammar`, so that reading, the sentences about unknown keys, and the
schemas that the API publishes all follow the same tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from pydantic import BaseModel, ConfigDict

from yaffle.policy.faults import Fault, Path

Place: TypeAlias = tuple[str, ...]
"""Where in the schema a value stands: its path without list places."""


class Spec(BaseModel):
    """Base of every shape: unknown keys are faults, and nothing changes once it is read."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grammar:
    """The grammar of one type of document, in all its versions."""

    shapes: Mapping[Place, type[Spec]]
    """Every mapping by its place; the whole document stands at ()."""
    since: Mapping[Place, str] = field(default_factory=dict)
    """Keys that older versions do not have, with the version that brought them."""
    words_since: Mapping[tuple[Place, str], str] = field(default_factory=dict)
    """Values of closed lists that older versions do not know."""
    missing: Mapping[Path, str] = field(default_factory=dict)
    """What to say of a key that is required and absent, beyond "required"."""

    def has(self, where: Place, version: str) -> bool:
        """Whether documents of `version` know the key at `where`."""
        return version_key(self.since.get(where, "")) <= version_key(version)

    def has_word(self, where: Place, word: str, version: str) -> bool:
        """Whether documents of `version` know `word` at `where`."""
        return version_key(self.words_since.get((where, word), "")) <= version_key(version)

    def keys_at(self, where: Place, version: str) -> tuple[str, ...]:
        """Return the keys of the mapping at `where`, without those an older version lacks."""
        shape = self.shapes.get(where)
        names = tuple(shape.model_fields) if shape is not None else ()
        return tuple(name for name in names if self.has((*where, name), version))

    def homes_of(self, key: str) -> tuple[Place, ...]:
        """Return every mapping that has `key`."""
        return tuple(where for where, shape in self.shapes.items() if key in shape.model_fields)

    def too_new(self, value: object, version: str, path: Path = ()) -> Iterator[Fault]:
        """Yield the keys and words in `value` that need a later version than `version`."""
        where = place(path)
        if path and isinstance(path[-1], str) and not self.has(where, version):
            yield Fault(path=path, text=needs(self.since[where], version), at_key=True)
        elif isinstance(value, str):
            if not self.has_word(where, value, version):
                text = f"{value} {needs(self.words_since[where, value], version)}"
                yield Fault(path=path, text=text)
        elif isinstance(value, Mapping):
            for key, item in value.items():
                yield from self.too_new(item, version, (*path, str(key)))
        elif isinstance(value, list):
            for number, item in enumerate(value):
                yield from self.too_new(item, version, (*path, number))


def place(path: Path) -> Place:
    """Return the path without list places."""
    return tuple(part for part in path if isinstance(part, str))


def version_key(version: str) -> tuple[int, ...]:
    """Return `1.3` as numbers that compare; the empty version is before all others."""
    return tuple(int(part) for part in version.split(".") if part)


def needs(wanted: str, given: str) -> str:
    """Say that something needs version `wanted`."""
    return f'needs version {wanted} (this document says {given}); write version: "{wanted}"'
