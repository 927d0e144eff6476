"""Shapes of the policies that decide over a cluster's size: deletion, scaling and batch.

Defaults stand here, since no version changes them. Names, values and defaults are Senlin's; where
Senlin takes a number that can only fail later (a negative time, a batch of none), it is refused.
"""

from __future__ import annotations

from typing import Annotated, Final

from yaffle.model.cluster_policies import AdjustmentType, Criteria, HookType, ScalingEvent
from yaffle.policy import field_types as f
from yaffle.policy.versions import Grammar, Place, Spec

NODES_MAX: Final = 100_000
WEEK: Final = 7 * f.DAY

_Flag = Annotated[bool, f.FLAG]


class HookParamsSpec(Spec):
    """`hooks.params`."""

    queue: Annotated[str, f.text(255)] = ""
    url: Annotated[str, f.HOOK_URL] = ""


class HooksSpec(Spec):
    """`hooks`."""

    type: Annotated[HookType, f.word(HookType)] = HookType.ZAQAR
    params: HookParamsSpec | None = None
    timeout: Annotated[int, f.count(0, WEEK)] = 0


class DeletionSpec(Spec):
    """`properties` of a deletion policy."""

    criteria: Annotated[Criteria, f.word(Criteria)] = Criteria.RANDOM
    destroy_after_deletion: _Flag = True
    grace_period: Annotated[int, f.count(0, WEEK)] = 0
    reduce_desired_capacity: _Flag = True
    hooks: HooksSpec | None = None


class AdjustmentSpec(Spec):
    """`adjustment`."""

    type: Annotated[AdjustmentType, f.word(AdjustmentType)] = AdjustmentType.CHANGE_IN_CAPACITY
    number: Annotated[float, f.positive(NODES_MAX)] = 1
    min_step: Annotated[int, f.count(0, NODES_MAX)] = 1
    best_effort: _Flag = False
    cooldown: Annotated[int, f.count(0, 30 * f.DAY)] = 0


class ScalingSpec(Spec):
    """`properties` of a scaling policy."""

    event: Annotated[ScalingEvent, f.word(ScalingEvent)]
    adjustment: AdjustmentSpec | None = None


class BatchSpec(Spec):
    """`properties` of a batch policy."""

    min_in_service: Annotated[int, f.count(0, NODES_MAX)] = 1
    max_batch_size: Annotated[int, f.count_or_unlimited(NODES_MAX)] = -1
    pause_time: Annotated[int, f.count(0, f.DAY)] = 60


class _DocumentSpec(Spec):
    """The part that all documents have; type and version are judged before."""

    type: object
    version: object
    name: Annotated[str | None, f.text(255, 1)] = None
    description: Annotated[str | None, f.text(4096)] = None


class DeletionDocument(_DocumentSpec):
    """A whole deletion policy."""

    properties: DeletionSpec


class ScalingDocument(_DocumentSpec):
    """A whole scaling policy."""

    properties: ScalingSpec


class BatchDocument(_DocumentSpec):
    """A whole batch policy."""

    properties: BatchSpec


ClusterDocument = DeletionDocument | ScalingDocument | BatchDocument

_P: Final[Place] = ("properties",)
_H: Final[Place] = (*_P, "hooks")

DELETION: Final = Grammar(
    shapes={
        (): DeletionDocument,
        _P: DeletionSpec,
        _H: HooksSpec,
        (*_H, "params"): HookParamsSpec,
    },
    since={_H: "1.1"},
    missing={_P: "required; {} means Senlin's defaults"},
)
SCALING: Final = Grammar(
    shapes={(): ScalingDocument, _P: ScalingSpec, (*_P, "adjustment"): AdjustmentSpec},
    missing={
        _P: "required; it holds event and adjustment",
        (*_P, "event"): f"required; {' or '.join(ScalingEvent)}",
    },
)
BATCH: Final = Grammar(
    shapes={(): BatchDocument, _P: BatchSpec},
    missing={_P: "required; {} means Senlin's defaults"},
)
