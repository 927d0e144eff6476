"""Policy documents: read, judged and explained before anything is watched (design/policies)."""

from __future__ import annotations

from yaffle.policy.arithmetic import Arithmetic, arithmetic
from yaffle.policy.document import ALL_KINDS, ALL_MODES, ParsedPolicy, Policy, parse, parse_document
from yaffle.policy.faults import UnknownPolicyType
from yaffle.policy.operations import caveats, check_operations
from yaffle.policy.settings import (
    DEFAULT_SETTINGS,
    KNOWN,
    NEWEST,
    POLICY_TYPE,
    VERSIONS,
    DocumentSettings,
)

__all__ = [
    "parse",
    "parse_document",
    "ParsedPolicy",
    "Policy",
    "UnknownPolicyType",
    "caveats",
    "check_operations",
    "arithmetic",
    "Arithmetic",
    "DocumentSettings",
    "DEFAULT_SETTINGS",
    "ALL_MODES",
    "ALL_KINDS",
    "POLICY_TYPE",
    "VERSIONS",
    "KNOWN",
    "NEWEST",
]
