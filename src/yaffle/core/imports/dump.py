"""Converts a dump of Senlin's tables to the shapes of its API.

Known are the API's lists (`{"profiles": [...], ...}`) and Senlin's tables as rows by column name
(`{"profile": [...], ...}`), whose JSON columns may be texts and whose booleans may be 0 and 1.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from yaffle.errors import InvalidSpec

Row = Mapping[str, object]

ORDER: Final = ("profiles", "policies", "clusters", "nodes", "cluster_policies", "receivers")
"""The API's names, each after what it refers to."""
TABLES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "profile": "profiles",
        "policy": "policies",
        "cluster": "clusters",
        "node": "nodes",
        "cluster_policy": "cluster_policies",
        "receiver": "receivers",
    }
)
OTHER_TABLES: Final = frozenset(
    {
        "action",
        "cluster_lock",
        "credential",
        "dependency",
        "event",
        "health_registry",
        "node_lock",
        "service",
    }
)
"""Senlin's tables that say nothing about what is to be taken over; left alone without a word."""
RENAMED: Final[Mapping[str, str]] = MappingProxyType({"meta_data": "metadata"})
JSON_COLUMNS: Final = frozenset(
    {"spec", "meta_data", "data", "config", "dependents", "actor", "params", "channel", "context"}
)
FLAGS: Final = frozenset({"enabled", "tainted"})


def shaped(document: object) -> dict[str, list[Row]]:
    """Return the lists of the API by name; raise InvalidSpec naming what is neither shape."""
    if not isinstance(document, Mapping):
        raise InvalidSpec("the dump is no JSON object; see docs/howto/migrate-from-senlin.md")
    found: dict[str, list[Row]] = {name: [] for name in ORDER}
    problems: list[str] = []
    for key, rows in document.items():
        name = TABLES.get(key, key)
        if name in found and _is_rows(rows):
            found[name] += [_columns(row) for row in rows] if key in TABLES else rows
        elif name in found:
            problems.append(f"{key}: it is no list of objects")
        elif key not in OTHER_TABLES:
            known = ", ".join((*ORDER, *TABLES))
            problems.append(f"{key}: unknown; known are {known}")
    if problems:
        raise InvalidSpec(problems)
    return found


def _is_rows(rows: object) -> bool:
    return isinstance(rows, list) and all(isinstance(row, Mapping) for row in rows)


def _columns(row: Row) -> Row:
    """Return one row of a table as the API would show it."""
    return {RENAMED.get(key, key): _value(key, value) for key, value in row.items()}


def _value(column: str, value: object) -> object:
    if column in JSON_COLUMNS and isinstance(value, str):
        try:
            return json.loads(value) if value else {}
        except ValueError:
            # Left as it is: the reader of the object names it with its place.
            return value
    if column in FLAGS and value in (0, 1, "0", "1"):
        return value in (1, "1")
    return value
