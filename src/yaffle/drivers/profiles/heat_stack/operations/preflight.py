"""Whether a stack could be made, before the one that is there is given up for it.

Heat is asked to validate what a CREATE would send. It calls a stack invalid, too, while it cannot ask
Glance, Nova or Neutron: only the words that it has for what they did answer are a refusal.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from yaffle.drivers.profiles.heat_stack.operations.create import STACK_NAME, made_of
from yaffle.drivers.profiles.heat_stack.status.ownership_tags import name_of
from yaffle.errors import BadRequest, Forbidden
from yaffle.model.operations import Outlook, Prospect

if TYPE_CHECKING:
    from yaffle.drivers.profiles.heat_stack.api.documents import Stack
    from yaffle.drivers.profiles.heat_stack.api.heat import Heat
    from yaffle.model.operations import Target

_REFUSED: Final = re.compile(
    r"Error validating value '.*': (?:No \w+ (?:unique )?match|Unable to find |The .* could not be found)"
    r"|Unknown Property |The Resource Type \(.*\) could not be found"
    r"|Image status is required to be |The Parameter \(.*\) was not (?:provided|defined)"
)
"""Of a thing that is gone, and of a template that this Heat does not understand.

That a value could not be validated says less: of a network, Heat says so while Neutron is down.
"""
_FULL: Final = re.compile(r"reached the maximum stacks per tenant, (\d{1,9})\.")


def foresee(heat: Heat, target: Target) -> Prospect:
    """Say whether Heat would refuse that CREATE; raises as `Client` does."""
    old = heat.show(target.physical_id) if target.physical_id else None
    if old is None or old.gone:
        return Prospect(outlook=Outlook.POSSIBLE, detail="there is no stack that would be given up")
    # Another name, for the old stack has its own still; nothing is made under it.
    body = {STACK_NAME: f"{name_of(target.node_id)}-foreseen", **made_of(target.spec)}
    try:
        if why := _full(heat, old, body):
            return Prospect(outlook=Outlook.IMPOSSIBLE, detail=why)
    except Forbidden:
        # What we may never ask is left to Heat's answer to the request itself.
        return Prospect(outlook=Outlook.POSSIBLE, detail="")
    except BadRequest as error:
        refused = _REFUSED.search(str(error))
        outlook = Outlook.IMPOSSIBLE if refused else Outlook.UNKNOWN
        return Prospect(outlook=outlook, detail=f"the stack cannot be validated: {error}")
    return Prospect(outlook=Outlook.POSSIBLE, detail="")


def _full(heat: Heat, old: Stack, body: dict[str, object]) -> str:
    """Validate it, and say whether others use up the project's stacks; empty where not."""
    try:
        heat.preview(body)
    except BadRequest as error:
        if (full := _FULL.search(str(error))) is None:
            raise
        others = sum(not one.parent and not one.gone and one.id != old.id for one in heat.every())
        if others >= int(full[1]):
            return f"{others} of {full[1]} stacks in use by others: delete some, or have it raised"
        # Heat counts before it validates, and the old stack with them: an update of that is not counted.
        heat.preview(body, instead_of=old)
    return ""
