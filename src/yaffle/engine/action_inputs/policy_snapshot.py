"""The policy as it was when an action was admitted, frozen into the action's inputs.

A policy edited, detached or deleted meanwhile changes the next recovery, never a running one.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, replace

import msgspec

from yaffle.engine.action_inputs.default_policy import without_policy
from yaffle.errors import InvalidSpec
from yaffle.model.msgspec_init import prepared
from yaffle.model.policy import Detection, FencingKind, HealthPolicy, Recovery, RecoveryAction


@prepared
@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySnapshot:
    """Everything the executor needs of a policy, with what the request changed."""

    detection: Detection
    recovery: Recovery
    force: bool = False
    """A person asked: act even if the node looks healthy."""

    @classmethod
    def of(
        cls,
        policy: HealthPolicy,
        request: Mapping[str, object],
        *,
        in_place: Set[str],
        cure: str = "",
    ) -> PolicySnapshot:
        """Return the policy with the request's words over it: request, then policy, then default.

        `in_place`: operations that the profiles declare unable to make a second copy. `cure`: one of
        them, which undoes what is known to have happened; it is tried before the policy's own.
        """
        recovery = _consented(policy.recovery, request)
        if cure and cure in in_place and cure not in (a.name for a in recovery.actions[:1]):
            first = RecoveryAction(name=cure, timeout_s=CURE_S, in_place=True)
            recovery = replace(recovery, actions=(first, *recovery.actions))
        operation = request.get("operation")
        if isinstance(operation, str):
            params = _params(request)
            known = next((a for a in recovery.actions if a.name == operation.upper()), None)
            action = known or RecoveryAction(name=operation.upper())
            if params is not None:
                action = replace(action, params=params)
            rung = replace(action, in_place=action.name in in_place)
            recovery = replace(recovery, actions=(rung,))
        forced = bool(request) and not request.get("check", False)
        return cls(detection=policy.detection, recovery=recovery, force=forced)

    @classmethod
    def without_policy(cls, timeout_s: float) -> PolicySnapshot:
        """Return what creating and deleting go by: one bound, and no consent to anything."""
        policy = without_policy(timeout_s)
        return cls(
            detection=policy.detection,
            recovery=replace(policy.recovery, node_delete_timeout_s=timeout_s),
        )


CURE_S = 120.0
"""For a cure and its verification: it is cheap because it is quick."""
FENCE = "fence_compute"
"""A word among a request's params that is for us and not for the driver (Senlin's)."""


def _params(request: Mapping[str, object]) -> dict[str, object] | None:
    params = request.get("operation_params")
    if not isinstance(params, Mapping):
        return None
    return {key: value for key, value in params.items() if key != FENCE}


def _consented(recovery: Recovery, request: Mapping[str, object]) -> Recovery:
    """Return the policy's recovery with what a request says of deletion, proof and fence."""
    timeout_s, force = request.get("delete_timeout"), request.get("force_recreate")
    params = request.get("operation_params")
    if isinstance(timeout_s, int | float):
        recovery = replace(recovery, node_delete_timeout_s=float(timeout_s))
    if force is not None:
        recovery = replace(recovery, node_force_recreate=force is True)
    if isinstance(params, Mapping) and params.get(FENCE) is True:
        recovery = replace(recovery, fencing=recovery.fencing or (FencingKind.COMPUTE,))
    return recovery


def pack(snapshot: PolicySnapshot) -> dict[str, object]:
    """Return the snapshot as JSON-able values."""
    packed: dict[str, object] = msgspec.to_builtins(snapshot, enc_hook=dict)
    return packed


def unpack(values: object) -> PolicySnapshot:
    """Return the snapshot that `pack` made; raise InvalidSpec if the row was damaged."""
    try:
        return msgspec.convert(values, PolicySnapshot)
    except msgspec.ValidationError as error:
        raise InvalidSpec(f"the action's policy snapshot cannot be read: {error}") from error
