"""Verbs of a stack: what can be asked of it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from yaffle.model.operations import OperationSpec, ParamSpec

CREATE, DELETE, UPDATE = "CREATE", "DELETE", "UPDATE"
STACK_UPDATE: Final = "STACK_UPDATE"

OPERATIONS: Final[Mapping[str, OperationSpec]] = MappingProxyType(
    {
        CREATE: OperationSpec(
            description="Make a new stack; refused while an older copy may be there that is not waived.",
            in_place=False,
        ),
        DELETE: OperationSpec(
            description="Delete it, and have it proved that the guests of its servers have ended.",
            in_place=True,
        ),
        UPDATE: OperationSpec(
            description="Give it another template, other parameters, files or environment.",
            in_place=True,
        ),
        STACK_UPDATE: OperationSpec(
            description="Mark its failed members unhealthy and update it, so that Heat replaces them.",
            # The stack stays. What is replaced does not run by Nova's word, or was given up by
            # somebody's; where Nova has lost the host of a server, the operation is refused.
            in_place=True,
            params=MappingProxyType(
                {
                    "resources": ParamSpec(
                        type=list,
                        description="Names or physical ids of members; those that failed unless given.",
                    )
                }
            ),
        ),
    }
)
