"""Types of profiles and policies: which there are, what they take, what they can do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from yaffle.api.clustering import kinds, objects
from yaffle.api.clustering.call import Call
from yaffle.api.clustering.microversion import V1_4, V1_5
from yaffle.api.clustering.table import Good, Route
from yaffle.api.reply import Reply
from yaffle.errors import BadRequest, NotFound

if TYPE_CHECKING:
    from starlette.responses import Response

    from yaffle.api.clustering.kinds import Kind


async def list_profile_types(call: Call) -> Response:
    """List the types of profiles that are installed here."""
    return _listed(call, "profile_types", kinds.profile_kinds(call.parts.queries.drivers.profiles))


async def show_profile_type(call: Call) -> Response:
    """Show which properties a profile of this type takes."""
    found = kinds.profile_kinds(call.parts.queries.drivers.profiles)
    return _shown(call, "profile_type", found)


async def list_profile_operations(call: Call) -> Response:
    """Show what can be done to nodes of this type through `…/ops`, with the parameters."""
    full = call.path["type"]
    driver = call.parts.queries.drivers.profiles.get(full)
    if driver is None:
        raise BadRequest(f"The specified profile_type '{full}' could not be found.")
    return Reply({"operations": kinds.operations(driver.operations)})


async def list_policy_types(call: Call) -> Response:
    """List the types of policies."""
    return _listed(call, "policy_types", kinds.policy_kinds())


async def show_policy_type(call: Call) -> Response:
    """Show which properties a policy of this type takes."""
    return _shown(call, "policy_type", kinds.policy_kinds())


def _listed(call: Call, key: str, found: Mapping[str, Kind]) -> Response:
    if call.version < V1_5:
        return Reply({key: [{"name": full} for full in found]})
    return Reply({key: [kind.item() for kind in found.values()]})


def _shown(call: Call, key: str, found: Mapping[str, Kind]) -> Response:
    full = call.path["type"]
    if full not in found:
        raise NotFound(
            f"The {key} '{full}' could not be found.", hint=f"known: {', '.join(found) or 'none'}"
        )
    shown: dict[str, object] = {"name": full, "schema": found[full].schema}
    if call.version >= V1_5:
        shown["support_status"] = found[full].support
    return Reply({key: shown})


ROUTES: Final = (
    Route(
        method="GET",
        path="/profile-types",
        handler=list_profile_types,
        tag="types",
        good=Good(schema=objects.listed("profile_types", objects.TYPE_ITEM)),
    ),
    Route(
        method="GET",
        path="/profile-types/{type}",
        handler=show_profile_type,
        tag="types",
        good=Good(schema=objects.single("profile_type", objects.TYPE)),
    ),
    Route(
        method="GET",
        path="/profile-types/{type}/ops",
        handler=list_profile_operations,
        tag="types",
        since=V1_4,
        good=Good(schema=objects.OPERATIONS),
    ),
    Route(
        method="GET",
        path="/policy-types",
        handler=list_policy_types,
        tag="types",
        good=Good(schema=objects.listed("policy_types", objects.TYPE_ITEM)),
    ),
    Route(
        method="GET",
        path="/policy-types/{type}",
        handler=show_policy_type,
        tag="types",
        good=Good(schema=objects.single("policy_type", objects.TYPE)),
    ),
)
