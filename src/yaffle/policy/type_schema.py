"""The schema of a policy type in Senlin's notation, made from the shapes that judge documents.

Types, closed lists and requiredness come from the shape; defaults from the shape too, or, where the
version decides, from reading the least document of that version. So the schema says what happens.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Annotated, Final, Union, get_args, get_origin

from yaffle.model.policy import Threshold
from yaffle.policy.descriptions import WORDS
from yaffle.policy.document import GRAMMARS, parse_document
from yaffle.policy.settings import BATCH_TYPE, DELETION_TYPE, NEWEST, POLICY_TYPE, SCALING_TYPE
from yaffle.policy.versions import Place, Spec

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

_URL_MODE: Final = {
    "type": "NODE_STATUS_POLL_URL",
    "options": {"poll_url": "http://{node_ip}/"},
}
_LEAST: Final[Mapping[str, Mapping[str, object]]] = {
    BATCH_TYPE: {},
    DELETION_TYPE: {},
    POLICY_TYPE: {"detection": {"detection_modes": [_URL_MODE]}, "recovery": {}},
    SCALING_TYPE: {"event": "CLUSTER_SCALE_IN"},
}
"""The `properties` that each type cannot do without, with one of each list that has defaults."""
_OPTIONAL: Final[Mapping[str, object]] = {"evidence": {}, "snapshot": {}}
"""Parts of a health policy 1.3 that are off unless given; their defaults count once they are."""
_EMPTY: Final[frozenset[Place]] = frozenset(
    {
        ("properties", "hooks"),
        ("properties", "hooks", "params"),
        ("properties", "adjustment"),
        ("properties", "detection", "detection_modes", "options"),
        ("properties", "recovery", "limits"),
        ("properties", "recovery", "retry"),
    }
)
"""Mappings whose absence means the same as an empty one."""


def schema_of(kind: str, version: str) -> dict[str, object]:
    """Return the schema of `properties` of a known type and version."""
    return _keys(kind, version, ("properties",))


def least_document(kind: str, version: str) -> dict[str, object]:
    """Return a document of the type that gives nothing that has a default."""
    properties = dict(_LEAST[kind])
    if (kind, version) == (POLICY_TYPE, NEWEST):
        properties["recovery"] = dict(_OPTIONAL)
    return {"type": kind, "version": version, "properties": properties}


def _keys(kind: str, version: str, where: Place) -> dict[str, object]:
    grammar = GRAMMARS[kind]
    shape = grammar.shapes[where]
    return {
        key: _described(kind, version, (*where, key), shape.model_fields[key])
        for key in grammar.keys_at(where, version)
    }


def _described(kind: str, version: str, where: Place, field: FieldInfo) -> dict[str, object]:
    out: dict[str, object] = {
        "description": WORDS[".".join(where[-2:])].replace("`", "'"),
        "required": field.is_required(),
        "updatable": False,
        **_typed(kind, version, where, field.annotation),
    }
    default = _default(kind, version, where, field)
    return out if default is None else {**out, "default": default}


def _typed(kind: str, version: str, where: Place, annotation: object) -> dict[str, object]:
    """Return type, closed list and inner schema of a value."""
    bare = _bare(annotation)
    if get_origin(bare) is list:
        (inner,) = get_args(bare)
        item = _typed(kind, version, where, inner)
        head = {"required": item["type"] != "Map", "updatable": False}
        return {"type": "List", "schema": {"*": {**head, **item}}}
    if get_origin(bare) is dict:
        return {"type": "Map"}
    if isinstance(bare, type) and issubclass(bare, Spec):
        return {"type": "Map", "schema": _keys(kind, version, where)}
    if isinstance(bare, type) and issubclass(bare, StrEnum):
        known = [word for word in bare if GRAMMARS[kind].has_word(where, word, version)]
        words = {"type": "AllowedValues", "constraint": [word.value for word in known]}
        return {"type": "String", "constraints": [words]}
    if bare is float and kind == POLICY_TYPE and version != NEWEST:
        # Senlin knows whole seconds only: a document that keeps to them can go back there.
        return {"type": "Integer"}
    return {"type": _SCALARS[bare]}


_SCALARS: Final[Mapping[object, str]] = {
    bool: "Boolean",
    int: "Integer",
    float: "Number",
    str: "String",
    # `40%` or `3`
    Threshold: "String",
}


def _bare(annotation: object) -> object:
    """Return the annotation without `| None` and without what is attached to it."""
    if get_origin(annotation) is Annotated:
        return _bare(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        (only,) = (part for part in get_args(annotation) if part is not type(None))
        return _bare(only)
    return annotation


def _default(kind: str, version: str, where: Place, field: FieldInfo) -> object:
    """Return the value that an absent key stands for; None: it has none."""
    if field.is_required():
        return None
    if where[-1] == "poll_url":
        # The least document has one. Absent and empty are the same, refused by the same rule.
        return ""
    if where in _EMPTY:
        return {}
    if field.default is not None:
        return field.default.value if isinstance(field.default, StrEnum) else field.default
    found: object = _full(kind, version)
    for key in where:
        inside = found[0] if isinstance(found, list) and found else found
        found = inside.get(key) if isinstance(inside, Mapping) else None
    # What lists and optional parts stand for is told in words, as in Senlin's schemas.
    return None if isinstance(found, (list, Mapping)) else found


@cache
def _full(kind: str, version: str) -> Mapping[str, object]:
    return parse_document(least_document(kind, version)).document
