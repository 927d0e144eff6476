"""The default for a cluster without a health policy: no detection, requests are carried out."""

from __future__ import annotations

from typing import Final

from yaffle.model.policy import (
    Conditional,
    Detection,
    HealthPolicy,
    Limits,
    Recovery,
    RecoveryAction,
    RecoveryMode,
    Retry,
    Threshold,
    WhenExceeded,
)

NONE: Final = "none"
"""The version of what holds where there is no policy."""


def unread(policy: HealthPolicy, policy_id: str) -> bool:
    """Whether there is a policy that could not be read: another thing than that there is none."""
    return policy.version == NONE and bool(policy_id)


def without_policy(interval_s: float) -> HealthPolicy:
    """Return what holds for a cluster with no health policy: nothing detected, requests obeyed."""
    return HealthPolicy(
        version=NONE,
        detection=Detection(
            interval_s=interval_s,
            node_update_timeout_s=0.0,
            grace_ends_early=True,
            conditional=Conditional.ANY_FAILED,
            rise=1,
            fall=1,
            confirm_status=False,
            modes=(),
        ),
        recovery=Recovery(
            mode=RecoveryMode.RECOVER,
            actions=(RecoveryAction(name="RECREATE"),),
            fencing=(),
            node_delete_timeout_s=20.0,
            node_force_recreate=False,
            limits=Limits(
                max_unhealthy=Threshold(percent=40.0),
                when_exceeded=WhenExceeded.HOLD,
                max_in_flight=2,
                domain=None,
            ),
            retry=Retry(attempts=3, backoff_s=60, max_backoff_s=3600, stable_after_s=600),
        ),
    )
