"""Bounds on documents that strangers send, and the types and versions we know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

POLICY_TYPE: Final = "senlin.policy.health"
VERSIONS: Final = ("1.0", "1.1", "1.2", "1.3")
"""Of the health policy."""
NEWEST: Final = VERSIONS[-1]
DELETION_TYPE: Final = "senlin.policy.deletion"
SCALING_TYPE: Final = "senlin.policy.scaling"
BATCH_TYPE: Final = "senlin.policy.batch"
KNOWN: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        BATCH_TYPE: ("1.0",),
        DELETION_TYPE: ("1.0", "1.1"),
        POLICY_TYPE: VERSIONS,
        SCALING_TYPE: ("1.0",),
    }
)
"""Every type of policy with its versions, the oldest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentSettings:
    """The settings of documents that an installation may tune; durations in seconds."""

    interval_min_s: float = 1.0
    """Senlin's default is 60 (contracts/health-policy#schema)."""
    max_bytes: int = 256 * 1024
    max_depth: int = 32
    max_values: int = 20_000
    """Counted after aliases are followed, so that an alias bomb stays small."""


DEFAULT_SETTINGS: Final = DocumentSettings()
