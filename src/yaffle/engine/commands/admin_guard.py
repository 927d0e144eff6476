"""Refuses what runs programs on this machine to all but administrators (design/interfaces).

A profile of local processes names a command, a COMMAND workflow names one of the operator's: both
run as Yaffle's own user. Once an administrator has made the profile or policy, members use it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yaffle.engine.runtime.context import LOCAL_PROCESS
from yaffle.model.authz import Right, need
from yaffle.model.policy import HealthPolicy, RungKind

if TYPE_CHECKING:
    from yaffle.model.authz import Principal
    from yaffle.policy import ParsedPolicy


def may_build(who: Principal, profile_type: str) -> None:
    """Raise Forbidden for somebody who may not make profiles of that type."""
    if profile_type == LOCAL_PROCESS:
        need(who, Right.ADMIN)


def may_run(who: Principal, parsed: ParsedPolicy) -> None:
    """Raise Forbidden for somebody who may not have a policy run what this one runs."""
    policy = parsed.policy
    if isinstance(policy, HealthPolicy) and any(
        action.kind is RungKind.COMMAND for action in policy.recovery.actions
    ):
        need(who, Right.ADMIN)
