"""What runs programs on this very machine is for administrators alone (DESIGN §5).

A profile of local processes names a command, a COMMAND workflow names one of the operator's: both
run as Yaffle's own user. Once an administrator has made the profile or policy, members use it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yaffle.engine.kit import LOCAL_PROCESS
from yaffle.model.policy import ActionKind, HealthPolicy
from yaffle.model.rights import Right, need

if TYPE_CHECKING:
    from yaffle.model.rights import Who
    from yaffle.policy import ParsedPolicy


def may_build(who: Who, profile_type: str) -> None:
    """Raise Forbidden for somebody who may not make profiles of that type."""
    if profile_type == LOCAL_PROCESS:
        need(who, Right.ADMIN)


def may_run(who: Who, parsed: ParsedPolicy) -> None:
    """Raise Forbidden for somebody who may not have a policy run what this one runs."""
    policy = parsed.policy
    if isinstance(policy, HealthPolicy) and any(
        action.kind is ActionKind.COMMAND for action in policy.recovery.actions
    ):
        need(who, Right.ADMIN)
