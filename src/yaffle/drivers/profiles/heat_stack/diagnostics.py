"""Evidence and facts for people: the stack's state, its members, and what happened to it last."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from yaffle.drivers.profiles.heat_stack.operations.create import where_of
from yaffle.errors import YaffleError

if TYPE_CHECKING:
    from yaffle.drivers.profiles.heat_stack.api.documents import Stack
    from yaffle.drivers.profiles.heat_stack.api.heat import Heat
    from yaffle.drivers.profiles.heat_stack.status.reading import Reader
    from yaffle.model.operations import Target

BYTES_MAX: Final = 64 * 1024
_EVENTS: Final = 20
_MEMBERS: Final = 200


def capture(heat: Heat, reader: Reader, target: Target) -> str:
    """Return what can be had of the failure; each part that cannot says why."""
    ident = target.physical_id
    stack = heat.show(ident) if ident else None
    if stack is None:
        return f"no evidence: Heat knows no stack {ident}" if ident else "no stack was ever made"
    parts = [f"stack {stack.id}: {stack.words}"]
    parts += ["no members: it is deleted"] if stack.gone else [_members(reader, stack)]
    parts.append(_events(heat, stack))
    return "\n".join(parts).encode()[:BYTES_MAX].decode("utf-8", "ignore")


def _members(reader: Reader, stack: Stack) -> str:
    try:
        members = reader.members(stack)
    except YaffleError as error:
        return f"members: not readable: {error}"
    lines = [f"  {m.state}: {m.resource.type} {m.words}" for m in members[:_MEMBERS]]
    return "\n".join(("members:", *(lines or ["  none"])))


def _events(heat: Heat, stack: Stack) -> str:
    try:
        events = heat.events(stack, newest=_EVENTS)
    except YaffleError as error:
        return f"events: not readable: {error}"
    lines = [f"  {e.at} {e.name} {e.status} {e.reason or ''}" for e in events]
    return "\n".join(("events, the newest first:", *(lines or ["  none"])))


def describe(heat: Heat, target: Target, where: Mapping[str, object]) -> Mapping[str, object]:
    """Return JSON-able facts about the present copy; empty when there is none."""
    stack = heat.show(target.physical_id) if target.physical_id else None
    if stack is None or stack.gone:
        return {}
    outputs = {str(o.get("output_key")): o.get("output_value") for o in heat.detail(stack).outputs}
    return {
        **where_of(stack, heat.client.project_id, where),
        "id": stack.id,
        "status": stack.status,
        "state": stack.words,
        "created": stack.created,
        "updated": stack.updated,
        "tags": list(stack.tags or ()),
        "outputs": outputs,
        "members": {
            resource.shown: f"{resource.type} {resource.status} {resource.physical_id or ''}".strip()
            for resource in heat.resources(stack)
        },
    }
