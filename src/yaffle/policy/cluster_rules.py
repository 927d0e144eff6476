"""Rules of deletion, scaling and batch documents that span several keys, and what has no effect.

Asked of documents whose shape is right: every number is a number then.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from yaffle.model.cluster_policies import AdjustmentType, HookType
from yaffle.policy.cluster_schema import (
    AdjustmentSpec,
    ClusterDocument,
    DeletionDocument,
    DeletionSpec,
    HooksSpec,
    ScalingDocument,
)
from yaffle.policy.faults import Fault, Path, shown

HOOKS: Final[Path] = ("properties", "hooks")
ADJUSTMENT: Final[Path] = ("properties", "adjustment")


def faults(spec: ClusterDocument) -> Iterator[Fault]:
    """Yield every fault."""
    if isinstance(spec, DeletionDocument):
        yield from _hook_faults(hooks_of(spec.properties))
    elif isinstance(spec, ScalingDocument) and spec.properties.adjustment is not None:
        yield from _adjustment_faults(spec.properties.adjustment)


def warnings(spec: ClusterDocument) -> Iterator[Fault]:
    """Yield what is accepted but has no effect, or another one than it seems."""
    if isinstance(spec, DeletionDocument):
        yield from _hook_warnings(hooks_of(spec.properties))
    elif isinstance(spec, ScalingDocument) and spec.properties.adjustment is not None:
        yield from _adjustment_warnings(spec.properties.adjustment)


def hooks_of(spec: DeletionSpec) -> HooksSpec | None:
    """Return the hook; an empty mapping is none, as in Senlin."""
    hooks = spec.hooks
    return hooks if hooks is not None and hooks.model_fields_set else None


def _hook_faults(hooks: HooksSpec | None) -> Iterator[Fault]:
    if hooks is None:
        return
    if hooks.type is HookType.ZAQAR:
        given = "zaqar" if "type" in hooks.model_fields_set else "absent means zaqar, which"
        text = f"{given} is not served here; write type: webhook and params: {{url: …}}"
        yield Fault(path=(*HOOKS, "type"), text=text)
    elif hooks.params is None or not hooks.params.url:
        text = "required for webhook, for example https://host/path"
        yield Fault(path=(*HOOKS, "params", "url"), text=text)


def _hook_warnings(hooks: HooksSpec | None) -> Iterator[Fault]:
    if hooks is None:
        return
    if hooks.params is not None and hooks.params.queue:
        text = "no effect: only zaqar has a queue"
        yield Fault(path=(*HOOKS, "params", "queue"), text=text, at_key=True)
    if not hooks.timeout:
        text = "0 or absent: the node is removed at once, whatever the hook answers"
        yield Fault(path=(*HOOKS, "timeout"), text=text)


def _adjustment_faults(adjustment: AdjustmentSpec) -> Iterator[Fault]:
    if not _is_percentage(adjustment) and adjustment.number != int(adjustment.number):
        text = f"{shown(adjustment.number)} is not a whole number of nodes"
        yield Fault(path=(*ADJUSTMENT, "number"), text=text)


def _adjustment_warnings(adjustment: AdjustmentSpec) -> Iterator[Fault]:
    if not _is_percentage(adjustment) and adjustment.min_step > 1:
        text = f"no effect: only {AdjustmentType.CHANGE_IN_PERCENTAGE} has a least step"
        yield Fault(path=(*ADJUSTMENT, "min_step"), text=text, at_key=True)


def _is_percentage(adjustment: AdjustmentSpec) -> bool:
    return adjustment.type is AdjustmentType.CHANGE_IN_PERCENTAGE
