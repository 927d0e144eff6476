"""Taking over stacks that somebody else has made: looked at first, then marked as a node's copy.

A mark is a tag, and tags are changed by an update only. So a stack is adopted by updating it with
what it is made of already, and only where that replaces nothing: all of it is complete, and Heat is
busy with none of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from yaffle.drivers.profiles.heat_stack import spec as specs
from yaffle.drivers.profiles.heat_stack.operations.create import where_of
from yaffle.drivers.profiles.heat_stack.status.ownership_tags import stranger, tags_for, words_in
from yaffle.drivers.profiles.heat_stack.status.status_mapping import COMPLETE
from yaffle.errors import Conflict, InvalidSpec
from yaffle.integrations.openstack.ownership_tags import NODE
from yaffle.model.operations import Inspection, InspectionState

if TYPE_CHECKING:
    from yaffle.drivers.profiles.heat_stack.api.documents import Stack
    from yaffle.drivers.profiles.heat_stack.api.heat import Heat
    from yaffle.model.operations import Target

HIDDEN: Final = "******"
"""What Heat shows instead of a parameter that is a secret."""
_NAMED_MAX: Final = 5


def inspect(
    heat: Heat,
    identity: str,
    *,
    overrides: Mapping[str, object],
    snapshot: bool,
    where: Mapping[str, object],
) -> Inspection:
    """Say what the stack with that id or name is, and which profile would make another one."""
    if snapshot:
        return _refused("taking a snapshot while adopting is not supported")
    stack = heat.show(identity)
    named = heat.named(identity) if stack is None else []
    stack = named[0] if named else stack
    if stack is None or stack.gone:
        return _absent(identity)
    if owner := words_in(stack).get(NODE, ""):
        return _refused(f"stack {stack.id} is the copy of node {owner}", owner=owner)
    if why := unfit(heat, stack):
        return _refused(why)
    given = {**properties_of(heat, stack), **overrides}
    if secret := hidden_in(given):
        return _refused(f"give the secret parameters again, Heat does not tell them: {secret}")
    try:
        properties = specs.validate(given)
    except InvalidSpec as error:
        return _refused(f"no profile can be made of it: {'; '.join(error.problems)}")
    return _as_found(heat, stack, where, properties)


def adopt(heat: Heat, target: Target, *, where: Mapping[str, object]) -> Inspection:
    """Mark the stack as the node's copy; UNKNOWN while Heat is still at it: ask again."""
    stack = heat.show(target.physical_id)
    if stack is None or stack.gone:
        return _absent(target.physical_id)
    if why := stranger(stack, target):
        return _refused(why, owner=words_in(stack)[NODE])
    ours = words_in(stack).get(NODE) == str(target.node_id)
    if ours and not stack.busy:
        return _as_found(heat, stack, where, properties_of(heat, stack))
    if not ours:
        if why := unfit(heat, stack):
            return _refused(why)
        try:
            heat.update(stack, {"tags": tags_for(target, None, stack.tags or ())})
        except Conflict as error:
            return _refused(str(error))
    return Inspection(
        state=InspectionState.UNKNOWN,
        detail=f"it is being marked, which takes an update of the stack: {stack.words}",
        physical_id=stack.id,
    )


def unfit(heat: Heat, stack: Stack) -> str:
    """Say why an update would do more to a stack than mark it; empty where it would not."""
    if stack.parent:
        return f"stack {stack.id} is a part of stack {stack.parent}; adopt that"
    if stack.busy or not stack.status.endswith(f"_{COMPLETE}") or stack.action == "SUSPEND":
        return f"only a stack that is complete can be marked: {stack.words}"
    odd = [r for r in heat.resources(stack) if not r.status.endswith(f"_{COMPLETE}")]
    if odd:
        named = ", ".join(f"{r.shown} is {r.status}" for r in odd[:_NAMED_MAX])
        return f"to mark it is to update it, which would replace what has failed: {named}"
    return ""


def properties_of(heat: Heat, stack: Stack) -> dict[str, object]:
    """Return the properties of a profile that would make another one like it."""
    detail = heat.detail(stack)
    environment = dict(heat.part(stack, "environment"))
    # In it stand the parameters once more, and Heat's own notes.
    for key in ("parameters", "encrypted_param_names", "event_sinks"):
        environment.pop(key, None)
    found: dict[str, object] = {
        "template": heat.part(stack, "template"),
        "parameters": {k: v for k, v in detail.parameters.items() if not k.startswith("OS::")},
        "files": heat.part(stack, "files"),
        "environment": {k: v for k, v in environment.items() if v and v != {"resources": {}}},
        "timeout": detail.timeout_mins,
        "disable_rollback": detail.disable_rollback,
    }
    return {key: value for key, value in found.items() if value or value is False}


def hidden_in(properties: Mapping[str, object]) -> str:
    """Return the names of the parameters whose values Heat does not show."""
    given = properties.get("parameters")
    words = given if isinstance(given, Mapping) else {}
    return ", ".join(sorted(str(name) for name, value in words.items() if value == HIDDEN))


def _as_found(
    heat: Heat, stack: Stack, where: Mapping[str, object], properties: Mapping[str, object]
) -> Inspection:
    return Inspection(
        state=InspectionState.FOUND,
        detail=stack.words,
        physical_id=stack.id,
        properties=properties,
        attributes=where_of(stack, heat.client.project_id, where),
    )


def _refused(detail: str, *, owner: str = "") -> Inspection:
    return Inspection(state=InspectionState.REFUSED, detail=detail, owner=owner)


def _absent(identity: str) -> Inspection:
    return Inspection(state=InspectionState.ABSENT, detail=f"Heat knows no stack {identity!r}")
