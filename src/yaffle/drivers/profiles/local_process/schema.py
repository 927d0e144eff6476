"""Schema of a local process's properties for people; `spec.py` is the judge."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from yaffle.drivers.profiles.local_process.spec import DEFAULT_PORTS, EXPANSIONS
from yaffle.model.properties import ITEM, Schema, SchemaNode, ValueType

_FILLED: Final = ", ".join(f"{{{name}}}" for name in EXPANSIONS)

SCHEMA: Final[Schema] = MappingProxyType(
    {
        "command": SchemaNode(
            type=ValueType.LIST,
            description=f"The program and its arguments; no shell. Filled in: {_FILLED}.",
            required=True,
            schema={ITEM: SchemaNode(type=ValueType.STRING)},
        ),
        "env": SchemaNode(
            type=ValueType.MAP,
            description="Variables of its environment, filled in as the command is.",
            default={},
        ),
        "cwd": SchemaNode(
            type=ValueType.STRING,
            description="Where it runs; the node's own folder unless given.",
        ),
        "port": SchemaNode(
            type=ValueType.STRING,
            description='A number, or "auto"; needed where {port} is filled in.',
        ),
        "port_range": SchemaNode(
            type=ValueType.LIST,
            description='From where "auto" is taken: lowest and highest port.',
            default=list(DEFAULT_PORTS),
            schema={ITEM: SchemaNode(type=ValueType.INTEGER)},
        ),
        "node_ip": SchemaNode(
            type=ValueType.STRING,
            description="The address that {node_ip} stands for.",
            default="127.0.0.1",
        ),
        "log_file": SchemaNode(
            type=ValueType.STRING,
            description="Where its output goes; a file in the node's own folder unless given.",
        ),
        "stop_signal": SchemaNode(
            type=ValueType.STRING, description="What asks it to end.", default="TERM"
        ),
        "stop_timeout": SchemaNode(
            type=ValueType.NUMBER,
            description="How long it may take to end before it is killed (s).",
            default=10.0,
        ),
        "start_timeout": SchemaNode(
            type=ValueType.NUMBER,
            description="How long the way to the command may take (s).",
            default=10.0,
        ),
    }
)
"""Nothing is updatable: a process that runs cannot be given another command or environment."""
