"""Bounds on documents that strangers send, and the versions we know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

POLICY_TYPE: Final = "senlin.policy.health"
VERSIONS: Final = ("1.0", "1.1", "1.2", "1.3")
NEWEST: Final = VERSIONS[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentSettings:
    """What an installation may tune about documents; durations in seconds."""

    interval_min_s: float = 1.0
    """Senlin's default is 60 (contracts/health-policy §9)."""
    max_bytes: int = 256 * 1024
    max_depth: int = 32
    max_values: int = 20_000
    """Counted after aliases are followed, so that an alias bomb stays small."""


DEFAULT_SETTINGS: Final = DocumentSettings()
