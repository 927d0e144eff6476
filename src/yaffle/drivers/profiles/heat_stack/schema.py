"""Schema of a stack's properties for people, in Senlin's shape; `spec.py` is the judge."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from yaffle.model.properties import Schema, SchemaNode, ValueType


def _map(description: str) -> SchemaNode:
    return SchemaNode(type=ValueType.MAP, description=description, updatable=True)


SCHEMA: Final[Schema] = MappingProxyType(
    {
        "context": SchemaNode(
            type=ValueType.MAP,
            description="Senlin's security context; must be empty, the cloud is in the settings.",
        ),
        "template": _map("The template; this or template_url."),
        "template_url": SchemaNode(
            type=ValueType.STRING,
            description="Where Heat fetches the template, each time anew.",
            updatable=True,
        ),
        "parameters": _map("Values for the template's parameters."),
        "files": _map("Contents of the files that the template or the environment names."),
        "timeout": SchemaNode(
            type=ValueType.INTEGER,
            description="Minutes that Heat may take to make or update it.",
            updatable=True,
        ),
        "disable_rollback": SchemaNode(
            type=ValueType.BOOLEAN,
            description="Whether what has failed is left as it is, instead of being taken back.",
            default=True,
            updatable=True,
        ),
        "environment": _map("Its environment: parameters, defaults, resource registry."),
    }
)
