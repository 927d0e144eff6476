"""The `details` of a node: the driver's own facts, or those that every driver has."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from yaffle.engine.action_inputs.target_mapping import target_of
from yaffle.engine.runtime.driver_call import Failure, call_driver
from yaffle.model.operations import Reading
from yaffle.ports import SupportsDescription
from yaffle.store import catalog

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from yaffle.engine.runtime.context import EngineContext
    from yaffle.model.ids import NodeId
    from yaffle.model.operations import Target
    from yaffle.ports import Profile

CALL_S: Final = 5.0
GRACE_S: Final = 0.5


async def details_of(ctx: EngineContext, node_id: NodeId) -> Mapping[str, object]:
    """Return JSON-able facts about a node's copy; empty for a node that is gone or was never made.

    Bounded; what cannot be asked is said under `unclear`.
    """

    def work(conn: Connection) -> Target | None:
        node = catalog.node(conn, node_id)
        if node is None or not node.physical_id:
            return None
        return target_of(node, catalog.profile(conn, node.profile_id), "")

    target = await ctx.store.read(work)
    profile = None if target is None else ctx.drivers.profiles.get(target.profile_type)
    if target is None or profile is None:
        return {}
    found = await _described(profile, target)
    return {**target.attributes, "physical_id": target.physical_id, **found}


async def _described(profile: Profile, target: Target) -> Mapping[str, object]:
    if not isinstance(profile, SupportsDescription):
        return await _read(profile, target)
    answer = await call_driver(
        lambda: profile.describe(target, deadline_s=CALL_S),
        Mapping,  # type: ignore[type-abstract]
        within_s=CALL_S + GRACE_S,
        what=f"{profile.type} describing {target.name}",
    )
    if isinstance(answer, Failure):
        return {"unclear": answer.why}
    try:
        told: dict[str, object] = json.loads(json.dumps(dict(answer)))
    except (TypeError, ValueError) as error:
        return {"unclear": f"the driver's facts are no JSON: {error}"}
    return told


async def _read(profile: Profile, target: Target) -> Mapping[str, object]:
    answer = await call_driver(
        lambda: profile.read([target], deadline_s=CALL_S),
        Sequence,  # type: ignore[type-abstract]
        within_s=CALL_S + GRACE_S,
        what=f"{profile.type} reading {target.name}",
    )
    if isinstance(answer, Failure):
        return {"unclear": answer.why}
    if len(answer) != 1 or not isinstance(answer[0], Reading):
        return {"unclear": "the driver's answer makes no sense"}
    return {"status": answer[0].backend_status, "detail": answer[0].detail}
