"""A valid deletion, scaling or batch document to its policy, and back to a full document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias, assert_never

from yaffle.model.cluster_policies import (
    Adjustment,
    BatchPolicy,
    DeletionPolicy,
    Hook,
    ScalingPolicy,
)
from yaffle.policy import cluster_schema as schema
from yaffle.policy.cluster_rules import hooks_of
from yaffle.policy.settings import BATCH_TYPE, DELETION_TYPE, SCALING_TYPE

ClusterPolicy: TypeAlias = DeletionPolicy | ScalingPolicy | BatchPolicy


def build(spec: schema.ClusterDocument, version: str) -> ClusterPolicy:
    """Return the policy that `spec` means."""
    match spec:
        case schema.DeletionDocument():
            return _deletion(spec.properties, version)
        case schema.ScalingDocument():
            return _scaling(spec.properties, version)
        case schema.BatchDocument():
            return _batch(spec.properties, version)
        case _:
            assert_never(spec)


def _deletion(spec: schema.DeletionSpec, version: str) -> DeletionPolicy:
    return DeletionPolicy(
        version=version,
        criteria=spec.criteria,
        destroy_after_deletion=spec.destroy_after_deletion,
        grace_period_s=spec.grace_period,
        reduce_desired_capacity=spec.reduce_desired_capacity,
        hook=_hook(hooks_of(spec)),
    )


def _hook(spec: schema.HooksSpec | None) -> Hook | None:
    if spec is None:
        return None
    params = spec.params or schema.HookParamsSpec()
    return Hook(type=spec.type, url=params.url, timeout_s=spec.timeout)


def _scaling(spec: schema.ScalingSpec, version: str) -> ScalingPolicy:
    given = spec.adjustment or schema.AdjustmentSpec()
    adjustment = Adjustment(
        type=given.type,
        number=given.number,
        min_step=given.min_step,
        best_effort=given.best_effort,
        cooldown_s=given.cooldown,
    )
    return ScalingPolicy(version=version, event=spec.event, adjustment=adjustment)


def _batch(spec: schema.BatchSpec, version: str) -> BatchPolicy:
    return BatchPolicy(
        version=version,
        min_in_service=spec.min_in_service,
        max_batch_size=spec.max_batch_size,
        pause_s=spec.pause_time,
    )


# --- Back to a document ---


def as_document(policy: ClusterPolicy, title: Mapping[str, str | None]) -> dict[str, object]:
    """Return the full document; parsing it again gives the same policy.

    `title` holds name and description where the author gave them.
    """
    head = {key: text for key, text in title.items() if text is not None}
    kind, properties = _properties_out(policy)
    return {"type": kind, "version": policy.version, **head, "properties": properties}


def _properties_out(policy: ClusterPolicy) -> tuple[str, dict[str, object]]:
    match policy:
        case DeletionPolicy():
            return DELETION_TYPE, _deletion_out(policy)
        case ScalingPolicy():
            adjustment = policy.adjustment
            return SCALING_TYPE, {
                "event": policy.event.value,
                "adjustment": {
                    "type": adjustment.type.value,
                    "number": _plain(adjustment.number),
                    "min_step": adjustment.min_step,
                    "best_effort": adjustment.best_effort,
                    "cooldown": adjustment.cooldown_s,
                },
            }
        case BatchPolicy():
            return BATCH_TYPE, {
                "min_in_service": policy.min_in_service,
                "max_batch_size": policy.max_batch_size,
                "pause_time": policy.pause_s,
            }
        case _:
            assert_never(policy)


def _deletion_out(policy: DeletionPolicy) -> dict[str, object]:
    out: dict[str, object] = {
        "criteria": policy.criteria.value,
        "destroy_after_deletion": policy.destroy_after_deletion,
        "grace_period": policy.grace_period_s,
        "reduce_desired_capacity": policy.reduce_desired_capacity,
    }
    if (hook := policy.hook) is not None:
        params = {"url": hook.url}
        out["hooks"] = {"type": hook.type.value, "params": params, "timeout": hook.timeout_s}
    return out


def _plain(number: float) -> int | float:
    return int(number) if number == int(number) else number
