"""The types of policy that are served here: versions, since when, priority, one per cluster or many.

Names, priorities and standing are Senlin's; version 1.3 of the health policy is our own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from yaffle.errors import NotFound
from yaffle.policy.settings import BATCH_TYPE, DELETION_TYPE, KNOWN, POLICY_TYPE, SCALING_TYPE
from yaffle.policy.type_schema import schema_of


@dataclass(frozen=True, slots=True)
class Support:
    """Standing of a version, and since when."""

    status: str
    """EXPERIMENTAL or SUPPORTED."""
    since: str
    """A release of Senlin, year and month; of our own versions the first release of ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyType:
    """One version of one type."""

    type: str
    version: str
    support: tuple[Support, ...]

    @property
    def name(self) -> str:
        """The type's name as the API spells it, e.g. `senlin.policy.health-1.2`."""
        return f"{self.type}-{self.version}"

    def schema(self) -> dict[str, object]:
        """Return Senlin's description of `properties`, made from what documents are judged by."""
        return schema_of(self.type, self.version)


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """The part that all versions of a type share."""

    priority: int
    """Policies of one cluster have their say in this order, the lowest first."""
    singleton: bool
    """Whether a cluster has one of them at most."""


FAMILIES: Final[Mapping[str, Family]] = MappingProxyType(
    {
        SCALING_TYPE: Family(priority=100, singleton=False),
        BATCH_TYPE: Family(priority=200, singleton=True),
        DELETION_TYPE: Family(priority=400, singleton=True),
        POLICY_TYPE: Family(priority=600, singleton=True),
    }
)
_SUPPORTED: Final = "SUPPORTED"
_EXPERIMENTAL: Final = "EXPERIMENTAL"
_SUPPORT: Final[Mapping[tuple[str, str], tuple[Support, ...]]] = {
    (BATCH_TYPE, "1.0"): (Support(_EXPERIMENTAL, "2017.02"),),
    (DELETION_TYPE, "1.0"): (Support(_SUPPORTED, "2016.04"),),
    (DELETION_TYPE, "1.1"): (Support(_SUPPORTED, "2018.01"),),
    (POLICY_TYPE, "1.0"): (Support(_EXPERIMENTAL, "2017.02"), Support(_SUPPORTED, "2018.06")),
    (POLICY_TYPE, "1.1"): (Support(_SUPPORTED, "2018.09"),),
    (POLICY_TYPE, "1.2"): (Support(_SUPPORTED, "2020.09"),),
    (POLICY_TYPE, "1.3"): (Support(_SUPPORTED, "2026.11"),),
    (SCALING_TYPE, "1.0"): (Support(_SUPPORTED, "2016.04"),),
}
TYPES: Final = tuple(
    PolicyType(type=kind, version=version, support=_SUPPORT[kind, version])
    for kind, versions in KNOWN.items()
    for version in versions
)
"""By name and version."""


def find(name: str) -> PolicyType:
    """Return the type called `senlin.policy.health-1.2`; raise NotFound."""
    for found in TYPES:
        if found.name == name:
            return found
    raise NotFound(
        f"The policy_type '{name}' could not be found.",
        hint=f"known: {', '.join(t.name for t in TYPES)}",
    )


def family_of(type_name: str) -> Family:
    """Return what is shared by a type, given with or without its version; raise NotFound."""
    kind = type_name.partition("-")[0]
    if kind not in FAMILIES:
        raise NotFound(f"The policy_type '{type_name}' could not be found.")
    return FAMILIES[kind]


def versions_of(kind: str) -> tuple[PolicyType, ...]:
    """Return all versions of a type, the oldest first; none for a type that is not known."""
    return tuple(found for found in TYPES if found.type == kind)
