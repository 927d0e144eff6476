"""Clusters: made, changed, scaled, operated on and deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from yaffle.api.clustering import (
    action_requests,
    lists,
    request_schemas,
    response_schemas,
    serializers,
)
from yaffle.api.clustering.errors import HTTPBadRequest
from yaffle.api.clustering.lists import Filter, Noun
from yaffle.api.clustering.microversion import V1_4, V1_6
from yaffle.api.clustering.request import ApiRequest
from yaffle.api.clustering.table import Good, Param, Route
from yaffle.api.clustering.validation import Body, changed, check, created
from yaffle.api.http.reply import Reply
from yaffle.core.scaling import sizes
from yaffle.errors import BadRequest
from yaffle.store.tables import clusters

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.responses import Response

_RESIZES: Final = ("adjustment_type", "number", "min_size", "max_size")
STATUSES: Final = frozenset(
    {
        "INIT",
        "ACTIVE",
        "CREATING",
        "UPDATING",
        "RESIZING",
        "DELETING",
        "CHECKING",
        "RECOVERING",
        "CRITICAL",
        "ERROR",
        "WARNING",
        "OPERATING",
    }
)
NOUN: Final = Noun(
    word="cluster",
    plural="clusters",
    table=clusters,
    fetch=serializers.clusters_by_id,
    filters={
        "name": Filter(column=clusters.c.name),
        "status": Filter(column=clusters.c.status, words=STATUSES),
    },
    sorts={
        "name": clusters.c.name,
        "status": clusters.c.status,
        "init_at": clusters.c.created_us,
        "created_at": clusters.c.made_us,
        "updated_at": clusters.c.updated_us,
    },
    order=(clusters.c.created_us, clusters.c.id),
    # Each comes with the ids of all its nodes.
    portion=50,
)
FORCE: Final = Param(
    name="force",
    text="As `force` in the body.",
    schema={"type": "string", "enum": ["true", "false", "True", "False"]},
)
BORN: Final[lists.Shown] = {
    "status": "INIT",
    "status_reason": "Initializing",
    "created_at": None,
    "updated_at": None,
    "nodes": [],
}
"""How a cluster was before the action that makes it began."""
FILTERS: Final = frozenset({"name", "profile_id", "status", "role"})
OPERATION: Final = request_schemas.shape(filters=request_schemas.MAP, params=request_schemas.MAP)


async def list_clusters(call: ApiRequest) -> Response:
    """List clusters, the oldest first, with the ids of their nodes and policies."""
    return await lists.listed(call, NOUN)


async def create_cluster(call: ApiRequest) -> Response:
    """Create a cluster; its nodes are being built when this is answered."""
    ident, action = await call.parts.commands.cluster_create(
        call.who,
        name=str(call.body["name"]),
        profile=str(call.body["profile_id"]),
        desired_capacity=call.number("desired_capacity"),
        min_size=call.number("min_size"),
        max_size=call.number("max_size"),
        timeout=call.number("timeout"),
        metadata=call.mapping("metadata"),
        config=call.mapping("config"),
    )
    shown = await lists.one(call, NOUN, ident)
    return call.accepted(action, {"cluster": {**shown, **BORN}})


async def show_cluster(call: ApiRequest) -> Response:
    """Show one cluster with the ids of its nodes and policies."""
    return Reply({"cluster": await lists.one(call, NOUN, call.path["cluster"])})


async def update_cluster(call: ApiRequest) -> Response:
    """Change a cluster; the answer shows it as it was before."""
    before = await lists.one(call, NOUN, call.path["cluster"])
    action = await call.parts.commands.cluster_update(
        call.who,
        str(before["id"]),
        name=call.text("name"),
        profile=call.text("profile_id"),
        metadata=call.mapping("metadata"),
        timeout=call.number("timeout"),
        # Before there was such a key it said nothing, as any that is not known.
        profile_only=call.flag("profile_only") if call.version >= V1_6 else None,
        config=call.mapping("config"),
    )
    return call.accepted(action, {"cluster": before})


async def delete_cluster(call: ApiRequest) -> Response:
    """Delete a cluster with its nodes."""
    force = call.flag("force") or call.switch("force")
    action = await call.parts.commands.cluster_delete(call.who, await id_of(call), force=force)
    return call.accepted(action, None)


def _check_resize(data: Mapping[str, object]) -> None:
    """Raise HTTPBadRequest for data that say nothing, or only half of what they mean."""
    kind, number, least, most = map(data.get, _RESIZES)
    fault = sizes.request_fault(kind, number, least, most)
    if fault is not None:
        raise HTTPBadRequest(fault.text)
    _check_bounds(least, most)


def _check_bounds(least: object, most: object) -> None:
    if isinstance(least, int) and isinstance(most, int) and 0 <= most < least:
        raise HTTPBadRequest(
            f"The specified min_size ({least}) is greater than the specified max_size ({most})."
        )


async def act_on_cluster(call: ApiRequest) -> Response:
    """Scale, resize, check, recover, take in and let go, attach policies: the one key says what."""
    verb, data = action_requests.chosen(
        action_requests.CLUSTER_VERBS,
        call.body,
        call.version,
        not_a_map="The data provided is not a map",
        end="",
    )
    if verb == "resize":
        _check_resize(data)
    ident = await id_of(call)
    action_requests.recognize(action_requests.CLUSTER_VERBS, verb, call.body[verb])
    if verb in {"scale_in", "scale_out"} and data.get("count") == 0:
        raise BadRequest(f"Count for {verb.replace('_', '-')} request cannot be 0.")
    action = await call.parts.commands.cluster_act(call.who, ident, verb, data)
    return call.accepted(action, {"action": action})


async def operate_on_cluster(call: ApiRequest) -> Response:
    """Do one operation of the profile on every member that the filters choose."""
    operation, given = action_requests.one_operation(call.body)
    if given and not given.keys() & OPERATION["properties"].keys():
        # openstacksdk, and with it `openstack cluster op`, has no word for filters or params.
        given = {"params": given}
    data = check(OPERATION, given)
    filters = data.get("filters") or {}
    params = data.get("params") or {}
    assert isinstance(filters, dict)  # noqa: S101 - so says the schema
    assert isinstance(params, dict)  # noqa: S101 - so says the schema
    unknown = sorted(set(filters) - FILTERS)
    if unknown:
        raise BadRequest(f"Filter key '{unknown[0][:100]}' is unsupported")
    action = await call.parts.commands.cluster_op(
        call.who, await id_of(call), operation, filters, params
    )
    return call.accepted(action, {"action": action})


async def id_of(call: ApiRequest) -> str:
    """Return the id of the cluster in the path; raise NotFound or MultipleChoices."""
    return await call.read(lambda conn: lists.found(call, NOUN, conn, call.path["cluster"]))


ONE: Final = response_schemas.single("cluster", response_schemas.CLUSTER)
EXAMPLE: Final = {"name": "web", "profile_id": "web", "desired_capacity": 3, "max_size": 10}
ROUTES: Final = (
    Route(
        method="GET",
        path="/clusters",
        handler=list_clusters,
        tag="clusters",
        params=NOUN.params,
        good=Good(schema=response_schemas.listed("clusters", response_schemas.CLUSTER)),
    ),
    Route(
        method="POST",
        path="/clusters",
        handler=create_cluster,
        tag="clusters",
        body=created("cluster", request_schemas.CLUSTER_CREATE, EXAMPLE),
        good=Good(status=202, schema=ONE),
    ),
    Route(
        method="GET",
        path="/clusters/{cluster}",
        handler=show_cluster,
        tag="clusters",
        good=Good(schema=ONE),
    ),
    Route(
        method="PATCH",
        path="/clusters/{cluster}",
        handler=update_cluster,
        tag="clusters",
        body=changed("cluster", request_schemas.CLUSTER_UPDATE, {"metadata": {"team": "web"}}),
        good=Good(status=202, schema=ONE),
    ),
    Route(
        method="DELETE",
        path="/clusters/{cluster}",
        handler=delete_cluster,
        tag="clusters",
        params=(FORCE,),
        body=Body(schema=request_schemas.FORCE, optional=True),
        good=Good(status=202, schema=response_schemas.NULL),
    ),
    Route(
        method="POST",
        path="/clusters/{cluster}/actions",
        handler=act_on_cluster,
        tag="clusters",
        body=Body(
            schema=action_requests.whole(action_requests.CLUSTER_VERBS),
            by_handler=True,
            examples=[{"scale_out": {"count": 1}}, {"check": {}}],
        ),
        good=Good(status=202, schema=response_schemas.STARTED),
    ),
    Route(
        method="POST",
        path="/clusters/{cluster}/ops",
        handler=operate_on_cluster,
        tag="clusters",
        since=V1_4,
        body=Body(
            schema={
                "type": "object",
                "minProperties": 1,
                "maxProperties": 1,
                "additionalProperties": {
                    "anyOf": [OPERATION, request_schemas.MAP],
                    "description": "Without `filters` and `params`, all of it is the parameters.",
                },
            },
            by_handler=True,
            examples=[{"reboot": {"filters": {"role": "web"}, "params": {"type": "SOFT"}}}],
        ),
        good=Good(status=202, schema=response_schemas.STARTED),
    ),
)
