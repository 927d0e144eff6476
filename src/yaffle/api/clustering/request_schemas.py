"""JSON Schemas of requests, noun by noun: enforced by `validation`, shown by `openapi`.

Absent and null mean the same wherever a key may be left out: openstacksdk sends null for what its
user did not give.
"""

from __future__ import annotations

from typing import Final

from yaffle.api.clustering.validation import BOOLEAN_PATTERN, NAME_PATTERN, NUMBER_PATTERN, Schema

INT_MAX: Final = 2_147_483_647

NAME: Final[Schema] = {
    "type": "string",
    "minLength": 1,
    "maxLength": 255,
    "pattern": NAME_PATTERN,
    "description": "1 to 255 letters, digits, CJK ideographs or `. _ ~ -`, the first no `-`.",
}
IDENTITY: Final[Schema] = {
    "type": "string",
    "minLength": 1,
    "maxLength": 255,
    "description": "An id, an exact name, or an unambiguous beginning of an id.",
}
METADATA: Final[Schema] = {"type": ["object", "null"], "description": "Whatever you like to keep."}
MAP: Final[Schema] = {"type": ["object", "null"]}
TEXT: Final[Schema] = {"type": ["string", "null"], "maxLength": 255}
BOOLEAN: Final[Schema] = {
    "type": ["boolean", "string", "null"],
    "pattern": BOOLEAN_PATTERN,
    "description": "`true` or `false`, also as text.",
}


def maybe(schema: Schema, text: str = "") -> Schema:
    """Return the schema of a key that may be absent or null."""
    described = {"description": text} if text else {}
    return {**schema, "type": [schema["type"], "null"], **described}


def number(least: int, text: str = "", most: int = INT_MAX) -> Schema:
    """Return the schema of a whole number, which may come as text."""
    return {
        "type": ["integer", "string", "null"],
        "pattern": NUMBER_PATTERN,
        "minimum": least,
        "maximum": most,
        **({"description": text} if text else {}),
    }


def shape(required: tuple[str, ...] = (), /, **properties: Schema) -> Schema:
    """Return the schema of an object without other keys than these."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


SPEC: Final[Schema] = {
    "type": "object",
    "description": "Type, version and properties; GET of the type shows which there are.",
    "properties": {
        "type": {"type": "string", "minLength": 1, "maxLength": 200},
        "version": {"type": ["string", "number"], "maxLength": 20},
        "properties": {"type": ["object", "null"]},
    },
    "required": ["type", "version"],
}

PROFILE_CREATE: Final = shape(("name", "spec"), name=NAME, spec=SPEC, metadata=METADATA)
PROFILE_UPDATE: Final = shape(name=maybe(NAME), metadata=METADATA)
VALIDATE: Final = shape(("spec",), spec=SPEC)
POLICY_CREATE: Final = shape(("name", "spec"), name=NAME, spec=SPEC)
POLICY_UPDATE: Final = shape(("name",), name=NAME)

CAPACITY_TEXT: Final = "How many nodes it shall have; `min_size`, else 0, if left out."
CLUSTER_CREATE: Final = shape(
    ("name", "profile_id"),
    name=NAME,
    profile_id=IDENTITY,
    desired_capacity=number(0, CAPACITY_TEXT),
    min_size=number(0, "It never has fewer nodes; 0 if left out."),
    max_size=number(-1, "It never has more nodes; -1, no limit, if left out."),
    metadata=METADATA,
    timeout=number(0, "Seconds that one of its actions may take; 3600 if left out."),
    config={
        **MAP,
        "description": "`node.name.format`: `$3I` is the index in three digits, `$8R` and `$8r` are"
        " random text.",
    },
)
CLUSTER_UPDATE: Final = shape(
    name=maybe(NAME),
    profile_id=maybe(IDENTITY),
    metadata=METADATA,
    timeout=number(0),
    profile_only={**BOOLEAN, "description": "Change the nodes' profile and nothing else (1.6)."},
    config=MAP,
)
FORCE: Final = shape(force={**BOOLEAN, "description": "Also while something else is going on."})

NODE_CREATE: Final = shape(
    ("name", "profile_id"),
    name=NAME,
    profile_id=IDENTITY,
    cluster_id={**TEXT, "description": "Its cluster; the name is then made by the cluster."},
    role=TEXT,
    metadata=METADATA,
)
NODE_UPDATE: Final = shape(
    name=maybe(NAME),
    profile_id=maybe(IDENTITY),
    role=TEXT,
    metadata=METADATA,
    tainted={**BOOLEAN, "description": "Among the first to go when the cluster shrinks (1.13)."},
)
ADOPT_TYPE: Final[Schema] = {
    "type": "string",
    "minLength": 1,
    "maxLength": 255,
    "description": "`NAME-VERSION` of a profile type.",
}
NODE_ADOPT: Final = shape(
    ("identity", "type"),
    identity={**IDENTITY, "description": "The backend's own id of what is to be adopted."},
    type=ADOPT_TYPE,
    name=maybe(NAME),
    role=TEXT,
    metadata=METADATA,
    overrides={**MAP, "description": "Properties of the profile that replace what was found."},
    snapshot=BOOLEAN,
)
NODE_PREVIEW: Final = shape(
    ("identity", "type"),
    identity=IDENTITY,
    type=ADOPT_TYPE,
    overrides=MAP,
    snapshot=BOOLEAN,
)

ACTION_UPDATE: Final = shape(
    ("status",), status={"type": "string", "description": "`CANCELLED` is all there is to ask."}
)
