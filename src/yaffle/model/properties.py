"""Property and parameter schemas in Senlin's shape, as `GET profile-types/T` shows them.

A driver's `validate` stays the judge of a document; a schema tells people and clients beforehand
what it will accept, and which properties an existing node can be given without making it anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final

ITEM: Final = "*"
"""The key under which a list's schema keeps that of its items."""


class ValueType(StrEnum):
    """The types that Senlin's schemas know."""

    STRING = "String"
    INTEGER = "Integer"
    NUMBER = "Number"
    BOOLEAN = "Boolean"
    MAP = "Map"
    LIST = "List"


TYPES: Final[Mapping[type, ValueType]] = MappingProxyType(
    {
        str: ValueType.STRING,
        int: ValueType.INTEGER,
        float: ValueType.NUMBER,
        bool: ValueType.BOOLEAN,
        dict: ValueType.MAP,
        list: ValueType.LIST,
    }
)
"""Python's types of operation parameters (`ParamSpec.type`) by the word for them on the wire."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """`AllowedValues` with its list; other kinds are shown as they are."""

    type: str
    constraint: object

    def shown(self) -> dict[str, object]:
        """Return the constraint as JSON-able values."""
        return {"type": self.type, "constraint": self.constraint}


def allowed(*values: object) -> tuple[Constraint, ...]:
    """Return the constraint of a closed choice."""
    return (Constraint(type="AllowedValues", constraint=list(values)),)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaNode:
    """One property, and what lies below it."""

    type: ValueType
    description: str = ""
    required: bool = False
    default: object = None
    """None: there is no default."""
    updatable: bool = False
    """Whether an existing node can be given another value by the operation UPDATE."""
    changeable: Callable[[object, object], bool] | None = None
    """Old and new value: whether that change is possible, where only some are."""
    constraints: tuple[Constraint, ...] = ()
    schema: Mapping[str, SchemaNode] = field(default_factory=lambda: MappingProxyType({}))
    """Names of a map; `*` of a list."""

    def takes(self, old: object, new: object) -> bool:
        """Whether an existing node that has `old` can be given `new`."""
        return self.updatable and (self.changeable is None or self.changeable(old, new))

    def shown(self) -> dict[str, object]:
        """Return the node as Senlin shows it: what has nothing to say is left out."""
        found: dict[str, object] = {
            "type": self.type.value,
            "required": self.required,
            "updatable": self.updatable,
        }
        if self.description:
            found["description"] = self.description
        if self.default is not None:
            found["default"] = self.default
        if self.constraints:
            found["constraints"] = [c.shown() for c in self.constraints]
        if self.schema:
            found["schema"] = shown(self.schema)
        return found


Schema = Mapping[str, SchemaNode]


def shown(schema: Schema) -> dict[str, object]:
    """Return a whole schema as JSON-able values."""
    return {name: node.shown() for name, node in schema.items()}


def updatable(schema: Schema, old: Mapping[str, object], new: Mapping[str, object]) -> bool:
    """Whether every property that differs may be changed on an existing node."""
    changed = [k for k in {*old, *new} if old.get(k) != new.get(k)]
    return all(
        name in schema and schema[name].takes(old.get(name), new.get(name)) for name in changed
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeName:
    """`os.nova.server-1.0` taken apart: what a type is called, and which version of it is meant."""

    name: str
    version: str

    @classmethod
    def of(cls, full: str) -> TypeName:
        """Return the parts; a name without a version is version 1.0."""
        name, dash, version = full.rpartition("-")
        return cls(name=name, version=version) if dash else cls(name=full, version="1.0")

    def support(self, since: str) -> dict[str, object]:
        """Return `support_status` as the API shows it, from microversion 1.5 on."""
        return {self.version: [{"status": "SUPPORTED", "since": since}]}
