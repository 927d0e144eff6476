"""Schema of a server's properties for people, in Senlin's shape; `spec.py` is the judge."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from yaffle.drivers.profiles.nova_server.operations.network_update import changeable
from yaffle.drivers.profiles.nova_server.spec import BLOCK_DEVICE_KEYS, NETWORK_KEYS
from yaffle.model.properties import ITEM, Schema, SchemaNode, ValueType

_INTEGERS: Final = ("boot_index", "volume_size")


def _text(description: str, *, required: bool = False, updatable: bool = False) -> SchemaNode:
    return SchemaNode(
        type=ValueType.STRING, description=description, required=required, updatable=updatable
    )


def _block_device(key: str) -> SchemaNode:
    if key == "delete_on_termination":
        return SchemaNode(type=ValueType.BOOLEAN)
    return SchemaNode(type=ValueType.INTEGER if key in _INTEGERS else ValueType.STRING)


SCHEMA: Final[Schema] = MappingProxyType(
    {
        "context": SchemaNode(
            type=ValueType.MAP,
            description="Senlin's security context; must be empty, the cloud is in the settings.",
        ),
        "admin_pass": _text("Password of the administrator of the server."),
        "auto_disk_config": SchemaNode(
            type=ValueType.BOOLEAN,
            description="Whether the disk becomes one partition as large as the flavor's.",
            default=True,
        ),
        "availability_zone": _text("Where it is to run."),
        "block_device_mapping_v2": SchemaNode(
            type=ValueType.LIST,
            description="Volumes and images to boot from and to attach, as Nova names them.",
            schema={
                ITEM: SchemaNode(
                    type=ValueType.MAP,
                    schema={key: _block_device(key) for key in BLOCK_DEVICE_KEYS},
                )
            },
        ),
        "config_drive": SchemaNode(
            type=ValueType.BOOLEAN, description="Whether it gets a drive with its metadata."
        ),
        "flavor": _text("Id or name of its size.", required=True, updatable=True),
        "image": _text("Id or name of what it boots from.", updatable=True),
        "key_name": _text("Name of the key pair that may log in."),
        "metadata": SchemaNode(
            type=ValueType.MAP,
            description="Names and texts; Yaffle adds its own, which start with cluster_ and yaffle_.",
            updatable=True,
        ),
        "name": _text("Name of the server; that of the node unless given.", updatable=True),
        "networks": SchemaNode(
            type=ValueType.LIST,
            description='What it is connected to: a list, or the word "auto" or "none".',
            default="auto",
            updatable=True,
            changeable=changeable,
            schema={
                ITEM: SchemaNode(
                    type=ValueType.MAP,
                    schema={key: SchemaNode(type=ValueType.STRING) for key in NETWORK_KEYS},
                )
            },
        ),
        "personality": SchemaNode(
            type=ValueType.LIST,
            description="Files that are put into it.",
            schema={
                ITEM: SchemaNode(
                    type=ValueType.MAP,
                    schema={
                        "path": SchemaNode(type=ValueType.STRING, required=True),
                        "contents": SchemaNode(type=ValueType.STRING, required=True),
                    },
                )
            },
        ),
        "scheduler_hints": SchemaNode(
            type=ValueType.MAP, description="Wishes for where it is to run."
        ),
        "security_groups": SchemaNode(
            type=ValueType.LIST,
            description="Names of security groups.",
            schema={ITEM: SchemaNode(type=ValueType.STRING)},
        ),
        "user_data": _text("What the server reads when it boots first."),
    }
)
