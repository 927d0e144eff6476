"""Whether a rung of the ladder is something the profile can do, with params it understands.

A policy is written before anybody knows which cluster it is attached to, so parsing checks against
what is given or generally known, and `check_operations` checks again when it is attached.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from yaffle.model.operations import OperationKind, OperationSpec, ParamSpec
from yaffle.model.policy import HealthPolicy, RungKind
from yaffle.policy import templates
from yaffle.policy.faults import Path, listed, near_miss, shown, shown_text

SNAPSHOT: Final = "SNAPSHOT"
RECREATE: Final = "RECREATE"
"""Made of DELETE and CREATE, which every profile has; the engine carries it out."""

GENERIC: Final[Mapping[str, OperationSpec]] = {
    "REBOOT": OperationSpec(
        description="Restart the node where it is.",
        in_place=True,
        params={"type": ParamSpec(type=str, choices=("SOFT", "HARD"))},
    ),
    "REBUILD": OperationSpec(description="Build the node anew, keeping its id.", in_place=True),
    "START": OperationSpec(description="Start a stopped node.", in_place=True),
    RECREATE: OperationSpec(description="Delete the node and create another.", in_place=False),
    "EVACUATE": OperationSpec(description="Move the node to another host.", in_place=False),
    "STACK_UPDATE": OperationSpec(
        description="Have the members of a stack replaced that failed.", in_place=True
    ),
}
"""Recoveries that Yaffle knows without asking a profile."""
_PARAMS_KNOWN: Final = frozenset({"REBOOT"})
"""Of those, the ones whose params we know; the others' are judged by the profile."""
NO_RECOVERY: Final = frozenset(
    {
        OperationKind.CREATE,
        OperationKind.DELETE,
        OperationKind.STOP,
        OperationKind.UPDATE,
        "DISCARD",
        "KILL",
    }
)
"""Operations of profiles that bring nothing back to life."""

Operations = Mapping[str, OperationSpec]


def recoveries(operations: Operations | None) -> tuple[str, ...]:
    """Return every name that an action of type BUILTIN may have."""
    names = dict.fromkeys((*GENERIC, *(operations or {})))
    return tuple(name for name in names if name not in NO_RECOVERY)


def name_fault(name: str, operations: Operations | None) -> str | None:
    """Return why no profile could do this, or None."""
    known = recoveries(operations)
    if name in known:
        return None
    if name in NO_RECOVERY:
        return f"{name} recovers nothing; known: {listed(known)}"
    return (
        f"unknown action {shown_text(name)!r}{near_miss(name, known)}; known: {listed(known)}"
        " (a workflow needs its type: MISTRAL_WORKFLOW, COMMAND or HTTP)"
    )


def is_in_place(name: str, operations: Operations | None) -> bool:
    """Whether the operation cannot create a second copy; in doubt it can."""
    if name == RECREATE:
        return False
    spec = (operations or {}).get(name) or GENERIC.get(name)
    return spec is not None and spec.in_place


def param_faults(
    name: str, params: Mapping[str, object], operations: Operations | None
) -> Iterator[tuple[Path, str]]:
    """Yield place within `params` and sentence of everything the operation does not understand."""
    specs = _specs(name, operations)
    if specs is None:
        return
    for key, value in params.items():
        if key not in specs:
            known = f"known: {listed(specs)}" if specs else f"{name} takes none"
            yield (key,), f"unknown parameter of {name}{near_miss(key, specs)}; {known}"
        elif not templates.has_template(value) and (text := _value_fault(value, specs[key])):
            yield (key,), text
    for key, spec in specs.items():
        if spec.required and key not in params:
            yield (), f"{name} needs the parameter {key}"


def canonical_params(
    name: str, params: Mapping[str, object], operations: Operations | None
) -> dict[str, object]:
    """Return `params` with choices spelt as declared: `soft` becomes `SOFT`."""
    specs = _specs(name, operations) or {}
    return {
        key: _choice(value, specs[key]) if key in specs else value for key, value in params.items()
    }


def check_operations(policy: HealthPolicy, profile_operations: Operations) -> tuple[str, ...]:
    """Return what the profile lacks to carry out the ladder; empty when it can be attached."""
    return tuple(_lacks(policy, profile_operations))


def caveats(policy: HealthPolicy, operations: Operations) -> Iterator[tuple[Path, str]]:
    """Yield place and sentence of what the profile can do only at times."""
    snapshot, spec = policy.recovery.snapshot, operations.get(SNAPSHOT)
    if snapshot is not None and snapshot.take and spec is not None and spec.caveat:
        yield ("properties", "recovery", "snapshot"), spec.caveat


def _lacks(policy: HealthPolicy, operations: Operations) -> Iterator[str]:
    offered = [name for name in operations if name not in NO_RECOVERY]
    for place, action in enumerate(policy.recovery.actions):
        if action.kind is not RungKind.BUILTIN:
            continue
        where = f"recovery.actions.{place}"
        if action.name != RECREATE and action.name not in operations:
            known = listed(dict.fromkeys((*offered, RECREATE)))
            yield f"{where}.name: this profile has no operation {action.name}; it has {known}"
            continue
        for path, text in param_faults(action.name, action.params, operations):
            yield f"{where}.params{''.join(f'.{part}' for part in path)}: {text}"


def _specs(name: str, operations: Operations | None) -> Mapping[str, ParamSpec] | None:
    """Return the declared params; None where nobody has declared them."""
    if operations is not None and name in operations:
        return operations[name].params
    return GENERIC[name].params if name in _PARAMS_KNOWN else None


def _value_fault(value: object, spec: ParamSpec) -> str | None:
    if spec.choices:
        if _choice(value, spec) in spec.choices:
            return None
        hint = near_miss(value, [str(c) for c in spec.choices]) if isinstance(value, str) else ""
        return f"{shown(value)} is not allowed{hint}; choose from {listed(map(str, spec.choices))}"
    if _is_of(value, spec.type):
        return None
    return f"has to be {_TYPE_WORDS.get(spec.type, spec.type.__name__)}, not {shown(value)}"


_TYPE_WORDS: Final[Mapping[type, str]] = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    dict: "a mapping",
    list: "a list",
}


def _is_of(value: object, wanted: type) -> bool:
    # In Python True is an int; in a document it is not.
    if isinstance(value, bool):
        return wanted in (bool, object)
    if wanted is float:
        return isinstance(value, (int, float))
    return isinstance(value, wanted)


def _choice(value: object, spec: ParamSpec) -> object:
    if not isinstance(value, str):
        return value
    for choice in spec.choices:
        if isinstance(choice, str) and choice.casefold() == value.casefold():
            return choice
    return value
