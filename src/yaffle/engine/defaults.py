"""What holds for a cluster that has no health policy: nothing is detected, requests are obeyed."""

from __future__ import annotations

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


def without_policy(interval_s: float) -> HealthPolicy:
    """Return what holds for a cluster with no health policy: nothing detected, requests obeyed."""
    return HealthPolicy(
        version="none",
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
