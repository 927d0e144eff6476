"""Validates policy documents against this installation's drivers, policy types and rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yaffle import policy as documents
from yaffle.core.imports.planned import Document, Judge
from yaffle.engine.cluster_actions.policy_binding import missing_drivers
from yaffle.errors import Forbidden, InvalidSpec
from yaffle.model.policy import HealthPolicy
from yaffle.policy import UnknownPolicyType, check_operations
from yaffle.policy.catalogue import FAMILIES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from yaffle.core.imports.items import PolicyItem, ProfileItem
    from yaffle.engine.commands.context import CommandContext
    from yaffle.ports import Profile


class Installed:
    """Judges by what is installed here.

    `heard` before a transaction keeps drivers and long documents out of it.
    """

    def __init__(self, context: CommandContext) -> None:
        self._context = context
        self._profiles: dict[str, Mapping[str, object] | InvalidSpec | Forbidden] = {}
        self._policies: dict[str, Document | InvalidSpec] = {}

    def hear_profile(self, item: ProfileItem) -> None:
        """Judge a profile now."""
        try:
            driver = self._context.driver(item.type)
            self._profiles[item.origin.id] = driver.validate(item.properties)
        except (InvalidSpec, Forbidden) as error:
            self._profiles[item.origin.id] = error

    def hear_policy(self, item: PolicyItem) -> None:
        """Judge a policy now; may take a second for a long document, and may run in a thread."""
        try:
            parsed = documents.parse_document(dict(item.given))
            self._policies[item.origin.id] = Document(
                type=parsed.type_name, spec=parsed.document, warnings=parsed.warnings
            )
        except UnknownPolicyType as error:
            self._policies[item.origin.id] = InvalidSpec(error.problems)
        except InvalidSpec as error:
            self._policies[item.origin.id] = error

    def profile(self, item: ProfileItem) -> Mapping[str, object]:
        """Return the properties of a profile that was heard, with every default."""
        found = self._profiles[item.origin.id]
        if isinstance(found, (InvalidSpec, Forbidden)):
            raise found
        return found

    def policy(self, item: PolicyItem) -> Document:
        """Return a document that was heard, normalised."""
        found = self._policies[item.origin.id]
        if isinstance(found, InvalidSpec):
            raise found
        return found

    def is_singleton(self, family: str) -> bool:
        """Whether a cluster has at most one policy of that type."""
        known = FAMILIES.get(family)
        return known is None or known.singleton

    def binding(
        self, policy_type: str, spec: Mapping[str, object], profile_type: str
    ) -> Sequence[str]:
        """Return why a policy cannot work on clusters of that profile; nothing where it can."""
        try:
            driver = self._context.driver(profile_type)
        except (InvalidSpec, Forbidden) as error:
            return (str(error),)
        try:
            policy = documents.parse_document(dict(spec)).policy
        except (InvalidSpec, UnknownPolicyType) as error:
            # It is here already, and was written by a newer engine beside us.
            return error.problems
        return self._health(policy, driver) if isinstance(policy, HealthPolicy) else ()

    def _health(self, policy: HealthPolicy, driver: Profile) -> Sequence[str]:
        problems = [
            *check_operations(policy, driver.operations),
            *missing_drivers(self._context.ctx.drivers, policy),
        ]
        if policy.recovery.snapshot is not None and "SNAPSHOT" not in driver.operations:
            problems.append(f"recovery.snapshot: profile type {driver.type} cannot take snapshots")
        return problems


if TYPE_CHECKING:
    _conforms: type[Judge] = Installed
