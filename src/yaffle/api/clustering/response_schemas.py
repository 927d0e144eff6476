"""JSON Schemas of answers with examples; a test compares real answers with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

Schema = Mapping[str, Any]

STRING: Final[Schema] = {"type": "string"}
MAYBE: Final[Schema] = {"type": ["string", "null"]}
INTEGER: Final[Schema] = {"type": "integer"}
BOOLEAN: Final[Schema] = {"type": "boolean"}
SECONDS: Final[Schema] = {"type": ["number", "null"], "description": "Seconds since 1970."}
MAP: Final[Schema] = {"type": "object"}
MAYBE_MAP: Final[Schema] = {"type": ["object", "null"]}
IDS: Final[Schema] = {"type": "array", "items": STRING}
OWNER: Final[Schema] = {"user": STRING, "project": STRING, "domain": MAYBE}
TIMES: Final[Schema] = {"created_at": MAYBE, "updated_at": MAYBE}


def thing(properties: Schema, *may_lack: str) -> Schema:
    """Return the schema of an object that always has every key but `may_lack`."""
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in may_lack],
        "additionalProperties": False,
    }


def single(key: str, schema: Schema) -> Schema:
    """Return the schema of an answer with one object."""
    return thing({key: schema})


def listed(key: str, schema: Schema) -> Schema:
    """Return the schema of an answer with a list."""
    return thing({key: {"type": "array", "items": schema}})


PROFILE: Final = thing(
    {
        "id": MAYBE,
        "name": STRING,
        "type": STRING,
        "spec": MAP,
        "metadata": MAYBE_MAP,
        **OWNER,
        **TIMES,
    }
)
POLICY: Final = thing(
    {"id": MAYBE, "name": STRING, "type": STRING, "spec": MAP, "data": MAP, **OWNER, **TIMES}
)
CLUSTER: Final = thing(
    {
        "id": STRING,
        "name": STRING,
        "profile_id": STRING,
        "profile_name": STRING,
        **OWNER,
        "init_at": STRING,
        **TIMES,
        "min_size": INTEGER,
        "max_size": INTEGER,
        "desired_capacity": INTEGER,
        "timeout": INTEGER,
        "status": STRING,
        "status_reason": STRING,
        "metadata": MAP,
        "data": MAP,
        "dependents": MAP,
        "config": MAP,
        "nodes": IDS,
        "policies": IDS,
    }
)
NODE: Final = thing(
    {
        "id": STRING,
        "name": STRING,
        "cluster_id": {**STRING, "description": "Empty for a node without a cluster."},
        "physical_id": MAYBE,
        "profile_id": STRING,
        "profile_name": STRING,
        **OWNER,
        "index": {**INTEGER, "description": "-1 for a node without a cluster."},
        "role": STRING,
        "init_at": STRING,
        **TIMES,
        "status": STRING,
        "status_reason": STRING,
        "data": MAP,
        "metadata": MAP,
        "dependents": MAP,
        "tainted": {**BOOLEAN, "description": "From 1.13 on."},
        "details": {**MAP, "description": "What the backend says; with `show_details` only."},
        "health": {
            **STRING,
            "description": "What Yaffle believes: initializing, healthy, suspect, unhealthy, unknown.",
        },
        "backend_status": {**STRING, "description": "The backend's own word."},
    },
    "tainted",
    "details",
)
ACTION: Final = thing(
    {
        "id": STRING,
        "name": STRING,
        "action": STRING,
        "target": STRING,
        "cluster_id": {**STRING, "description": "From 1.14 on."},
        "cause": STRING,
        "owner": MAYBE,
        "interval": INTEGER,
        "start_time": SECONDS,
        "end_time": SECONDS,
        "timeout": INTEGER,
        "status": STRING,
        "status_reason": STRING,
        "inputs": MAP,
        "outputs": MAP,
        "depends_on": IDS,
        "depended_by": IDS,
        **TIMES,
        "data": MAP,
        "user": STRING,
        "project": STRING,
    },
    "cluster_id",
)
STARTED: Final = single("action", {**STRING, "description": "The id of the action that does it."})
EVENT: Final = thing(
    {
        "id": STRING,
        "timestamp": STRING,
        "oid": STRING,
        "oname": STRING,
        "otype": STRING,
        "cluster_id": STRING,
        "level": STRING,
        "user": STRING,
        "project": STRING,
        "action": STRING,
        "status": STRING,
        "status_reason": STRING,
        "meta_data": MAP,
    }
)
BINDING: Final = thing(
    {
        "id": STRING,
        "cluster_id": STRING,
        "cluster_name": STRING,
        "policy_id": STRING,
        "policy_name": STRING,
        "policy_type": STRING,
        "enabled": BOOLEAN,
        "priority": INTEGER,
        "data": MAP,
        "last_op": MAYBE,
    }
)
ATTRIBUTE: Final = thing({"id": STRING, "value": {"description": "Whatever the path leads to."}})
SERVICE: Final = thing(
    {
        "id": STRING,
        "binary": STRING,
        "host": STRING,
        "topic": STRING,
        "status": STRING,
        "state": {**STRING, "enum": ["up", "down"]},
        "disabled_reason": MAYBE,
        "updated_at": STRING,
    }
)
REVISION: Final = thing({"revision": STRING})
BUILD_INFO: Final = single("build_info", thing({"api": REVISION, "engine": REVISION}))
TYPE_ITEM: Final = thing(
    {
        "name": STRING,
        "version": {**STRING, "description": "From 1.5 on; before, it ends the name."},
        "support_status": {**MAP, "description": "From 1.5 on."},
    },
    "version",
    "support_status",
)
TYPE: Final = thing(
    {
        "name": STRING,
        "schema": {**MAP, "description": "By property: type, required, default, updatable, …"},
        "support_status": {**MAP, "description": "From 1.5 on."},
    },
    "support_status",
)
OPERATIONS: Final = single(
    "operations", {**MAP, "description": "By operation: `description` and `parameters`."}
)
NULL: Final[Schema] = {"type": "null"}
