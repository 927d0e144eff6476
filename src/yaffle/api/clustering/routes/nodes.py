"""Nodes: made, looked at, changed, recovered, operated on, adopted and deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from yaffle.api.clustering import (
    action_requests,
    lists,
    request_schemas,
    response_schemas,
    serializers,
)
from yaffle.api.clustering.lists import Filter, Noun, Shown
from yaffle.api.clustering.microversion import V1_4, V1_7
from yaffle.api.clustering.request import ApiRequest
from yaffle.api.clustering.routes import clusters
from yaffle.api.clustering.table import Good, Param, Route
from yaffle.api.clustering.validation import Body, changed, created
from yaffle.api.http.reply import Reply
from yaffle.errors import BadRequest, NotFound
from yaffle.model.health import NodeStatus
from yaffle.model.ids import NodeId
from yaffle.store.tables import nodes

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement
    from starlette.responses import Response

NOUN: Final = Noun(
    word="node",
    plural="nodes",
    table=nodes,
    fetch=serializers.nodes_by_id,
    filters={
        "name": Filter(column=nodes.c.name),
        "status": Filter(column=nodes.c.status, words=frozenset(NodeStatus)),
    },
    sorts={
        "index": nodes.c.index,
        "name": nodes.c.name,
        "status": nodes.c.status,
        "init_at": nodes.c.created_us,
        "created_at": nodes.c.made_us,
        "updated_at": nodes.c.updated_us,
    },
    order=(nodes.c.created_us, nodes.c.id),
    extra=(
        Param(
            name="cluster_id",
            text="Only members of this cluster (id, name, or beginning of an id).",
            schema={"type": "string"},
        ),
    ),
)
DETAILS: Final = Param(
    name="show_details",
    text="Ask the backend too, and show what it says under `details`.",
    schema={"type": "string", "enum": ["true", "false", "True", "False"]},
)
NOT_A_MAP: Final = "The params provided is not a map."
BORN: Final = {
    "status": "INIT",
    "status_reason": "Initializing",
    "physical_id": None,
    "created_at": None,
    "updated_at": None,
}
"""How a node was before the action that makes it began."""


async def list_nodes(call: ApiRequest) -> Response:
    """List nodes, the oldest first."""
    cluster = call.one("cluster_id")
    more: list[ColumnElement[bool]] = []
    if cluster is not None:
        try:
            found = await lists.one(call, clusters.NOUN, cluster)
        except NotFound:
            raise BadRequest(f"Cannot find the given cluster: {cluster}.") from None
        more.append(nodes.c.cluster_id == found["id"])
    return await lists.listed(call, NOUN, *more)


async def create_node(call: ApiRequest) -> Response:
    """Create a node, alone or as a member of a cluster; it is being built when this is answered."""
    ident, action = await call.parts.commands.node_create(
        call.who,
        name=str(call.body["name"]),
        profile=str(call.body["profile_id"]),
        cluster=call.text("cluster_id") or None,
        role=call.text("role") or "",
        metadata=call.mapping("metadata"),
    )
    shown = await lists.one(call, NOUN, ident)
    return call.accepted(action, {"node": {**shown, **BORN}})


async def show_node(call: ApiRequest) -> Response:
    """Show one node."""
    wanted = call.switch("show_details")
    shown = await lists.one(call, NOUN, call.path["node"])
    if wanted:
        shown["details"] = await call.parts.queries.details(NodeId(str(shown["id"])))
    return Reply({"node": shown})


async def update_node(call: ApiRequest) -> Response:
    """Change a node; the answer shows it as it was before."""
    before = await lists.one(call, NOUN, call.path["node"])
    action = await call.parts.commands.node_update(
        call.who,
        str(before["id"]),
        name=call.text("name"),
        profile=call.text("profile_id"),
        role=call.text("role"),
        metadata=call.mapping("metadata"),
        tainted=call.flag("tainted"),
    )
    return call.accepted(action, {"node": before})


async def delete_node(call: ApiRequest) -> Response:
    """Delete a node, proved gone before it is forgotten."""
    action = await call.parts.commands.node_delete(
        call.who, await _id(call), force=call.flag("force") or call.switch("force")
    )
    return call.accepted(action, None)


async def act_on_node(call: ApiRequest) -> Response:
    """Check or recover one node: the body has one key, the verb."""
    verb, data = action_requests.chosen(
        action_requests.NODE_VERBS, call.body, call.version, not_a_map=NOT_A_MAP, end="."
    )
    ident = await _id(call)
    action_requests.recognize(action_requests.NODE_VERBS, verb, call.body[verb])
    commands = call.parts.commands
    if verb == "check":
        action = await commands.node_check(call.who, ident, data)
    else:
        action = await commands.node_recover(call.who, ident, data)
    return call.accepted(action, {"action": action})


async def operate_on_node(call: ApiRequest) -> Response:
    """Do one operation of the profile: the body has one key, its name, with the parameters."""
    operation, params = action_requests.one_operation(call.body, end=".")
    action = await call.parts.commands.node_op(call.who, await _id(call), operation, params)
    return call.accepted(action, {"action": action})


async def adopt_node(call: ApiRequest) -> Response:
    """Make a node of something that runs already, with a profile that says how it is built."""
    ident = await call.parts.commands.node_adopt(
        call.who,
        identity=str(call.body["identity"]),
        kind=str(call.body["type"]),
        name=call.text("name"),
        role=call.text("role") or "",
        metadata=call.mapping("metadata"),
        overrides=call.mapping("overrides"),
        snapshot=call.flag("snapshot"),
    )
    return Reply({"node": await lists.one(call, NOUN, ident)})


async def preview_adoption(call: ApiRequest) -> Response:
    """Show the profile that adopting would make, changing nothing."""
    found = await call.parts.commands.node_preview(
        call.who,
        identity=str(call.body["identity"]),
        kind=str(call.body["type"]),
        overrides=call.mapping("overrides"),
        snapshot=call.flag("snapshot"),
    )
    return Reply({"node_profile": {"node_preview": found}})


async def _id(call: ApiRequest) -> str:
    return await call.read(lambda conn: lists.found(call, NOUN, conn, call.path["node"]))


def _preview() -> Shown:
    inner = response_schemas.thing(
        {
            "type": response_schemas.STRING,
            "version": response_schemas.STRING,
            "properties": response_schemas.MAP,
        }
    )
    return dict(
        response_schemas.single("node_profile", response_schemas.single("node_preview", inner))
    )


ONE: Final = response_schemas.single("node", response_schemas.NODE)
ROUTES: Final = (
    Route(
        method="GET",
        path="/nodes",
        handler=list_nodes,
        tag="nodes",
        params=NOUN.params,
        good=Good(schema=response_schemas.listed("nodes", response_schemas.NODE)),
    ),
    Route(
        method="POST",
        path="/nodes",
        handler=create_node,
        tag="nodes",
        body=created("node", request_schemas.NODE_CREATE, {"name": "one", "profile_id": "web"}),
        good=Good(status=202, schema=ONE),
    ),
    Route(
        method="POST",
        path="/nodes/adopt",
        handler=adopt_node,
        tag="nodes",
        since=V1_7,
        body=Body(schema=request_schemas.NODE_ADOPT),
        good=Good(schema=ONE),
    ),
    Route(
        method="POST",
        path="/nodes/adopt-preview",
        handler=preview_adoption,
        tag="nodes",
        since=V1_7,
        body=Body(schema=request_schemas.NODE_PREVIEW),
        good=Good(schema=_preview()),
    ),
    Route(
        method="GET",
        path="/nodes/{node}",
        handler=show_node,
        tag="nodes",
        params=(DETAILS,),
        good=Good(schema=ONE),
    ),
    Route(
        method="PATCH",
        path="/nodes/{node}",
        handler=update_node,
        tag="nodes",
        body=changed("node", request_schemas.NODE_UPDATE, {"role": "primary"}),
        good=Good(status=202, schema=ONE),
    ),
    Route(
        method="DELETE",
        path="/nodes/{node}",
        handler=delete_node,
        tag="nodes",
        params=(clusters.FORCE,),
        body=Body(schema=request_schemas.FORCE, optional=True),
        good=Good(status=202, schema=response_schemas.NULL),
    ),
    Route(
        method="POST",
        path="/nodes/{node}/actions",
        handler=act_on_node,
        tag="nodes",
        body=Body(
            schema=action_requests.whole(action_requests.NODE_VERBS),
            by_handler=True,
            examples=[{"check": {}}],
        ),
        good=Good(status=202, schema=response_schemas.STARTED),
    ),
    Route(
        method="POST",
        path="/nodes/{node}/ops",
        handler=operate_on_node,
        tag="nodes",
        since=V1_4,
        body=Body(
            schema={
                "type": "object",
                "minProperties": 1,
                "maxProperties": 1,
                "additionalProperties": {"type": "object"},
            },
            by_handler=True,
            examples=[{"reboot": {"type": "SOFT"}}],
        ),
        good=Good(status=202, schema=response_schemas.STARTED),
    ),
)
