"""Arithmetic of a cluster's size: limits, resize, scale-in and scale-out.

Refusals are `Fault`s with Senlin's sentences (contracts/clustering-api#sizes): a bound that
came with the request is "specified", one that the cluster already has is "the cluster's".
`max_size` -1 means no bound of the cluster's own; `ceiling` bounds every cluster.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor, isfinite
from typing import Final, assert_never

from yaffle.model.cluster_policies import AdjustmentType, ScalingEvent

UNLIMITED: Final = -1
CEILING: Final = 1000
"""Nodes per cluster at most, unless configured otherwise (Senlin's max_nodes_per_cluster)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Desired size of a cluster and the bounds of it."""

    desired: int
    min_size: int = 0
    max_size: int = UNLIMITED


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a request about sizes is refused, as one sentence for the caller."""

    text: str


def initial(
    desired: int | None = None,
    min_size: int | None = None,
    max_size: int | None = None,
    *,
    ceiling: int = CEILING,
) -> Sizes | Fault:
    """Return the sizes of a new cluster: it wants its minimum where nothing else is said."""
    wanted = desired if desired is not None else min_size or 0
    fault = check(
        Sizes(desired=0), desired=wanted, min_size=min_size, max_size=max_size, ceiling=ceiling
    )
    if fault is not None:
        return fault
    return Sizes(
        desired=wanted,
        min_size=min_size or 0,
        max_size=UNLIMITED if max_size is None else max_size,
    )


def check(
    current: Sizes,
    *,
    desired: int | None = None,
    min_size: int | None = None,
    max_size: int | None = None,
    ceiling: int = CEILING,
) -> Fault | None:
    """Return why the cluster cannot have these sizes; None for a size means that it stays."""
    text = (
        _bounds_fault(min_size, max_size, ceiling)
        or _target_fault(current, desired, min_size, max_size, ceiling)
        or _min_fault(current, desired, min_size, max_size)
        or _max_fault(current, desired, min_size, max_size)
    )
    return Fault(text) if text else None


def resize(
    current: Sizes,
    *,
    adjustment_type: AdjustmentType | str | None = None,
    number: float | None = None,
    min_size: int | None = None,
    max_size: int | None = None,
    min_step: int | None = None,
    strict: bool = True,
    ceiling: int = CEILING,
) -> Sizes | Fault:
    """Return the sizes after a resize; `strict=False` truncates into the bounds instead of refusing.

    `min_step` counts for percentages only. Raises ValueError for an unknown `adjustment_type`.
    """
    fault = request_fault(adjustment_type, number, min_size, max_size)
    if fault is not None:
        return fault
    desired: int | None = None
    if adjustment_type is not None and number is not None:
        desired = adjustment(current.desired, AdjustmentType(adjustment_type), number, min_step)
    bounds = Sizes(
        desired=current.desired,
        min_size=current.min_size if min_size is None else min_size,
        max_size=current.max_size if max_size is None else max_size,
    )
    if 0 <= bounds.max_size < bounds.min_size:
        desired = None  # the bounds contradict each other, and that is what is to be said
    elif not strict:
        desired = truncated(current.desired if desired is None else desired, bounds)
    fault = check(current, desired=desired, min_size=min_size, max_size=max_size, ceiling=ceiling)
    if fault is not None:
        return fault
    return Sizes(
        desired=current.desired if desired is None else desired,
        min_size=bounds.min_size,
        max_size=bounds.max_size,
    )


def scale(
    current: Sizes, count: int | None, event: ScalingEvent, *, ceiling: int = CEILING
) -> Sizes | Fault:
    """Return the sizes after scaling by `count` nodes (1 if None), where no scaling policy speaks.

    Senlin removes all nodes where more are to go than there are; here that is out of bounds, for a
    mistyped number must not empty a cluster.
    """
    wanted = 1 if count is None else count
    inwards = event is ScalingEvent.CLUSTER_SCALE_IN
    if wanted < 0:
        return Fault("Value must be >= 0 for field 'count'.")
    if wanted == 0:
        return Fault(f"Count for scale-{'in' if inwards else 'out'} request cannot be 0.")
    desired = current.desired + (-wanted if inwards else wanted)
    fault = check(current, desired=desired, ceiling=ceiling)
    return fault or Sizes(desired=desired, min_size=current.min_size, max_size=current.max_size)


def adjustment(
    desired: int, kind: AdjustmentType, number: float, min_step: int | None = None
) -> int:
    """Return the capacity that an adjustment asks for, bounds not regarded."""
    match kind:
        case AdjustmentType.EXACT_CAPACITY:
            return int(number)
        case AdjustmentType.CHANGE_IN_CAPACITY:
            return desired + int(number)
        case AdjustmentType.CHANGE_IN_PERCENTAGE:
            return desired + share(desired, number, min_step or 0)
        case _:
            assert_never(kind)


def truncated(desired: int, bounds: Sizes) -> int:
    """Return the capacity nearest to `desired` within the bounds."""
    capped = desired if bounds.max_size < 0 else min(desired, bounds.max_size)
    return max(capped, bounds.min_size)


def share(desired: int, percent: float, min_step: int) -> int:
    """Return a percentage as a change in nodes, at least `min_step`.

    Less than one node counts as one; of more the fraction is cut off.
    """
    # Exact, for 18.4 % of 375 is 69 and not the 68 that binary fractions make of it.
    delta = Fraction(str(percent)) * desired / 100
    if abs(delta) < 1:
        change = ceil(delta) if delta > 0 else floor(delta)
    else:
        change = floor(delta) if delta > 0 else ceil(delta)
    if percent == 0 or abs(change) >= min_step:
        return change
    # By the sign of the request: a share of no nodes at all is 0, and growth must not shrink.
    return min_step if percent > 0 else -min_step


def request_fault(
    adjustment_type: object, number: object, min_size: object, max_size: object
) -> Fault | None:
    """Return why a request to resize says nothing, or half of what it means, whatever the cluster.

    Types are not checked: `number` may be anything that is no number.
    """
    if adjustment_type is None and number is not None:
        return Fault("Missing adjustment_type value for size adjustment.")
    if adjustment_type is not None and number is None:
        return Fault("Missing number value for size adjustment.")
    if adjustment_type is None and min_size is None and max_size is None:
        return Fault("Not enough parameters to do resize action.")
    if not isinstance(number, (int, float)):
        return None
    # Whole numbers are finite, and may be too large to be asked.
    if isinstance(number, float) and not isfinite(number):
        return Fault(f"The 'number' ({number}) is not a number of nodes or percent.")
    exact = adjustment_type == AdjustmentType.EXACT_CAPACITY
    need = "non-negative integer" if exact else "non-zero value"
    if number < 0 if exact else number == 0:
        return Fault(f"The 'number' must be {need} for adjustment type '{adjustment_type}'.")
    return None


def _bounds_fault(min_size: int | None, max_size: int | None, ceiling: int) -> str | None:
    if min_size is not None and min_size < 0:
        return f"The specified min_size ({min_size}) is less than 0."
    if max_size is not None and max_size < UNLIMITED:
        return f"The specified max_size ({max_size}) is less than {UNLIMITED}."
    if max_size is not None and max_size > ceiling:
        return (
            f"The specified max_size ({max_size}) is greater than the maximum number of nodes "
            f"allowed per cluster ({ceiling})."
        )
    return None


def _target_fault(
    current: Sizes, desired: int | None, min_size: int | None, max_size: int | None, ceiling: int
) -> str | None:
    if desired is None:
        return None
    target = f"The target capacity ({desired}) is"
    if desired > ceiling:
        return f"{target} greater than the maximum number of nodes allowed per cluster ({ceiling})."
    if min_size is not None and desired < min_size:
        return f"{target} less than the specified min_size ({min_size})."
    if min_size is None and desired < current.min_size:
        return f"{target} less than the cluster's min_size ({current.min_size})."
    if max_size is not None and 0 <= max_size < desired:
        return f"{target} greater than the specified max_size ({max_size})."
    if max_size is None and 0 <= current.max_size < desired:
        return f"{target} greater than the cluster's max_size ({current.max_size})."
    return None


def _min_fault(
    current: Sizes, desired: int | None, min_size: int | None, max_size: int | None
) -> str | None:
    if min_size is None:
        return None
    specified = f"The specified min_size ({min_size}) is greater than the"
    if max_size is not None and 0 <= max_size < min_size:
        return f"{specified} specified max_size ({max_size})."
    if max_size is None and 0 <= current.max_size < min_size:
        return f"{specified} current max_size ({current.max_size}) of the cluster."
    if desired is None and min_size > current.desired:
        return f"{specified} current desired_capacity ({current.desired}) of the cluster."
    return None


def _max_fault(
    current: Sizes, desired: int | None, min_size: int | None, max_size: int | None
) -> str | None:
    if max_size is None or max_size < 0:
        return None
    specified = f"The specified max_size ({max_size}) is less than the"
    if min_size is None and max_size < current.min_size:
        return f"{specified} current min_size ({current.min_size}) of the cluster."
    if desired is None and max_size < current.desired:
        return f"{specified} current desired_capacity ({current.desired}) of the cluster."
    return None
