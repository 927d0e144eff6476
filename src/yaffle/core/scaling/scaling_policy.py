"""A scaling policy's answer to a request: how many nodes, not now, or never and why.

The policy speaks where its event is the request's; the cool-down counts from the last scaling in
either direction (Senlin stamps `last_op` of every scaling policy of the cluster after each).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, assert_never

from yaffle.core.scaling.sizes import CEILING, Fault, Sizes, check, share
from yaffle.model.cluster_policies import AdjustmentType, ScalingEvent, ScalingPolicy

_SECOND_US: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaled:
    """The request may go on: `count` nodes come or go; 0 where best effort found no room."""

    count: int
    sizes: Sizes


@dataclass(frozen=True, slots=True, kw_only=True)
class Cooling:
    """Refused for now: the last scaling was too recent."""

    until_us: int


def propose(
    policy: ScalingPolicy,
    sizes: Sizes,
    *,
    wanted: int | None,
    last_op_us: int | None,
    now_us: int,
    ceiling: int = CEILING,
) -> Scaled | Cooling | Fault:
    """Return what the policy makes of a request for `wanted` nodes (None: as many as it says)."""
    cooling = cooling_down(policy, last_op_us=last_op_us, now_us=now_us)
    if cooling is not None:
        return cooling
    asked = count_of(policy, sizes.desired) if wanted is None else wanted
    count = int(asked)
    if count <= 0:
        return Fault(f"Invalid count ({asked:g}) for action '{policy.event}'.")
    if policy.adjustment.best_effort:
        count = min(count, _room(policy.event, sizes, ceiling))
    change = -count if policy.event is ScalingEvent.CLUSTER_SCALE_IN else count
    desired = sizes.desired + change
    fault = check(sizes, desired=desired, ceiling=ceiling) if count else None
    if fault is not None:
        return fault
    after = Sizes(desired=desired, min_size=sizes.min_size, max_size=sizes.max_size)
    return Scaled(count=count, sizes=after)


def cooling_down(policy: ScalingPolicy, *, last_op_us: int | None, now_us: int) -> Cooling | None:
    """Return until when the policy refuses to scale again."""
    cooldown_us = policy.adjustment.cooldown_s * _SECOND_US
    # A last time further ahead than that was written by a clock since set back: not believed.
    if last_op_us is None or abs(now_us - last_op_us) >= cooldown_us:
        return None
    return Cooling(until_us=last_op_us + cooldown_us)


def count_of(policy: ScalingPolicy, desired: int) -> float:
    """Return how many nodes the policy adds or removes at this capacity, bounds not regarded."""
    adjustment = policy.adjustment
    match adjustment.type:
        case AdjustmentType.EXACT_CAPACITY:
            ahead = adjustment.number - desired
            return -ahead if policy.event is ScalingEvent.CLUSTER_SCALE_IN else ahead
        case AdjustmentType.CHANGE_IN_CAPACITY:
            return adjustment.number
        case AdjustmentType.CHANGE_IN_PERCENTAGE:
            return share(desired, adjustment.number, adjustment.min_step)
        case _:
            assert_never(adjustment.type)


def _room(event: ScalingEvent, sizes: Sizes, ceiling: int) -> int:
    if event is ScalingEvent.CLUSTER_SCALE_IN:
        return max(0, sizes.desired - sizes.min_size)
    top = ceiling if sizes.max_size < 0 else min(sizes.max_size, ceiling)
    return max(0, top - sizes.desired)
