"""Types of profiles and policies: which there are, what they take, what they can do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from yaffle.api.clustering import response_schemas, type_serializers
from yaffle.api.clustering.microversion import V1_4, V1_5
from yaffle.api.clustering.request import ApiRequest
from yaffle.api.clustering.table import Good, Route
from yaffle.api.http.reply import Reply
from yaffle.errors import BadRequest, NotFound

if TYPE_CHECKING:
    from starlette.responses import Response

    from yaffle.api.clustering.type_serializers import Kind


async def list_profile_types(call: ApiRequest) -> Response:
    """List the types of profiles that are installed here."""
    return _listed(
        call, "profile_types", type_serializers.profile_kinds(call.parts.queries.drivers.profiles)
    )


async def show_profile_type(call: ApiRequest) -> Response:
    """Show which properties a profile of this type takes."""
    found = type_serializers.profile_kinds(call.parts.queries.drivers.profiles)
    return _shown(call, "profile_type", found)


async def list_profile_operations(call: ApiRequest) -> Response:
    """Show what can be done to nodes of this type through `…/ops`, with the parameters."""
    full = call.path["type"]
    driver = call.parts.queries.drivers.profiles.get(full)
    if driver is None:
        raise BadRequest(f"The specified profile_type '{full}' could not be found.")
    return Reply({"operations": type_serializers.operations(driver.operations)})


async def list_policy_types(call: ApiRequest) -> Response:
    """List the types of policies."""
    return _listed(call, "policy_types", type_serializers.policy_kinds())


async def show_policy_type(call: ApiRequest) -> Response:
    """Show which properties a policy of this type takes."""
    return _shown(call, "policy_type", type_serializers.policy_kinds())


def _listed(call: ApiRequest, key: str, found: Mapping[str, Kind]) -> Response:
    if call.version < V1_5:
        return Reply({key: [{"name": full} for full in found]})
    return Reply({key: [kind.item() for kind in found.values()]})


def _shown(call: ApiRequest, key: str, found: Mapping[str, Kind]) -> Response:
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
        good=Good(schema=response_schemas.listed("profile_types", response_schemas.TYPE_ITEM)),
    ),
    Route(
        method="GET",
        path="/profile-types/{type}",
        handler=show_profile_type,
        tag="types",
        good=Good(schema=response_schemas.single("profile_type", response_schemas.TYPE)),
    ),
    Route(
        method="GET",
        path="/profile-types/{type}/ops",
        handler=list_profile_operations,
        tag="types",
        since=V1_4,
        good=Good(schema=response_schemas.OPERATIONS),
    ),
    Route(
        method="GET",
        path="/policy-types",
        handler=list_policy_types,
        tag="types",
        good=Good(schema=response_schemas.listed("policy_types", response_schemas.TYPE_ITEM)),
    ),
    Route(
        method="GET",
        path="/policy-types/{type}",
        handler=show_policy_type,
        tag="types",
        good=Good(schema=response_schemas.single("policy_type", response_schemas.TYPE)),
    ),
)
