"""The types that an import plan takes and returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from yaffle.core.imports.dump import Row
from yaffle.core.imports.items import Kind, PolicyItem, ProfileItem


class Outcome(StrEnum):
    """Outcome of one object of an import."""

    CREATE = "create"
    PRESENT = "present"
    """Here already, and the same."""
    DIFFERENT = "different"
    """Here already, and left as it is here."""
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """One object and what becomes of it."""

    kind: Kind
    id: str
    name: str
    outcome: Outcome
    reasons: tuple[str, ...] = ()
    """Why it is refused, or in what it differs."""
    notes: tuple[str, ...] = ()
    """What changes on the way although it is created."""
    row: Row = field(default_factory=dict)
    """The columns to write, where it is to be created."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A policy document as this installation understands it."""

    type: str
    spec: Row
    warnings: tuple[str, ...]


class Judge(Protocol):
    """Judgement of this installation about documents."""

    def profile(self, item: ProfileItem) -> Row:
        """Return the properties with every default; raise InvalidSpec or Forbidden."""
        ...

    def policy(self, item: PolicyItem) -> Document:
        """Return the document, normalised; raise InvalidSpec or Forbidden."""
        ...

    def is_singleton(self, family: str) -> bool:
        """Whether a cluster has at most one policy of that type (without its version)."""
        ...

    def binding(self, policy_type: str, spec: Row, profile_type: str) -> Sequence[str]:
        """Return why a policy cannot work on clusters of that profile; nothing where it can."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Present:
    """Objects that are here already, as far as an import names them."""

    rows: Mapping[tuple[Kind, str], Row] = field(default_factory=dict)
    holders: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Physical id → ids of the nodes here that stand for it."""
    bound: Mapping[tuple[str, str], Row] = field(default_factory=dict)
    """(cluster id, policy id) → the binding that is here."""
