"""Types of profiles and policies as clients are shown them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from yaffle.model.operations import OperationKind, OperationSpec, ParamSpec
from yaffle.model.properties import TYPES, TypeName, allowed, shown
from yaffle.policy import catalogue

if TYPE_CHECKING:
    from yaffle.ports import Profile

SINCE: Final = "2026.11"
INNER: Final = frozenset({OperationKind.CREATE, OperationKind.DELETE, "UPDATE", "KILL"})
"""Operations that have a verb of their own, or belong to fencing alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A version of a type."""

    type: TypeName
    schema: Mapping[str, object]
    support: Mapping[str, object]
    """By version, what there is to say of it."""

    def item(self) -> dict[str, object]:
        """Return it as lists show it, from 1.5 on."""
        mine = {v: s for v, s in self.support.items() if v == self.type.version}
        return {"name": self.type.name, "version": self.type.version, "support_status": mine}


def profile_kinds(drivers: Mapping[str, Profile]) -> Mapping[str, Kind]:
    """Return the types of profiles by `NAME-VERSION`."""
    return {
        full: Kind(
            type=TypeName.of(full),
            schema=shown(driver.schema),
            support=TypeName.of(full).support(SINCE),
        )
        for full, driver in sorted(drivers.items())
    }


def policy_kinds() -> Mapping[str, Kind]:
    """Return the types of policies by `NAME-VERSION`."""
    return {
        found.name: Kind(
            type=TypeName(name=found.type, version=found.version),
            schema=found.schema(),
            support={
                one.version: [{"status": s.status, "since": s.since} for s in one.support]
                for one in catalogue.versions_of(found.type)
            },
        )
        for found in catalogue.TYPES
    }


def operations(declared: Mapping[str, OperationSpec]) -> dict[str, object]:
    """Return what nodes of a type can be asked for by name."""
    return {
        name.lower(): {
            "description": spec.description,
            "parameters": {key: _param(param) for key, param in spec.params.items()},
        }
        for name, spec in sorted(declared.items())
        if name not in INNER
    }


def _param(spec: ParamSpec) -> dict[str, object]:
    told: dict[str, object] = {
        "type": TYPES[spec.type].value,
        "required": spec.required,
        "description": spec.description,
    }
    if spec.default is not None:
        told["default"] = spec.default
    if spec.choices:
        told["constraints"] = [c.shown() for c in allowed(*spec.choices)]
    return told
